//! Text without colours, and a printer that writes to memory. The tests of `rpc` include this file.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use muster_display::printer::{DataOutput, OutputPrinter, VerbosityLevel};
use muster_display::screen::Screen;

/// Removes colour codes.
pub(crate) fn plain(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

/// What was printed.
#[derive(Debug, Clone, Default)]
pub(crate) struct PrintedText(Arc<Mutex<Vec<u8>>>);

impl PrintedText {
    /// The output without colour codes.
    pub(crate) fn text(&self) -> String {
        plain(std::str::from_utf8(&self.0.lock().unwrap()).unwrap())
    }
}

impl Write for PrintedText {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A printer with its captured data and messages.
pub(crate) fn printer(verbosity: VerbosityLevel) -> (OutputPrinter, PrintedText, PrintedText) {
    let (data, messages) = (PrintedText::default(), PrintedText::default());
    let output =
        DataOutput { writer: Box::new(data.clone()), screen: Screen::default(), has_styles: false };
    let printer = OutputPrinter::new(verbosity, false, output, Box::new(messages.clone()));
    (printer, data, messages)
}
