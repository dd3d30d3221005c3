//! `rpc completion` prints the script for a shell, `rpc complete` answers it, and `rpc man` writes the manual pages: all
//! from the commands' own definitions.

use std::io;

use clap::CommandFactory as _;

use super::context::Context;
use crate::ask::{AskError, Schemas};
use crate::cli::Cli;
use crate::cli::completion::{Complete, Completion, Man};
use crate::completion::memory::Memory;
use crate::completion::{Known, Line, complete, script};
use crate::error::Error;
use crate::exit::Exit;
use crate::settings::Settings;

/// Prints a shell's script.
pub fn run(args: &Completion, cx: Context<'_>) -> Result<Exit, Error> {
    cx.printer.text(script(args.shell))?;
    Ok(Exit::Passed)
}

/// Answers a shell. Whatever is wrong with the configuration is told by other commands.
pub fn answer(args: &Complete, cx: Context<'_>) -> Result<Exit, Error> {
    let settings = Settings::load(cx.config, cx.environment).ok();
    let schemas = Schemas::load(settings.as_ref()).or_else(|_| Schemas::load(None))?;
    let memory = Memory::load(cx.environment);
    let known = Known {
        agents: &schemas.store,
        nodes: &memory.nodes,
        facts: &memory.facts,
    };
    let mut root = Cli::command();
    root.build();
    let line = Line::read(args.shell, &args.words);
    let candidates = complete(&root, &known, &line.before, &line.current);
    cx.printer.text(line.answer(args.shell, &candidates))?;
    Ok(Exit::Passed)
}

/// Writes the manual pages.
pub fn man(args: &Man) -> Result<Exit, Error> {
    let failed = |source: io::Error| AskError::Output {
        path: args.directory.clone(),
        source,
    };
    std::fs::create_dir_all(&args.directory).map_err(failed)?;
    let command = Cli::command().disable_help_subcommand(true);
    clap_mangen::generate_to(command, &args.directory).map_err(failed)?;
    Ok(Exit::Passed)
}
