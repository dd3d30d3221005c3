//! Values of types that JSON lacks, as texts: the terminus sends them like this.

use serde_json::{Map, Value};

use super::ruby_text::inspect;
use super::values::{clean_text, clean_value};

/// Puppet's mark of a value of a type that JSON lacks.
const TYPE_KEY: &str = "__ptype";
const VALUE_KEY: &str = "__pvalue";
/// What Puppet prints in place of a sensitive value.
const REDACTED: &str = "Sensitive [value redacted]";

/// Replaces values of such types by texts. A sensitive value, and one that a compiler of ours stored elsewhere, is redacted.
pub(super) fn plain_value(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            if let Some(kind) = map.get(TYPE_KEY).and_then(Value::as_str) {
                return typed_value(kind, map);
            }
            let plain = |(key, value): (&String, &Value)| (clean_text(key), plain_value(value));
            Value::Object(map.iter().map(plain).collect())
        }
        Value::Array(items) => items.iter().map(plain_value).collect(),
        other => clean_value(other),
    }
}

/// Whether a parameter is nothing but a sensitive value. The terminus leaves such parameters out.
pub(super) fn is_sensitive(value: &Value) -> bool {
    let kind = value.get(TYPE_KEY).and_then(Value::as_str);
    matches!(kind, Some("Sensitive" | "muster::Secret"))
}

fn typed_value(kind: &str, map: &Map<String, Value>) -> Value {
    match (kind, map.get(VALUE_KEY)) {
        ("Sensitive" | "muster::Secret", _) => REDACTED.into(),
        ("Default", _) => "default".into(),
        ("Hash", Some(Value::Array(items))) => pairs_of(items),
        (_, Some(Value::String(text))) => clean_text(text).into(),
        (_, Some(value)) => plain_value(value),
        (kind, None) => described(kind, map).into(),
    }
}

/// A map whose keys are no texts: keys become texts.
fn pairs_of(items: &[Value]) -> Value {
    let pairs = items.chunks(2).map(|pair| {
        let key = match pair.first().map(plain_value) {
            Some(Value::String(text)) => text,
            Some(other) => written(&other),
            None => String::new(),
        };
        (key, pair.get(1).map_or(Value::Null, plain_value))
    });
    Value::Object(pairs.collect())
}

/// An object by its attributes: `Deferred({'name' => 'sprintf', ...})`.
fn described(kind: &str, map: &Map<String, Value>) -> String {
    let attributes = map.iter().filter(|(key, _)| *key != TYPE_KEY);
    let attributes: Vec<String> = attributes
        .map(|(key, value)| format!("'{}' => {}", clean_text(key), quoted(&plain_value(value))))
        .collect();
    format!("{}({{{}}})", clean_text(kind), attributes.join(", "))
}

/// A value in Puppet's language.
fn quoted(value: &Value) -> String {
    match value {
        Value::String(text) => {
            format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
        }
        Value::Array(items) => {
            format!("[{}]", items.iter().map(quoted).collect::<Vec<_>>().join(", "))
        }
        Value::Object(map) => {
            let pairs = map.iter().map(|(key, value)| format!("'{key}' => {}", quoted(value)));
            format!("{{{}}}", pairs.collect::<Vec<_>>().join(", "))
        }
        Value::Null => "undef".to_owned(),
        other => written(other),
    }
}

fn written(value: &Value) -> String {
    let mut text = String::new();
    inspect(value, &mut text);
    text
}
