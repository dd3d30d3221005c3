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
use crate::environment::ProcessEnvironment;
use crate::error::Error;
use crate::exit::CommandExitCode;
use crate::printer::OutputPrinter;
use crate::screen::Screen;

fn main() -> ExitCode {
    let cli = match Cli::parse_arguments(std::env::args_os()) {
        Ok(cli) => cli,
        Err(message) => return print_usage(&message).into(),
    };
    let environment = ProcessEnvironment::from_process();
    let screen = Screen::from_stdout(environment.columns);
    let printer =
        OutputPrinter::for_standard_streams(cli.verbosity_level(), cli.color_choice(), screen);
    let exit = run_command(cli, &environment, &printer)
        .unwrap_or_else(|error| diagnostics::report_error(&error, &printer));
    exit.into()
}

/// One thread is enough for a command, and starts faster than many.
fn run_command(
    cli: Cli,
    environment: &ProcessEnvironment,
    printer: &OutputPrinter,
) -> Result<CommandExitCode, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime
        .map_err(Error::Runtime)?
        .block_on(commands::run(cli, environment, printer))
}

/// Help and version are asked for; everything else that clap says is about a wrong command line.
fn print_usage(message: &clap::Error) -> CommandExitCode {
    let printed = message.print();
    match (message.use_stderr(), printed) {
        (false, _) => CommandExitCode::Passed,
        (true, _) => CommandExitCode::Usage,
    }
}
