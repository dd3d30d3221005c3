//! Prints an error once, at the end of the program: the error, its causes, and hints.

use muster_base::join_causes;
use muster_display::printer::OutputPrinter;

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
