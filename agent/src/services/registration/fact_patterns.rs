//! Dotted paths of facts with `*` for any one segment or a part of it: `memory.*.available*`.

use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

#[derive(Debug, Clone, Default)]
pub(crate) struct FactPatterns(Vec<Vec<String>>);

impl FactPatterns {
    /// Parses patterns that the configuration has checked.
    pub(crate) fn new(patterns: &[String]) -> Self {
        let segments = |pattern: &String| pattern.split('.').map(str::to_owned).collect();
        Self(patterns.iter().map(segments).collect())
    }

    pub(crate) fn remove_from(&self, facts: &mut Map<String, Value>) {
        for pattern in &self.0 {
            edit(facts, pattern, &mut |map, key| {
                map.remove(key);
            });
        }
    }

    /// Replaces the values that match by a hash, so that equal values can be compared and are not disclosed.
    pub(crate) fn hash_in(&self, facts: &mut Map<String, Value>) {
        for pattern in &self.0 {
            edit(facts, pattern, &mut |map, key| {
                if let Some(value) = map.get_mut(key) {
                    *value = Value::String(hash_text(value));
                }
            });
        }
    }
}

/// `sha256:` and the first 16 bytes of the hash in hexadecimal.
fn hash_text(value: &Value) -> String {
    let digest = Sha256::digest(value.to_string().as_bytes());
    digest.iter().take(16).fold("sha256:".to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

/// Calls `apply` for each key that the pattern selects, in the map that has it.
fn edit(
    map: &mut Map<String, Value>,
    pattern: &[String],
    apply: &mut impl FnMut(&mut Map<String, Value>, &str),
) {
    let Some((first, rest)) = pattern.split_first() else { return };
    let keys: Vec<String> = map.keys().filter(|key| matches_glob(first, key)).cloned().collect();
    for key in keys {
        if rest.is_empty() {
            apply(map, &key);
        } else if let Some(Value::Object(inner)) = map.get_mut(&key) {
            edit(inner, rest, apply);
        }
    }
}

/// Whether a key matches a segment; `*` stands for any characters.
fn matches_glob(pattern: &str, key: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == key };
    let Some(key) = key.strip_prefix(start) else { return false };
    // Every way to use up the star: patterns and keys are short.
    (0..=key.len()).filter_map(|at| key.get(at..)).any(|tail| matches_glob(rest, tail))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn map(value: &Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn patterns_select_nested_keys() {
        let facts = map(&json!({
            "uptime": 5, "uptime_days": 1, "memory": {"system": {"available": 1, "available_bytes": 2, "total": 3}, "swap": 4}, "os": {"family": "Debian"},
        }));
        let patterns =
            ["uptime*", "memory.*.available*", "memory.swap.x", "none.*"].map(str::to_owned);
        let mut stable = facts.clone();
        FactPatterns::new(&patterns).remove_from(&mut stable);
        let expected =
            json!({"memory": {"system": {"total": 3}, "swap": 4}, "os": {"family": "Debian"}});
        assert_eq!(Value::Object(stable), expected);
    }

    #[test]
    fn hash_hides_the_value_and_keeps_equality() {
        let patterns = FactPatterns::new(&["secret".to_owned()]);
        let hashed = |value: &str| {
            let mut facts = map(&json!({"secret": value, "x": 1}));
            patterns.hash_in(&mut facts);
            facts
        };
        assert_eq!(hashed("a"), hashed("a"));
        assert_ne!(hashed("a"), hashed("b"));
        assert!(hashed("a").get("secret").unwrap().as_str().unwrap().starts_with("sha256:"));
    }

    #[test]
    fn star_matches_any_part_of_a_segment() {
        for (pattern, key, expected) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("a*", "a", true),
            ("*", "", true),
            ("a*c", "abc", true),
            ("a*c", "abcd", false),
            ("*b*", "abc", true),
            ("é*", "éa", true),
        ] {
            assert_eq!(matches_glob(pattern, key), expected, "{pattern} {key}");
        }
    }
}
