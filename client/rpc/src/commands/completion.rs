//! `rpc completion` prints a shell's completion script, `rpc complete` returns candidates to it, and `rpc man` writes the manual pages.
//! All are generated from the command definitions.

use std::io;

use clap::CommandFactory as _;
use muster_request::AgentSchemas;

use crate::cli::Cli;
use crate::cli::completion::{CompleteArgs, CompletionArgs, ManPagesArgs};
use crate::commands::context::{CommandContext, CommandExitCode, CommandResult};
use crate::completion::memory::SeenNamesCache;
use crate::completion::{CompletionLine, CompletionSources, complete_word, completion_script};
use crate::error::ResultWriteError;

/// Prints the completion script of a shell.
pub fn run(args: &CompletionArgs, cx: CommandContext<'_>) -> CommandResult {
    cx.printer.print_text(completion_script(args.shell))?;
    Ok(CommandExitCode::Passed)
}

/// Prints completion candidates. Ignores errors of the configuration, which other commands report.
pub fn answer_shell(args: &CompleteArgs, cx: CommandContext<'_>) -> CommandResult {
    let settings = cx.settings().ok();
    let schemas = AgentSchemas::load(settings.as_ref()).or_else(|_| AgentSchemas::load(None))?;
    let cache = SeenNamesCache::load(cx.environment);
    let sources =
        CompletionSources { agents: &schemas.store, nodes: &cache.nodes, facts: &cache.facts };
    let mut root = Cli::command();
    root.build();
    let line = CompletionLine::from_shell(args.shell, &args.words);
    let candidates = complete_word(&root, &sources, &line.before, &line.current);
    cx.printer.print_text(line.render_answer(args.shell, &candidates))?;
    Ok(CommandExitCode::Passed)
}

/// Writes the manual pages.
pub fn write_man_pages(args: &ManPagesArgs) -> CommandResult {
    let failed = |source: io::Error| ResultWriteError::File(args.directory.clone(), source);
    std::fs::create_dir_all(&args.directory).map_err(failed)?;
    let command = Cli::command().disable_help_subcommand(true);
    clap_mangen::generate_to(command, &args.directory).map_err(failed)?;
    Ok(CommandExitCode::Passed)
}
