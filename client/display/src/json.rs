//! JSON text that is safe for a terminal.

use serde::Serialize;

use crate::printable::is_harmful;

/// Serialises a document as indented JSON that is safe for a terminal: harmful characters are escaped with JSON's own syntax.
pub fn to_safe_text(document: &impl Serialize) -> Result<String, serde_json::Error> {
    Ok(escape_harmful(serde_json::to_string_pretty(document)?))
}

/// Serialises a document on one line, safe for a terminal in the same way.
pub fn to_safe_line(document: &impl Serialize) -> Result<String, serde_json::Error> {
    Ok(escape_harmful(serde_json::to_string(document)?))
}

/// Escapes characters in JSON text that a terminal could interpret; the meaning is unchanged.
pub fn escape_harmful(text: String) -> String {
    if !text.contains(|c| is_harmful(c) && c != '\n') {
        return text;
    }
    // Outside strings JSON is ASCII, and within strings line ends are already escaped.
    let mut escaped = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_harmful(c) && c != '\n' {
            let mut units = [0; 2];
            escaped.extend(c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
        } else {
            escaped.push(c);
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::to_safe_text;

    #[test]
    fn control_characters_are_escaped_without_changing_values() {
        let value = json!({"a\u{9b}": "\u{1b}[31m\u{202e}\u{7f}\n ä", "b": [1, {}]});
        let text = to_safe_text(&value).unwrap();
        assert!(text.contains("\\u009b") && text.contains("\\u202e") && text.contains("\\u007f"));
        assert!(!text.contains(|c: char| c.is_control() && c != '\n'));
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
    }
}
