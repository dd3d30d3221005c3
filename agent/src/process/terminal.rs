//! Escapes untrusted text for terminals.

use std::fmt::Write as _;

use muster_base::is_harmful;

/// Catalogs and programs supply these texts: terminal control characters are escaped, and continuation lines are indented, so that they cannot
/// imitate the program's own output.
pub fn escape_text(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => escaped.push_str("\n  "),
            '\t' => escaped.push('\t'),
            c if is_harmful(c) => escaped.extend(c.escape_unicode()),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Escapes a line of JSON without changing its meaning. JSON itself escapes only the control characters below U+0020.
pub(crate) fn escape_json(line: &str) -> String {
    let mut escaped = String::with_capacity(line.len());
    for c in line.chars() {
        if is_harmful(c) {
            let _ = write!(escaped, "\\u{:04x}", u32::from(c));
        } else {
            escaped.push(c);
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::{escape_json, escape_text};

    #[test]
    fn escapes_control_characters_and_forged_lines() {
        let hostile = "a\u{200b}\u{1b}]0;x\u{7}\u{9b}2J\rb\nNotice: forged\u{202e}";
        assert_eq!(
            escape_text(hostile),
            "a\\u{200b}\\u{1b}]0;x\\u{7}\\u{9b}2J\\u{d}b\n  Notice: forged\\u{202e}"
        );
        let json = serde_json::to_string(hostile).unwrap();
        let escaped = escape_json(&json);
        assert!(escaped.chars().all(|c| !c.is_control() && c != '\u{202e}'), "{escaped:?}");
        assert_eq!(serde_json::from_str::<String>(&escaped).unwrap(), hostile);
    }
}
