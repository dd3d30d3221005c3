//! Prints an error once, at the end of the program: the error, its causes, and hints.

use muster_base::join_causes;

use crate::display::printer::{HINT, OutputPrinter};
use crate::outcome::error::Error;
use crate::outcome::exit::CommandExitCode;

pub fn report_error(error: &Error, printer: &OutputPrinter) -> CommandExitCode {
    let exit = error.exit_code();
    if exit != CommandExitCode::Passed {
        printer.print_error(error_text(error));
        for hint in error.hints() {
            printer.print_hint(hint);
        }
    }
    exit
}

/// The error with its causes, one per line. A cause that repeats the previous line is omitted.
pub fn error_text(error: &Error) -> String {
    join_causes(error, "\n  because: ")
}

/// Highlights a command or path in a message.
pub fn highlight_code(text: impl std::fmt::Display) -> String {
    format!("{HINT}`{text}`{HINT:#}")
}

/// Prints commands and their purposes.
pub fn print_steps(steps: &[(&str, &str)], printer: &OutputPrinter) {
    for (command, purpose) in steps {
        printer.print_message(format_args!("  {}  {purpose}", highlight_code(command)));
    }
}
