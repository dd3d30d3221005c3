//! Makes untrusted text safe to print: control characters, escape sequences and bidirectional control characters are shown as `\x1b` or `\u{202e}`.
//! Line ends and tabs are kept, unless a single line is requested.

use std::borrow::Cow;
use std::fmt::Write as _;

pub use muster_base::is_harmful;

/// What follows the escape character in the styles of [`crate::printer`].
const STYLE_CODES: [&str; 6] = ["[0m", "[1m", "[31m", "[32m", "[33m", "[36m"];

/// Escapes harmful characters. Drops a carriage return before a line end.
pub fn escape_unprintable(text: &str) -> Cow<'_, str> {
    escape_matching(text, |c| c == '\n' || c == '\t')
}

/// Escapes the text to a single line: line ends and tabs are escaped too.
pub fn escape_to_line(text: &str) -> Cow<'_, str> {
    escape_matching(text, |_| false)
}

/// Escapes harmful characters, except the styles of [`crate::printer`]: the last line of defence for text that no renderer has escaped.
pub fn escape_except_styles(text: &str) -> Cow<'_, str> {
    if !text.contains('\u{1b}') {
        return escape_unprintable(text);
    }
    let mut escaped = String::with_capacity(text.len());
    for (index, part) in text.split('\u{1b}').enumerate() {
        let is_style = STYLE_CODES.iter().any(|code| part.starts_with(code));
        escaped.push_str(match (index, is_style) {
            (0, _) => "",
            (_, true) => "\u{1b}",
            (_, false) => "\\x1b",
        });
        escaped.push_str(&escape_unprintable(part));
    }
    Cow::Owned(escaped)
}

/// The text as one word of a POSIX shell, in single quotes if it needs them.
pub fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:@%+=,".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
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
    use proptest::prelude::*;

    use super::{
        STYLE_CODES, escape_except_styles, escape_to_line, escape_unprintable, is_harmful,
        shell_word,
    };
    use crate::printer::{BAD, GOOD, HINT, STRONG, WARNING};

    #[test]
    fn only_styles_of_the_printer_are_printed() {
        for style in [GOOD, BAD, HINT, STRONG, WARNING] {
            let text = format!("{style}shown{style:#}");
            assert_eq!(escape_except_styles(&text), text);
            for code in text.split('\u{1b}').skip(1) {
                assert!(STYLE_CODES.iter().any(|known| code.starts_with(known)), "{code:?}");
            }
        }
        for (text, expected) in [
            ("\u{1b}[8mhidden", "\\x1b[8mhidden"),
            ("\u{1b}[32m\u{1b}[2J\u{202e}", "\u{1b}[32m\\x1b[2J\\u{202e}"),
            ("\u{9b}31m\u{1b}]0;title\u{7}", "\\u{9b}31m\\x1b]0;title\\x07"),
            ("a\tb\n", "a\tb\n"),
        ] {
            assert_eq!(escape_except_styles(text), expected);
        }
    }

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
            prop_assert!(!escape_unprintable(&text).contains(|c| is_harmful(c) && c != '\n' && c != '\t'));
        }
    }
}
