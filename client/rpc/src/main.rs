//! The `rpc` command: sends requests to a fleet and manages its organisation.
//!
//! Each folder imports only from those before it: [`outcome`] defines how a command ends, [`flags`] has
//! the arguments that commands share, [`session`] the settings, [`report`] shows what came back, [`request`] sends requests, [`commands`] has a folder
//! for each command, and [`cli`] lists them.

#![expect(
    unreachable_pub,
    reason = "a command has no outside: `pub` says what the other files may use"
)]

mod cli;
mod commands;
mod flags;
mod outcome;
mod report;
mod request;
mod session;

use std::io::Write as _;
use std::process::ExitCode;

use anstream::AutoStream;
use muster_client::was_interrupted;
use muster_display::printer::{DataOutput, OutputPrinter};
use muster_display::screen::Screen;
use muster_display::time::set_reader_zone;

use crate::cli::{Cli, CommandLineMessage};
use crate::outcome::diagnostics::report_error;
use crate::outcome::error::{Error, MonitoringCheckError, RuntimeStartError};
use crate::outcome::exit::CommandExitCode;
use crate::session::environment::ProcessEnvironment;

fn main() -> ExitCode {
    let cli = match Cli::parse_arguments(std::env::args_os()) {
        Ok(cli) => cli,
        Err(message) => return print_usage(&message).into(),
    };
    set_reader_zone(cli.global.utc);
    let environment = ProcessEnvironment::from_process();
    let screen = Screen::from_stdout(environment.columns);
    let color = cli.color_choice();
    let data = AutoStream::new(std::io::stdout(), color);
    // The stream itself would remove the control characters of raw values.
    let has_styles = data.current_choice() != anstream::ColorChoice::Never;
    let data = DataOutput { writer: Box::new(data.into_inner()), screen, has_styles };
    let messages = Box::new(AutoStream::new(std::io::stderr(), color));
    let printer = OutputPrinter::new(cli.verbosity_level(), cli.global.raw, data, messages);
    let is_check = cli.command.is_monitoring_check();
    let exit = run_command(cli, &environment, &printer).unwrap_or_else(|error| {
        let error = if is_check { MonitoringCheckError::wrap(error) } else { error };
        report_error(&error, &printer)
    });
    if was_interrupted() { CommandExitCode::Interrupted.into() } else { exit.into() }
}

/// A single-threaded runtime is enough for a command, and starts faster.
fn run_command(
    cli: Cli,
    environment: &ProcessEnvironment,
    printer: &OutputPrinter,
) -> Result<CommandExitCode, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(RuntimeStartError)?.block_on(cli.run(environment, printer))
}

/// Help and version succeed; every other clap message is a usage error.
fn print_usage(message: &CommandLineMessage) -> CommandExitCode {
    match message {
        // An error of standard output cannot be reported.
        CommandLineMessage::HelpPage(page) => {
            let _ = write!(anstream::stdout(), "{}", page.ansi());
            CommandExitCode::Passed
        }
        CommandLineMessage::Clap(error) => {
            let _ = error.print();
            if error.use_stderr() { CommandExitCode::Usage } else { CommandExitCode::Passed }
        }
    }
}
