//! Values of nodes as Ansible may read them: each text is marked as unsafe, so that Ansible never renders it as a template. Pure.
//!
//! Any text can be a template: one that begins with `#jinja2:` sets its own delimiters. So all are marked, and none is judged by its content. Keys of maps cannot be
//! marked; a key that is not plain is left out with its value.

use serde_json::{Map, Value, json};

/// The key with which Ansible reads a text that is never rendered as a template.
const UNSAFE_KEY: &str = "__ansible_unsafe";
/// What the keys begin with that Ansible replaces with a value of another type. A node has none of them.
const MARKER_PREFIX: &str = "__ansible_";
/// Longest key, in bytes.
const MAX_KEY_BYTES: usize = 256;

/// The value with each text marked as unsafe. Keys that are left out are added to `left_out`.
pub(super) fn mark_unsafe(value: &Value, left_out: &mut Vec<String>) -> Value {
    match value {
        Value::String(text) => json!({ UNSAFE_KEY: text }),
        Value::Array(elements) => {
            elements.iter().map(|element| mark_unsafe(element, left_out)).collect()
        }
        Value::Object(map) => Value::Object(mark_map(map, left_out)),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

fn mark_map(map: &Map<String, Value>, left_out: &mut Vec<String>) -> Map<String, Value> {
    let mut marked = Map::new();
    for (key, value) in map {
        if is_plain_key(key) {
            marked.insert(key.clone(), mark_unsafe(value, left_out));
        } else {
            left_out.push(key.clone());
        }
    }
    marked
}

/// Whether no template can be in the key: it has neither delimiters nor the `#` that begins a line with other delimiters. Names of facts, interfaces, devices and paths are plain.
fn is_plain_key(key: &str) -> bool {
    (1..=MAX_KEY_BYTES).contains(&key.len())
        && !key.starts_with(MARKER_PREFIX)
        && key.chars().all(|c| c.is_alphanumeric() || " _-./:@+,=~".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(value: &Value) -> (Value, Vec<String>) {
        let mut left_out = Vec::new();
        (mark_unsafe(value, &mut left_out), left_out)
    }

    #[test]
    fn every_text_is_marked_and_other_values_are_kept() {
        let facts = json!({"a": ["x", 1, {"b": "y"}], "c": true, "d": null, "e": 1.5});
        let marked = json!({
            "a": [{UNSAFE_KEY: "x"}, 1, {"b": {UNSAFE_KEY: "y"}}], "c": true, "d": null, "e": 1.5
        });
        assert_eq!(mark(&facts), (marked, vec![]));
    }

    #[test]
    fn keys_with_templates_and_markers_of_ansible_are_left_out() {
        let long = "k".repeat(MAX_KEY_BYTES + 1);
        for key in [
            "{{ x }}",
            "{% x %}",
            "{#x#}",
            "#jinja2:variable_start_string:'['",
            "[% x %]",
            "<x>",
            "${x}",
            "a\nb",
            "a\u{0}b",
            "a\u{202e}b",
            "!unsafe",
            "__ansible_unsafe",
            "__ansible_vault",
            "__ansible_type",
            "",
            &long,
        ] {
            let left_out = vec![key.to_owned()];
            assert_eq!(mark(&json!({key: "x"})), (json!({}), left_out.clone()), "{key:?}");
            let nested = json!([{"a": {key: {"b": "x"}, "c": 1}}]);
            assert_eq!(mark(&nested), (json!([{"a": {"c": 1}}]), left_out), "{key:?}");
        }
    }

    #[test]
    fn names_of_real_facts_are_kept() {
        for key in ["eth0:1", "/boot/efi", "/dev/mapper/vg-root", "ssh.rsa", "br-0", "größe", "a b"]
        {
            assert_eq!(mark(&json!({key: 1})), (json!({key: 1}), vec![]), "{key:?}");
        }
    }
}
