//! Text that grows line by line.

use std::fmt::{Display, Write as _};

/// The text up to now.
#[derive(Debug, Default)]
pub struct TextPage(String);

impl TextPage {
    /// Adds text as it is.
    pub fn push_text(&mut self, text: impl Display) {
        // Writing into a String cannot fail.
        let _ = write!(self.0, "{text}");
    }

    /// Adds a line. What ends in white space does so only for its alignment.
    pub fn push_line(&mut self, text: impl Display) {
        self.push_text(text);
        self.0.truncate(self.0.trim_end_matches(' ').len());
        self.0.push('\n');
    }

    /// Adds an empty line, unless there is one already.
    pub fn push_gap(&mut self) {
        if !self.0.is_empty() && !self.0.ends_with("\n\n") {
            self.0.push('\n');
        }
    }

    /// The text.
    pub fn into_text(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::TextPage;

    #[test]
    fn lines_end_where_their_words_do() {
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
