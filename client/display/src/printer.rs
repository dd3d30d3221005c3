//! All printing. Data goes to standard output, messages to standard error. Everything is escaped here, except the styles.
//!
//! Colour is used at a terminal, unless `NO_COLOR` or `--color` specifies otherwise; no information depends on colour.

use std::fmt::Display;
use std::io;
use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use crate::json;
use crate::printable::{TextStyle, printed_text, styled_line};
use crate::screen::Screen;

/// Success.
pub const GOOD: TextStyle = TextStyle { is_bold: false, color: Some(32) };
/// Failures.
pub const BAD: TextStyle = TextStyle { is_bold: true, color: Some(31) };
/// Warnings, and what is not as it should be.
pub const WARNING: TextStyle = TextStyle { is_bold: false, color: Some(33) };
/// Next steps; paths and commands.
pub const HINT: TextStyle = TextStyle { is_bold: false, color: Some(36) };
/// Headings.
pub const STRONG: TextStyle = TextStyle { is_bold: true, color: None };

/// Highlights a command or path in a message.
pub fn highlight_code(text: impl Display) -> String {
    format!("{HINT}`{text}`{HINT:#}")
}

/// Standard output, or the output file, is closed or full.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the output")]
pub struct PrintError(#[source] io::Error);

impl From<io::Error> for PrintError {
    fn from(error: io::Error) -> Self {
        Self(error)
    }
}

impl From<serde_json::Error> for PrintError {
    fn from(error: serde_json::Error) -> Self {
        Self(error.into())
    }
}

impl PrintError {
    /// Whether the reader has closed the pipe, as `head` does.
    pub fn is_closed_pipe(&self) -> bool {
        self.0.kind() == io::ErrorKind::BrokenPipe
    }
}

/// Which messages are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum VerbosityLevel {
    /// Warnings and errors only.
    Quiet,
    /// Messages, too.
    Normal,
    /// Details, too.
    Verbose,
}

/// Where data goes.
pub struct DataOutput {
    /// The standard output, or a file.
    pub writer: Box<dyn Write + Send>,
    /// Its dimensions.
    pub screen: Screen,
    /// Whether styles are printed.
    pub has_styles: bool,
}

impl std::fmt::Debug for DataOutput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DataOutput").field("screen", &self.screen).finish_non_exhaustive()
    }
}

/// Prints data and messages.
pub struct OutputPrinter {
    verbosity: VerbosityLevel,
    is_raw: bool,
    data: Mutex<DataOutput>,
    messages: Mutex<Box<dyn Write + Send>>,
}

impl std::fmt::Debug for OutputPrinter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Printer").field("talk", &self.verbosity).finish_non_exhaustive()
    }
}

impl OutputPrinter {
    /// If `is_raw`, the values of expressions and templates are printed without escapes.
    pub fn new(
        verbosity: VerbosityLevel,
        is_raw: bool,
        data: DataOutput,
        messages: Box<dyn Write + Send>,
    ) -> Self {
        Self { verbosity, is_raw, data: Mutex::new(data), messages: Mutex::new(messages) }
    }

    /// Whether the values of expressions and templates are printed without escapes.
    pub fn prints_raw_values(&self) -> bool {
        self.is_raw
    }

    /// Redirects data to another writer, without styles.
    pub fn redirect_data(&self, writer: Box<dyn Write + Send>, screen: Screen) {
        *self.lock_data() = DataOutput { writer, screen, has_styles: false };
    }

    /// The dimensions of the output of data.
    pub fn screen(&self) -> Screen {
        self.lock_data().screen
    }

    fn lock_data(&self) -> MutexGuard<'_, DataOutput> {
        self.data.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Which messages are printed.
    pub fn verbosity_level(&self) -> VerbosityLevel {
        self.verbosity
    }

    /// Prints a line of data.
    pub fn print_line(&self, line: impl Display) -> Result<(), PrintError> {
        self.print_text(styled_line(line) + "\n")
    }

    /// Prints lines of data without adding a line end.
    pub fn print_text(&self, text: impl Display) -> Result<(), PrintError> {
        let has_styles = self.lock_data().has_styles;
        self.write_data(&printed_text(&text.to_string(), has_styles))
    }

