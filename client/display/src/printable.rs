//! The one place where text becomes output: whatever is printed is escaped here, except the styles of the printer.
//!
//! [`TextPage`](crate::TextPage), tables and the printer escape every line and cell that they are given, so renderers pass texts as they are.

use std::fmt::{self, Display};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::LazyLock;

pub use muster_base::{escape_to_line, escape_unprintable, is_harmful};

/// How the codes of styles begin until they are printed. The number is drawn at random for this process, so that no other text can contain it.
static STYLE_PREFIX: LazyLock<String> =
    LazyLock::new(|| format!("\u{1b}[{};", RandomState::new().build_hasher().finish()));

/// A style of the output. `{style}` begins it, and `{style:#}` ends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextStyle {
    /// Whether it is bold.
    pub is_bold: bool,
    /// The ANSI parameter of its colour.
    pub color: Option<u8>,
}

impl Display for TextStyle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parameters =
            if f.alternate() { [Some(0), None] } else { [self.is_bold.then_some(1), self.color] };
        let mut parameters = parameters.into_iter().flatten();
        parameters.try_for_each(|parameter| write!(f, "{}{parameter}m", *STYLE_PREFIX))
    }
}

/// Escapes text to a single line that keeps its tabs and styles.
pub fn styled_line(text: impl Display) -> String {
    let text = text.to_string();
    let parts = text.split(STYLE_PREFIX.as_str());
    let parts: Vec<_> = parts.map(|part| escape_unprintable(part).replace('\n', "\\n")).collect();
    parts.join(&STYLE_PREFIX)
}

/// Escapes text for a terminal, with the codes of its styles as a terminal reads them, or without. Line ends and tabs are kept.
pub fn printed_text(text: &str, has_styles: bool) -> String {
    let mut parts = text.split(STYLE_PREFIX.as_str());
    let mut printed = escape_unprintable(parts.next().unwrap_or_default()).into_owned();
    for part in parts {
        let (code, rest) = part.split_once('m').unwrap_or((part, ""));
        if has_styles {
            printed.extend(["\u{1b}[", code, "m"]);
        }
        printed.push_str(&escape_unprintable(rest));
    }
    printed
}

/// The text as one word of a POSIX shell, in single quotes if it needs them.
pub fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:@%+=,".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{
        STYLE_PREFIX, escape_to_line, escape_unprintable, is_harmful, printed_text, shell_word,
        styled_line,
    };
    use crate::printer::{BAD, GOOD};

    #[test]
    fn only_styles_of_the_printer_are_printed() {
        let text = format!("{BAD}\u{1b}[32m\u{1b}[2J\u{202e}{BAD:#}\u{9b}31m\u{1b}]0;title\u{7}\n");
        let shown = "\\x1b[32m\\x1b[2J\\u{202e}\u{1b}[0m\\u{9b}31m\\x1b]0;title\\x07";
        assert_eq!(printed_text(&text, true), format!("\u{1b}[1m\u{1b}[31m{shown}\n"));
        assert_eq!(
            printed_text(&styled_line(&text), true),
            format!("\u{1b}[1m\u{1b}[31m{shown}\\n")
        );
        let styled = format!("{GOOD}a{GOOD:#}\tb");
        assert_eq!(printed_text(&styled, true), "\u{1b}[32ma\u{1b}[0m\tb");
        assert_eq!(printed_text(&styled, false), "a\tb");
        assert_eq!(printed_text("\u{1b}[1;31m\u{1b}[0m", true), "\\x1b[1;31m\\x1b[0m");
    }

    #[test]
    fn words_for_the_shell_are_quoted_if_needed() {
        for (text, word) in [
            ("/tmp/demo", "/tmp/demo"),
            ("/tmp/my demo", "'/tmp/my demo'"),
            ("$HOME", "'$HOME'"),
            ("it's", "'it'\\''s'"),
            ("~/x", "'~/x'"),
            ("", "''"),
        ] {
            assert_eq!(shell_word(text), word, "{text}");
        }
    }

    proptest! {
        #[test]
        fn output_contains_no_harmful_characters(text in any::<String>()) {
            prop_assert!(!escape_to_line(&text).contains(is_harmful));
            let is_kept = |c| c == '\n' || c == '\t';
            prop_assert!(!escape_unprintable(&text).contains(|c| is_harmful(c) && !is_kept(c)));
            prop_assert!(!printed_text(&text, true).contains(|c| is_harmful(c) && !is_kept(c)));
            prop_assert!(!styled_line(&text).contains(|c| is_harmful(c) && c != '\t'));
            prop_assert!(!text.contains(STYLE_PREFIX.as_str()));
        }
    }
}
