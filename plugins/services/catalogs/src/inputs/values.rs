//! Digests of what a compile read of the values of a node.

use muster_filter::FactPatterns;
use serde_json::{Map, Value};

use super::{InputDigest, ValueRead};

/// The values that a compile can read.
#[derive(Debug, Clone, Copy)]
pub struct NodeValues<'a> {
    pub facts: &'a Map<String, Value>,
    pub trusted: &'a Map<String, Value>,
    pub server_facts: &'a Map<String, Value>,
    /// Facts that are left out where all facts were read: they change all the time, and their values do not matter.
    pub volatile: &'a FactPatterns,
}

impl NodeValues<'_> {
    /// The digest of a path, whose first name is `facts`, `trusted` or `server_facts`.
    pub(super) fn digest(&self, path: &[String], read: ValueRead) -> InputDigest {
        let Some((root, path)) = path.split_first() else { return InputDigest::absent() };
        let map = match root.as_str() {
            "facts" => self.facts,
            "trusted" => self.trusted,
            _ => self.server_facts,
        };
        let Some((name, parents)) = path.split_last() else {
            let mut read = map.clone();
            self.volatile.remove_from(&mut read);
            return digest_value(&Value::Object(read));
        };
        let parent = parents.iter().try_fold(map, |map, name| map.get(name)?.as_object());
        let value = parent.and_then(|map| map.get(name));
        match read {
            ValueRead::Exists => InputDigest::of("exists", &[u8::from(value.is_some())]),
            ValueRead::Named => {
                let names = parent.into_iter().flat_map(Map::keys);
                let equal: Vec<&String> =
                    names.filter(|other| other.to_lowercase() == name.to_lowercase()).collect();
                digest_value(&equal.into_iter().cloned().collect())
            }
            ValueRead::Kind if value.is_some_and(Value::is_object) => InputDigest::of("map", b""),
            ValueRead::Kind | ValueRead::Value => {
                value.map_or_else(InputDigest::absent, digest_value)
            }
        }
    }
}

/// The digest of a value: maps are sorted by name.
pub(super) fn digest_value(value: &Value) -> InputDigest {
    InputDigest::of("value", value.to_string().as_bytes())
}
