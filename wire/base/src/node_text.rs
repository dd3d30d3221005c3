//! Text that a node, a broker or a foreign program chose. A terminal could interpret it, so it is printed with its control characters, escape sequences
//! and bidirectional control characters as `\x1b` or `\u{202e}` only.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use crate::is_harmful;

/// What a node said; a string in JSON. It has no `Display`: it is printed escaped, or read with [`NodeText::raw`].
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeText(String);

impl NodeText {
    /// The text escaped to a single line.
    pub fn line(&self) -> Cow<'_, str> {
        escape_to_line(&self.0)
    }

    /// The text with its line ends and tabs, everything else escaped.
    pub fn block(&self) -> Cow<'_, str> {
        escape_unprintable(&self.0)
    }

    /// The text itself, for programs; never for a terminal.
    pub fn raw(&self) -> &str {
        &self.0
    }

    /// Whether there is no text.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The schema of a string, so that it does not matter to readers which texts are escaped where.
impl JsonSchema for NodeText {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        String::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        String::json_schema(generator)
    }
}

impl<T: Into<String>> From<T> for NodeText {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}

impl PartialEq<str> for NodeText {
    fn eq(&self, text: &str) -> bool {
        self.0 == text
    }
}

impl PartialEq<&str> for NodeText {
    fn eq(&self, text: &&str) -> bool {
        self.0 == *text
    }
}

impl fmt::Debug for NodeText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.line())
    }
}

/// Escapes harmful characters, but neither line ends nor tabs. Drops a carriage return before a line end.
pub fn escape_unprintable(text: &str) -> Cow<'_, str> {
    escape_matching(text, |c| c == '\n' || c == '\t')
}

/// Escapes the text to a single line: line ends and tabs are escaped too.
pub fn escape_to_line(text: &str) -> Cow<'_, str> {
    escape_matching(text, |_| false)
}

fn escape_matching(text: &str, is_kept: fn(char) -> bool) -> Cow<'_, str> {
    let needs_escape = |c: char| is_harmful(c) && !is_kept(c);
    if !text.contains(needs_escape) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            '\r' if is_kept('\n') && characters.peek() == Some(&'\n') => {}
            '\n' if !is_kept('\n') => escaped.push_str("\\n"),
            '\t' if !is_kept('\t') => escaped.push_str("\\t"),
            // Writing to a String cannot fail.
            c if needs_escape(c) && c.is_ascii() => {
                let _ = write!(escaped, "\\x{:02x}", u32::from(c));
            }
            c if needs_escape(c) => drop(write!(escaped, "\\u{{{:x}}}", u32::from(c))),
            c => escaped.push(c),
        }
    }
    Cow::Owned(escaped)
}

#[cfg(test)]
mod tests {
    use super::{NodeText, escape_to_line, escape_unprintable};

    #[test]
    fn escape_sequences_are_made_visible() {
        assert_eq!(escape_unprintable("\x1b[2Jgone\x07"), "\\x1b[2Jgone\\x07");
        assert_eq!(escape_unprintable("\u{9b}31m"), "\\u{9b}31m");
        assert_eq!(escape_unprintable("user\u{202e}txt"), "user\\u{202e}txt");
        assert_eq!(escape_unprintable("50%\r100%"), "50%\\x0d100%");
        assert_eq!(escape_unprintable("a\r\nb\tc ä 漢"), "a\nb\tc ä 漢");
        assert_eq!(escape_to_line("a\r\nb\tc"), "a\\x0d\\nb\\tc");
    }

    #[test]
    fn a_text_of_a_node_is_printed_escaped() {
        let text = NodeText::from("a\n\u{1b}[2J\u{2066}".to_owned());
        assert_eq!(text.line(), "a\\n\\x1b[2J\\u{2066}");
        assert_eq!(text.block(), "a\n\\x1b[2J\\u{2066}");
        assert_eq!(format!("{text:?}"), "\"a\\n\\x1b[2J\\u{2066}\"");
        assert_eq!(text, "a\n\u{1b}[2J\u{2066}");
        assert_eq!(text.raw(), "a\n\u{1b}[2J\u{2066}");
    }
}
