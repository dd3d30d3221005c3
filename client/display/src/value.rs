//! Renders a node's value as text lines: scalars unchanged, structures as an indented outline. For text output only.

use console::measure_text_width;
use serde_json::Value;

use crate::printable::{escape_to_line, escape_unprintable};

/// The lines of a value; at least one. A list of scalars stays on one line up to `width`, otherwise it becomes an outline.
pub fn value_lines(value: &Value, width: usize) -> Vec<String> {
    match value {
        Value::String(text) if text.is_empty() => vec!["\"\"".to_owned()],
        Value::String(text) => {
            escape_unprintable(text).lines().map(|line| line.trim_end().to_owned()).collect()
        }
        Value::Array(items) => array_lines(items, width),
        Value::Object(entries) if entries.is_empty() => vec!["{}".to_owned()],
        Value::Object(entries) => entries
            .iter()
            .flat_map(|(key, value)| entry_lines(&escape_to_line(key), value, width))
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => vec![value.to_string()],
    }
}

/// A value on a single line, structures as JSON.
pub fn compact_value(value: &Value) -> String {
    match value {
        Value::String(text) => escape_to_line(text).into_owned(),
        other => escape_to_line(&other.to_string()).into_owned(),
    }
}

fn array_lines(items: &[Value], width: usize) -> Vec<String> {
    // Strings that contain separators would be ambiguous on one line.
    let is_word = |item: &Value| match item {
        Value::Array(_) | Value::Object(_) => false,
        Value::String(text) => {
            !text.is_empty() && !text.contains(|c: char| c == ',' || c.is_whitespace())
        }
        _ => true,
    };
    let joined = || items.iter().map(compact_value).collect::<Vec<_>>().join(", ");
    if items.is_empty() {
        vec!["[]".to_owned()]
    } else if items.iter().all(is_word) && measure_text_width(&joined()) <= width {
        vec![joined()]
    } else {
        items
            .iter()
            .flat_map(|item| hang_lines("- ", value_lines(item, width.saturating_sub(2))))
            .collect()
    }
}

/// Formats `key: value`, or the key with the structure below it.
fn entry_lines(key: &str, value: &Value, width: usize) -> Vec<String> {
    let lines = value_lines(value, width.saturating_sub(measure_text_width(key) + 2));
    match value {
        Value::Array(items) if !items.is_empty() && lines.len() == 1 => {
            hang_lines(&format!("{key}: "), lines)
        }
        Value::Array(items) if !items.is_empty() => titled_lines(key, lines),
        Value::Object(entries) if !entries.is_empty() => titled_lines(key, lines),
        _ => hang_lines(&format!("{key}: "), lines),
    }
}

fn titled_lines(key: &str, lines: Vec<String>) -> Vec<String> {
    let indented = lines.into_iter().map(|line| format!("  {line}"));
    std::iter::once(format!("{key}:")).chain(indented).collect()
}

/// Prefixes the first line with `prefix`, and indents the others to it.
pub fn hang_lines(prefix: &str, lines: Vec<String>) -> Vec<String> {
    let indent = " ".repeat(measure_text_width(prefix));
    let lines = lines.into_iter().enumerate();
    lines.map(|(at, line)| format!("{}{line}", if at == 0 { prefix } else { &indent })).collect()
}

/// The sentences of a list of events; `None` for any other value.
pub fn event_sentences(value: &Value) -> Option<Value> {
    let events = value.as_array().filter(|events| !events.is_empty())?;
    events.iter().map(event_sentence).collect()
}

fn event_sentence(event: &Value) -> Option<Value> {
    let text = |key: &str| event.get(key).and_then(Value::as_str);
    // The message already contains the result: `(noop)`, `failed: ...`.
    let (_, message, _) = (text("property")?, text("message")?, text("status")?);
    Some(message.into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::{compact_value, event_sentences, value_lines};
    use crate::printable::is_harmful;

    #[test]
    fn scalars_are_printed_unquoted() {
        assert_eq!(value_lines(&json!("running"), 60), ["running"]);
        assert_eq!(value_lines(&json!("one\ntwo  \n"), 60), ["one", "two"]);
        assert_eq!(value_lines(&json!(""), 60), ["\"\""]);
        assert_eq!(value_lines(&json!(null), 60), ["null"]);
        assert_eq!(value_lines(&json!(1.5), 60), ["1.5"]);
        assert_eq!(value_lines(&json!("\x1b[31m"), 60), ["\\x1b[31m"]);
    }

    #[test]
    fn short_lists_are_on_one_line() {
        assert_eq!(value_lines(&json!(["puppetral", "rpcutil"]), 60), ["puppetral, rpcutil"]);
        assert_eq!(value_lines(&json!(["puppetral", "rpcutil"]), 10), ["- puppetral", "- rpcutil"]);
        assert_eq!(
            value_lines(&json!(["shell changed", "home, too"]), 60),
            ["- shell changed", "- home, too"]
        );
        assert_eq!(value_lines(&json!([]), 60), ["[]"]);
    }

    #[test]
    fn nested_values_are_indented() {
        let value = json!({
            "os": {"family": "Debian", "release": {"major": "12"}, "empty": {}},
            "disks": [{"name": "sda", "size": 1}, {"name": "sdb\n"}],
            "tags": ["a", "b"],
        });
        let expected = "\
disks:
  - name: sda
    size: 1
  - name: sdb
os:
  empty: {}
  family: Debian
  release:
    major: 12
tags: a, b";
        assert_eq!(value_lines(&value, 60).join("\n"), expected);
    }

    #[test]
    fn keys_are_escaped() {
        assert_eq!(value_lines(&json!({"a\nb": 1}), 60), ["a\\nb: 1"]);
        assert_eq!(compact_value(&json!({"a": "\u{1b}"})), r#"{"a":"\u001b"}"#);
        assert_eq!(compact_value(&json!(["\u{9b}"])), r#"["\u{9b}"]"#);
    }

    proptest! {
        #[test]
        fn lines_of_arbitrary_values_are_printable(value in values(), width in 0_usize..100) {
            let lines = value_lines(&value, width);
            prop_assert!(!lines.is_empty());
            let harmless = |line: &String| !line.contains(|c| is_harmful(c) && c != '\t');
            prop_assert!(lines.iter().all(harmless), "{lines:?}");
            prop_assert!(!compact_value(&value).contains(is_harmful));
        }
    }

    fn values() -> impl Strategy<Value = Value> {
        let text = any::<String>().prop_map(Value::from);
        let leaf = prop_oneof![text, any::<i64>().prop_map(Value::from), Just(Value::Null)];
        leaf.prop_recursive(4, 32, 4, |inner| {
            let array = prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from);
            let object = prop::collection::btree_map(any::<String>(), inner, 0..4);
            prop_oneof![array, object.prop_map(|entries| entries.into_iter().collect())]
        })
    }

    #[test]
    fn newline_only_text_has_one_empty_line() {
        assert_eq!(value_lines(&json!("\n"), 60), [""]);
    }

    #[test]
    fn only_lists_of_events_are_shortened_to_messages() {
        let event = |status| json!({"property": "shell", "message": "shell changed", "status": status, "more": 1});
        let list = json!([event("success"), event("noop")]);
        assert_eq!(event_sentences(&list), Some(json!(["shell changed", "shell changed"])));
        for other in [
            json!([]),
            json!("x"),
            json!([event("success"), 1]),
            json!([{"message": "a"}]),
            event("noop"),
        ] {
            assert_eq!(event_sentences(&other), None, "{other}");
        }
    }
}
