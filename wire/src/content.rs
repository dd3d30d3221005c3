//! Replaces file contents by their digest before a request is recorded in audit records and jobs. Equal digests prove equal
//! content, and the record keeps no content that may hold a secret.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

/// The input, parameter or key whose value is the content of a file, at any depth.
const CONTENT_KEY: &str = "content";
/// Longer texts, in bytes, are replaced under any key. Command lines are shorter and are kept.
pub const MAX_RECORDED_BYTES: usize = 8192;

/// Returns the inputs as recorded, and the names of those in which a value was replaced by `{"bytes": ..., "sha256": ...}`.
#[must_use]
pub fn digest_contents(inputs: &Map<String, Value>) -> (Map<String, Value>, BTreeSet<String>) {
    let mut replaced = BTreeSet::new();
    let recorded = inputs.iter().map(|(name, value)| {
        let recorded = recorded_value(name, value);
        if recorded != *value {
            replaced.insert(name.clone());
        }
        (name.clone(), recorded)
    });
    (recorded.collect(), replaced)
}

/// Returns the recorded form of a value below this key. The decoder bounds the recursion depth.
fn recorded_value(key: &str, value: &Value) -> Value {
    match value {
        Value::String(text) if is_content(key) || text.len() > MAX_RECORDED_BYTES => {
            content_digest(text.as_bytes())
        }
        Value::Array(_) | Value::Object(_) if is_content(key) => {
            content_digest(value.to_string().as_bytes())
        }
        Value::Array(items) => items.iter().map(|item| recorded_value("", item)).collect(),
        Value::Object(map) => {
            map.iter().map(|(key, value)| (key.clone(), recorded_value(key, value))).collect()
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

fn is_content(key: &str) -> bool {
    key.eq_ignore_ascii_case(CONTENT_KEY)
}

fn content_digest(bytes: &[u8]) -> Value {
    let digest = Sha256::digest(bytes);
    json!({"bytes": bytes.len(), "sha256": format!("{digest:x}")})
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{MAX_RECORDED_BYTES, digest_contents};

    #[test]
    fn contents_become_digests_at_every_depth_and_commands_are_kept() {
        let long = "x".repeat(MAX_RECORDED_BYTES + 1);
        let inputs = json!({
            "content": "abc", "name": "/etc/motd", "command": ["echo", "content"],
            "script": long, "n": 1,
            "resources": [{"type": "file", "parameters": {"Content": ["a", "b"], "mode": "0600"}}],
        });
        let Value::Object(inputs) = inputs else { unreachable!() };
        let (recorded, replaced) = digest_contents(&inputs);
        assert_eq!(
            recorded["content"],
            json!({"bytes": 3, "sha256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"})
        );
        assert_eq!(recorded["script"]["bytes"], MAX_RECORDED_BYTES + 1);
        let parameters = &recorded["resources"][0]["parameters"];
        assert_eq!(
            (&parameters["Content"]["bytes"], &parameters["mode"]),
            (&json!(9), &json!("0600"))
        );
        for kept in ["name", "command", "n"] {
            assert_eq!(recorded[kept], inputs[kept]);
        }
        let replaced: Vec<_> = replaced.iter().map(String::as_str).collect();
        assert_eq!(replaced, ["content", "resources", "script"]);
    }
}
