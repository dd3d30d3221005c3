//! A text that is built line by line. What a node said stays on its line, escaped.

use std::borrow::Cow;
use std::fmt::{Display, Write as _};

use console::{Alignment, measure_text_width, pad_str};
use serde_json::Value;

use crate::printable::styled_line;
use crate::value::{hang_lines, value_lines};

/// Lines of text.
#[derive(Debug, Default)]
pub struct TextPage(String);

impl TextPage {
    /// Appends text that is rendered already, with its line ends.
    pub fn push_text(&mut self, text: impl Display) {
        // Writing to a String cannot fail.
        let _ = write!(self.0, "{text}");
    }

    /// Appends a line; line ends in it are escaped. Trailing white space, which results from alignment, is removed.
    pub fn push_line(&mut self, text: impl Display) {
        self.push_text(styled_line(text));
        self.0.truncate(self.0.trim_end_matches(' ').len());
        self.0.push('\n');
    }

    /// Appends a line and an empty one.
    pub fn push_heading(&mut self, text: impl Display) {
        self.push_line(text);
        self.push_gap();
    }

    /// Appends a line for each field, with the titles aligned at their colons in this width.
    pub fn push_fields(
        &mut self,
        width: usize,
        fields: impl IntoIterator<Item = (impl Display, impl Display)>,
    ) {
        for (title, value) in fields {
            let title = title.to_string();
            self.push_line(format_args!("{}: {value}", pad_start(&title, width)));
        }
    }

    /// Appends a line for each row: its label, indented and filled to a width, and its value.
    pub fn push_labels(
        &mut self,
        indent: usize,
        width: usize,
        rows: impl IntoIterator<Item = (impl Display, impl Display)>,
    ) {
        for (label, value) in rows {
            self.push_line(label_line(indent, width, label, value));
        }
    }

    /// Appends a value, whose further lines are indented to its first one.
    pub fn push_value(&mut self, prefix: &str, value: &Value, width: usize) {
        let value_width = width.saturating_sub(measure_text_width(prefix));
        for line in hang_lines(prefix, value_lines(value, value_width)) {
            self.push_line(line);
        }
    }

    /// Appends an empty line, unless the text already ends with one.
    pub fn push_gap(&mut self) {
        if !self.0.is_empty() && !self.0.ends_with("\n\n") {
            self.0.push('\n');
        }
    }

    /// The text; each line is terminated.
    pub fn into_text(self) -> String {
        self.0
    }
}

/// Width of a node's name in lines that are printed as replies arrive, in columns.
const NODE_NAME_WIDTH: usize = 40;

/// Fills a node's name to the width that it has in lines that are printed as replies arrive.
pub fn pad_node_name(name: &str) -> Cow<'_, str> {
    pad_end(name, NODE_NAME_WIDTH)
}

/// A label, indented and filled to a width, and its value.
pub fn label_line(indent: usize, width: usize, label: impl Display, value: impl Display) -> String {
    format!("{:indent$}{}{value}", "", pad_end(&label.to_string(), width))
}

/// Cells of fixed widths, a space apart, for lines that are printed as they arrive.
pub fn fixed_cells<const N: usize>(widths: [usize; N], cells: &[impl AsRef<str>; N]) -> String {
    let padded = cells.iter().zip(widths).map(|(cell, width)| pad_end(cell.as_ref(), width));
    padded.collect::<Vec<_>>().join(" ")
}

/// Fills the text with spaces to a width on a terminal, where a Chinese, Japanese or Korean character has two columns.
pub fn pad_end(text: &str, width: usize) -> Cow<'_, str> {
    pad_str(text, width, Alignment::Left, None)
}

/// The same, with the spaces before the text.
pub fn pad_start(text: &str, width: usize) -> Cow<'_, str> {
    pad_str(text, width, Alignment::Right, None)
}

impl<T: Display> FromIterator<T> for TextPage {
    fn from_iter<I: IntoIterator<Item = T>>(lines: I) -> Self {
        let mut page = Self::default();
        lines.into_iter().for_each(|line| page.push_line(line));
        page
    }
}

#[cfg(test)]
mod tests {
    use super::TextPage;

    #[test]
    fn trailing_spaces_are_removed_and_gaps_are_merged() {
        let mut page = TextPage::default();
        page.push_gap();
        page.push_line("a:   ");
        page.push_gap();
        page.push_gap();
        page.push_text("b ");
        page.push_line(1);
        assert_eq!(page.into_text(), "a:\n\nb 1\n");
    }
}
