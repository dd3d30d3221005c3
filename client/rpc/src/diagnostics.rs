//! Prints an error once, at the end of the program: the error, its causes, and hints.

use crate::error::Error;
use crate::exit::CommandExitCode;
use crate::printer::{HINT, OutputPrinter};

/// Prints the error, and returns the exit code.
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

/// The error with its causes on one line.
pub fn error_chain(error: &dyn std::error::Error) -> String {
    join_causes(error, ": ")
}

fn join_causes(error: &dyn std::error::Error, link: &str) -> String {
    let mut last = error.to_string();
    let mut text = last.clone();
    let mut source = error.source();
    while let Some(cause) = source {
        let message = cause.to_string();
        if !last.contains(&message) {
            text.push_str(link);
            text.push_str(&message);
        }
        last = message;
        source = cause.source();
    }
    text
}

/// Highlights a command or path in a message.
pub fn highlight_code(text: impl std::fmt::Display) -> String {
    format!("{HINT}`{text}`{HINT:#}")
}
