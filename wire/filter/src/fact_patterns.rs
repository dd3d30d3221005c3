//! Dotted paths of facts with `*` for any one segment or a part of it: `memory.*.available*`.

use serde_json::{Map, Value};

/// Patterns of facts, as in `registration.volatile_facts` of a daemon's configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FactPatterns(Vec<Vec<String>>);

impl FactPatterns {
    /// Parses patterns, whose form the configuration has checked.
    pub fn new(patterns: &[String]) -> Self {
        let segments = |pattern: &String| pattern.split('.').map(str::to_owned).collect();
        Self(patterns.iter().map(segments).collect())
    }

    /// Removes the facts that match.
    pub fn remove_from(&self, facts: &mut Map<String, Value>) {
        self.edit(facts, &mut |map, key| {
            map.remove(key);
        });
    }

    /// Calls `apply` for each fact that matches, with the map that has it and its name there.
    pub fn edit(
        &self,
        facts: &mut Map<String, Value>,
        apply: &mut impl FnMut(&mut Map<String, Value>, &str),
    ) {
        for pattern in &self.0 {
            edit(facts, pattern, apply);
        }
    }
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