    /// Prints the value of an expression or a template.
    pub fn print_value(&self, text: &str) -> Result<(), PrintError> {
        if self.is_raw { self.write_data(text) } else { self.print_text(text) }
    }

    /// Prints a table instead of the last one, which had this many lines: moves up to its first line, and clears everything below.
    pub fn print_redrawn(&self, drawn_lines: usize, text: &str) -> Result<(), PrintError> {
        if drawn_lines > 0 {
            self.write_data(&format!("\u{1b}[{drawn_lines}A\u{1b}[J"))?;
        }
        self.print_text(text)
    }

    fn write_data(&self, text: &str) -> Result<(), PrintError> {
        let writer = &mut self.lock_data().writer;
        Ok(writer.write_all(text.as_bytes()).and_then(|()| writer.flush())?)
    }

    /// Prints an indented JSON document.
    pub fn print_json(&self, document: &impl Serialize) -> Result<(), PrintError> {
        self.print_text(json::to_safe_text(document)? + "\n")
    }

    /// Prints a message, unless only warnings are printed.
    pub fn print_message(&self, line: impl Display) {
        if self.verbosity >= VerbosityLevel::Normal {
            self.print_question(styled_line(line));
        }
    }

    /// Prints a message of several lines, whose values the renderer has escaped.
    pub fn print_message_lines(&self, text: impl Display) {
        if self.verbosity >= VerbosityLevel::Normal {
            self.print_question(text);
        }
    }

    /// Prints a message for verbose output.
    pub fn print_detail(&self, line: impl Display) {
        if self.verbosity >= VerbosityLevel::Verbose {
            self.print_question(styled_line(line));
        }
    }

    /// Prints a next step for the user, as a message.
    pub fn print_hint(&self, line: impl Display) {
        self.print_message(format_args!("{HINT}hint:{HINT:#} {line}"));
    }

    /// Prints a warning.
    pub fn print_warning(&self, line: impl Display) {
        self.print_question(styled_line(format_args!("{WARNING}warning:{WARNING:#} {line}")));
    }

    /// Prints the reason of a failure, which may have several lines. All but the first are indented, so that none looks like another message.
    pub fn print_error(&self, text: impl Display) {
        let text = text.to_string();
        let indent = |line: &str| {
            let is_indented = line.is_empty() || line.starts_with(' ');
            format!("\n{}{line}", if is_indented { "" } else { "  " })
        };
        let (first, others) = text.split_once('\n').unwrap_or((&text, ""));
        let others: String = others.lines().map(indent).collect();
        self.print_question(format_args!("{BAD}error:{BAD:#} {first}{others}"));
    }

    /// Prints a prompt, even with `--quiet`. A write error on standard error is ignored: it cannot be reported.
    pub fn print_question(&self, text: impl Display) {
        let mut messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        let text = printed_text(&text.to_string(), true);
        let _ = writeln!(messages, "{text}").and_then(|()| messages.flush());
    }
}

#[cfg(test)]
mod tests {
    use super::VerbosityLevel;
    use crate::testing::printer;

    #[test]
    fn data_and_messages_are_separate() {
        let (printer, data, talk) = printer(VerbosityLevel::Normal);
        printer.print_line("web1.acme.net").unwrap();
        printer.print_message("1 node");
        printer.print_detail("in 3 ms");
        printer.print_warning("slow");
        assert_eq!(data.text(), "web1.acme.net\n");
        assert_eq!(talk.text(), "1 node\nwarning: slow\n");
    }

    #[test]
    fn quiet_prints_warnings_and_errors_only() {
        let (printer, _, talk) = printer(VerbosityLevel::Quiet);
        printer.print_message("hello");
        printer.print_hint("wave");
        printer.print_warning("slow");
        printer.print_error("stopped");
        assert_eq!(talk.text(), "warning: slow\nerror: stopped\n");
    }

    #[test]
    fn verbose_adds_details() {
        let (printer, _, talk) = printer(VerbosityLevel::Verbose);
        printer.print_detail("in 3 ms");
        assert_eq!(talk.text(), "in 3 ms\n");
    }
}
