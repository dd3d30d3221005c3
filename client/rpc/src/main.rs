//! The `rpc` command: asks a fleet, and looks after the organisation that the fleet belongs to.
//!
//! Read from here: [`cli`] says what may be typed, [`commands`] has one file for each command, [`printer`] is all that
//! prints, [`diagnostics`] tells of failures, [`exit`] has the exit codes.

#![expect(
    unreachable_pub,
    reason = "a command has no outside: `pub` says what the other files may use"
)]

mod approval;
mod ask;
mod broker;
mod bundle;
mod caches;
mod cli;
mod clock;
mod cloud_init;
mod commands;
mod completion;
mod diagnostics;
mod doctor;
mod environment;
mod error;
mod exit;
mod files;
mod jobs;
mod organisation;
mod policy;
mod printer;
mod render;
mod reply_filter;
mod report;
mod runs;
mod schemas;
mod screen;
mod settings;
mod skeleton;

use std::process::ExitCode;

use crate::cli::Cli;
use crate::environment::Environment;
use crate::error::Error;
use crate::exit::Exit;
use crate::printer::Printer;
use crate::screen::Screen;

fn main() -> ExitCode {
    let cli = match Cli::read(std::env::args_os()) {
        Ok(cli) => cli,
        Err(message) => return usage(&message).into(),
    };
    let environment = Environment::current();
    let screen = Screen::standard(environment.columns);
    let printer = Printer::standard(cli.talk(), cli.color(), screen);
    let exit = run(cli, &environment, &printer)
        .unwrap_or_else(|error| diagnostics::report(&error, &printer));
    exit.into()
}

/// One thread is enough for a command, and starts faster than many.
fn run(cli: Cli, environment: &Environment, printer: &Printer) -> Result<Exit, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime
        .map_err(Error::Runtime)?
        .block_on(commands::run(cli, environment, printer))
}

/// Help and version are asked for; everything else that clap says is about a wrong command line.
fn usage(message: &clap::Error) -> Exit {
    let printed = message.print();
    match (message.use_stderr(), printed) {
        (false, _) => Exit::Passed,
        (true, _) => Exit::Usage,
    }
}
