//! Parts of a policy's line that know where they are. Knows nothing of what they mean.

/// A part of a line.
#[derive(Debug, Clone, Copy)]
pub(super) struct LineSpan<'a> {
    line: &'a str,
    text: &'a str,
}

impl<'a> LineSpan<'a> {
    /// The part's text.
    pub(super) fn text(self) -> &'a str {
        self.text
    }

    /// Where it begins, in characters from 1.
    pub(super) fn column(self) -> usize {
        let bytes = self.text.as_ptr().addr() - self.line.as_ptr().addr();
        1 + self
            .line
            .get(..bytes)
            .map_or(0, |before| before.chars().count())
    }

    /// The same line, but only this part of it.
    fn narrowed_to(self, text: &'a str) -> Self {
        Self {
            line: self.line,
            text,
        }
    }

    /// What stands between tabs, without the spaces around it; what is empty does not count.
    pub(super) fn tab_fields(self) -> impl Iterator<Item = Self> {
        let fields = self.text.split('\t').map(str::trim);
        fields
            .filter(|field| !field.is_empty())
            .map(move |field| self.narrowed_to(field))
    }

    /// What stands between white space.
    pub(super) fn split_words(self) -> impl Iterator<Item = Self> {
        self.text
            .split_whitespace()
            .map(move |word| self.narrowed_to(word))
    }

    /// What stands between commas.
    pub(super) fn split_commas(self) -> impl Iterator<Item = Self> {
        self.text.split(',').map(move |word| self.narrowed_to(word))
    }

    /// What follows this beginning.
    pub(super) fn strip_prefix(self, prefix: &str) -> Option<Self> {
        self.text
            .strip_prefix(prefix)
            .map(|rest| self.narrowed_to(rest))
    }
}

/// The lines that say something, with their numbers from 1: neither blank nor comments.
pub(super) fn policy_lines(text: &str) -> impl Iterator<Item = (usize, LineSpan<'_>)> {
    let numbered = text.lines().enumerate().map(|(index, line)| {
        let text = line.trim();
        (index + 1, LineSpan { line, text })
    });
    numbered.filter(|(_, span)| !span.text.is_empty() && !span.text.starts_with('#'))
}
