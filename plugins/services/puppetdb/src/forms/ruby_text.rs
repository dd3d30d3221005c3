//! The text that Ruby's `to_s` makes of a value: the terminus sends the values of events like this.

use std::fmt::Write as _;

use serde_json::Value;

use super::values::clean_text;

/// Nothing is the empty text, and a text is itself. Lists and maps are written as in a program: `["0", nil]`, `{"a"=>1}`.
pub(super) fn ruby_text(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => clean_text(text),
        Some(other) => {
            let mut text = String::new();
            inspect(other, &mut text);
            text
        }
    }
}

/// Appends a value as Ruby's `inspect` writes it.
pub(super) fn inspect(value: &Value, text: &mut String) {
    match value {
        Value::Null => text.push_str("nil"),
        Value::Bool(_) | Value::Number(_) => {
            let _ = write!(text, "{value}");
        }
        Value::String(inner) => inspect_text(inner, text),
        Value::Array(items) => {
            text.push('[');
            for (position, item) in items.iter().enumerate() {
                separate(position, text);
                inspect(item, text);
            }
            text.push(']');
        }
        Value::Object(map) => {
            text.push('{');
            for (position, (key, item)) in map.iter().enumerate() {
                separate(position, text);
                inspect_text(key, text);
                text.push_str("=>");
                inspect(item, text);
            }
            text.push('}');
        }
    }
}

fn separate(position: usize, text: &mut String) {
    if position > 0 {
        text.push_str(", ");
    }
}

fn inspect_text(inner: &str, text: &mut String) {
    text.push('"');
    let mut characters = inner.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '\u{7}' => text.push_str("\\a"),
            '\u{8}' => text.push_str("\\b"),
            '\u{b}' => text.push_str("\\v"),
            '\u{c}' => text.push_str("\\f"),
            '\u{1b}' => text.push_str("\\e"),
            // Ruby would read these as a variable in the text.
            '#' if matches!(characters.peek(), Some('{' | '$' | '@')) => text.push_str("\\#"),
            other if other.is_control() => {
                let _ = write!(text, "\\u{:04X}", u32::from(other));
            }
            other => text.push(other),
        }
    }
    text.push('"');
}
