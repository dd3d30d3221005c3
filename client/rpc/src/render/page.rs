//! Text that grows line by line.

use std::fmt::{Display, Write as _};

/// The text up to now.
#[derive(Debug, Default)]
pub struct Page(String);

impl Page {
    /// Adds text as it is.
    pub fn add(&mut self, text: impl Display) {
        // Writing into a String cannot fail.
        let _ = write!(self.0, "{text}");
    }

    /// Adds a line. What ends in white space does so only for its alignment.
    pub fn line(&mut self, text: impl Display) {
        self.add(text);
        self.0.truncate(self.0.trim_end_matches(' ').len());
        self.0.push('\n');
    }

    /// Adds an empty line, unless there is one already.
    pub fn gap(&mut self) {
        if !self.0.is_empty() && !self.0.ends_with("\n\n") {
            self.0.push('\n');
        }
    }

    /// The text.
    pub fn text(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::Page;

    #[test]
    fn lines_end_where_their_words_do() {
        let mut page = Page::default();
        page.gap();
        page.line("a:   ");
        page.gap();
        page.gap();
        page.add("b ");
        page.line(1);
        assert_eq!(page.text(), "a:\n\nb 1\n");
    }
}
