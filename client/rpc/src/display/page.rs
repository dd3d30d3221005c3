//! A text that is built line by line. What a node said stays on its line, escaped.

use std::fmt::{Display, Write as _};

use crate::display::printable::styled_line;

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

    /// Appends an empty line, unless the text already ends with one.
    pub fn push_gap(&mut self) {
        if !self.0.is_empty() && !self.0.ends_with("\n\n") {
            self.0.push('\n');
        }
    }

    pub fn into_text(self) -> String {
        self.0
    }
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
