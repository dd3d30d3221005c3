//! Substrings of a policy line with their columns. Independent of the rule syntax.

/// A substring of a line.
#[derive(Debug, Clone, Copy)]
pub(super) struct LineSpan<'a> {
    line: &'a str,
    text: &'a str,
}

impl<'a> LineSpan<'a> {
    /// The text.
    pub(super) fn text(self) -> &'a str {
        self.text
    }

    /// The column, in characters from 1.
    pub(super) fn column(self) -> usize {
        let bytes = self.text.as_ptr().addr() - self.line.as_ptr().addr();
        1 + self.line.get(..bytes).map_or(0, |before| before.chars().count())
    }

    /// The same line, restricted to this substring.
    fn narrowed_to(self, text: &'a str) -> Self {
        Self { line: self.line, text }
    }

    /// The fields, trimmed; empty fields are skipped. Tabs separate fields. In a line without tabs, as it is pasted from a page, two or more
    /// spaces do. A line with both is split at its tabs only, because spaces between two words of a field are not counted.
    pub(super) fn split_fields(self) -> impl Iterator<Item = Self> {
        let separator = if self.text.contains('\t') { "\t" } else { "  " };
        let fields = self.text.split(separator).map(str::trim);
        fields.filter(|field| !field.is_empty()).map(move |field| self.narrowed_to(field))
    }

    /// Words separated by white space.
    pub(super) fn split_words(self) -> impl Iterator<Item = Self> {
        self.text.split_whitespace().map(move |word| self.narrowed_to(word))
    }

    /// Items separated by commas.
    pub(super) fn split_commas(self) -> impl Iterator<Item = Self> {
        self.text.split(',').map(move |word| self.narrowed_to(word))
    }

    /// The rest after this prefix.
    pub(super) fn strip_prefix(self, prefix: &str) -> Option<Self> {
        self.text.strip_prefix(prefix).map(|rest| self.narrowed_to(rest))
    }
}

/// The lines with their numbers from 1, without blank lines and comments.
pub(super) fn policy_lines(text: &str) -> impl Iterator<Item = (usize, LineSpan<'_>)> {
    let numbered = text.lines().enumerate().map(|(index, line)| {
        let text = line.trim();
        (index + 1, LineSpan { line, text })
    });
    numbered.filter(|(_, span)| !span.text.is_empty() && !span.text.starts_with('#'))
}
