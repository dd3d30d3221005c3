//! A node's facts: one JSON object within limits, addressed by dotted paths, and which of its names are known.
//!
//! The limits are checked on construction, so code that holds a [`NodeFacts`] may recurse into it and send it.
//! Collection and comparison of facts are in other modules.

use std::collections::BTreeSet;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, map};

use super::path::{self, FactPath};

/// Deepest nesting of maps and lists, including the outermost map.
pub const MAX_FACTS_DEPTH: usize = 32;
/// Largest size of the facts: the bytes of all keys and texts, plus 8 bytes per value.
pub const MAX_FACTS_BYTES: usize = 1 << 20;

/// Accounted size of a value in addition to its text, in bytes.
const VALUE_BYTES: usize = 8;

/// The facts of one node, nested as collected.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct NodeFacts {
    map: Map<String, Value>,
    /// `None` if every source was read. Otherwise the top-level names that no unread source can change.
    #[serde(skip)]
    known_names: Option<BTreeSet<String>>,
}

/// A value that is not valid as facts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NodeFactsError {
    /// The value is not an object.
    #[error("facts must be a JSON object of names and values, not {0}")]
    NotAnObject(&'static str),
    /// Nested deeper than [`MAX_FACTS_DEPTH`].
    #[error("fact {0:?} is nested deeper than {MAX_FACTS_DEPTH} levels; flatten it or remove it")]
    TooDeep(String),
    /// Larger than [`MAX_FACTS_BYTES`].
    #[error("facts exceed {MAX_FACTS_BYTES} bytes at fact {0:?}; remove facts that are not used")]
    TooLarge(String),
}

impl NodeFacts {
    /// Creates facts from a JSON object within the limits.
    pub fn from_value(value: Value) -> Result<Self, NodeFactsError> {
        let found = match value {
            Value::Object(map) => return Self::from_map(map),
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::String(_) => "a string",
            Value::Array(_) => "a list",
        };
        Err(NodeFactsError::NotAnObject(found))
    }

    /// Creates facts from a map within the limits.
    pub fn from_map(map: Map<String, Value>) -> Result<Self, NodeFactsError> {
        let mut left = MAX_FACTS_BYTES;
        for (name, value) in &map {
            let to_error = |exceeded| match exceeded {
                ExceededLimit::Depth => NodeFactsError::TooDeep(name.clone()),
                ExceededLimit::Size => NodeFactsError::TooLarge(name.clone()),
            };
            left = deduct(left, name.len())
                .and_then(|left| deduct_size(value, MAX_FACTS_DEPTH - 1, left))
                .map_err(to_error)?;
        }
        Ok(Self { map, known_names: None })
    }

    /// Marks a fact source as unread: only these top-level names are known, because an unread source could set or override every
    /// other one.
    #[must_use]
    pub fn with_known_names(self, known_names: BTreeSet<String>) -> Self {
        Self { map: self.map, known_names: Some(known_names) }
    }

    /// Whether the value at this path, or its absence, is certain. While a source is unread, a dotted path is certain only as an exact
    /// top-level name: the source could set the dotted name itself, which takes precedence over the nested value.
    pub fn is_known(&self, path: &FactPath) -> bool {
        self.known_names.as_ref().is_none_or(|known_names| known_names.contains(path.as_str()))
    }

    /// Whether the value of this top-level name, or its absence, is certain.
    pub fn is_name_known(&self, name: &str) -> bool {
        self.known_names.as_ref().is_none_or(|known_names| known_names.contains(name))
    }

    /// Whether every source was read.
    pub fn is_complete(&self) -> bool {
        self.known_names.is_none()
    }

    /// The value at a dotted path. An exact top-level key, including its dots, takes precedence. Otherwise each segment descends
    /// into a map by key or a list by index. `None` if there is no value, or the text is not a path.
    ///
    /// ```
    /// # use muster_filter::state::NodeFacts;
    /// # use serde_json::json;
    /// let facts = NodeFacts::from_value(json!({"os": {"family": "Debian"}, "a": {"b.c": [7]}})).unwrap();
    /// assert_eq!(facts.get("os.family"), Some(&json!("Debian")));
    /// assert_eq!(facts.get("a.\"b.c\".0"), Some(&json!(7)));
    /// ```
    pub fn get(&self, path: &str) -> Option<&Value> {
        self.map.get(path).or_else(|| {
            let mut segments = path::split_segments(path);
            let first = self.map.get(segments.next()?.ok()?)?;
            segments.try_fold(first, |value, segment| child_value(value, segment.ok()?))
        })
    }

    /// The value at an already parsed path.
    pub fn get_path(&self, path: &FactPath) -> Option<&Value> {
        self.map.get(path.as_str()).or_else(|| {
            let mut segments = path.segments();
            let first = self.map.get(segments.next()?)?;
            segments.try_fold(first, child_value)
        })
    }

    /// Top-level facts.
    pub fn iter(&self) -> map::Iter<'_> {
        self.map.iter()
    }

    /// Every scalar and every empty map or list, with its path for [`NodeFacts::get`].
    /// A key that holds both kinds of quotes has no such path; its path is for display only.
    pub fn leaf_values(&self) -> Vec<(String, &Value)> {
        let mut leaves = Vec::new();
        for (name, value) in &self.map {
            gather_leaves(path::quote_segment_if_needed(name), value, &mut |path, leaf| {
                // A flat key may shadow the nested one; quoting the first segment distinguishes them.
                let path = match path.strip_prefix(name.as_str()) {
                    Some(suffix) if self.map.contains_key(&path) && !suffix.is_empty() => {
                        path::quote_segment(name) + suffix
                    }
                    _ => path,
                };
                leaves.push((path, leaf));
            });
        }
        leaves
    }

    /// The size that [`MAX_FACTS_BYTES`] limits: the bytes of all keys and texts, plus 8 bytes per value.
    pub fn accounted_bytes(&self) -> usize {
        let left = self.map.iter().try_fold(MAX_FACTS_BYTES, |left, (name, value)| {
            deduct(left, name.len()).and_then(|left| deduct_size(value, MAX_FACTS_DEPTH, left))
        });
        MAX_FACTS_BYTES - left.unwrap_or(0)
    }

    /// Number of top-level facts.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Whether there are no facts.
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// The JSON object.
    pub fn as_map(&self) -> &Map<String, Value> {
        &self.map
    }

    /// The JSON object, by value.
    pub fn into_map(self) -> Map<String, Value> {
        self.map
    }
}

impl<'de> Deserialize<'de> for NodeFacts {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        Self::from_map(Map::deserialize(source)?).map_err(serde::de::Error::custom)
    }
}

impl<'a> IntoIterator for &'a NodeFacts {
    type Item = (&'a String, &'a Value);
    type IntoIter = map::Iter<'a>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

enum ExceededLimit {
    Depth,
    Size,
}

/// The rest of `left` bytes after `value`, which may nest `levels` deep.
fn deduct_size(value: &Value, levels: usize, left: usize) -> Result<usize, ExceededLimit> {
    let left = deduct(left, VALUE_BYTES)?;
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(left),
        Value::String(text) => deduct(left, text.len()),
        Value::Array(_) | Value::Object(_) if levels == 0 => Err(ExceededLimit::Depth),
        Value::Array(items) => {
            items.iter().try_fold(left, |left, item| deduct_size(item, levels - 1, left))
        }
        Value::Object(map) => map.iter().try_fold(left, |left, (key, value)| {
            deduct_size(value, levels - 1, deduct(left, key.len())?)
        }),
    }
}

fn deduct(left: usize, cost: usize) -> Result<usize, ExceededLimit> {
    left.checked_sub(cost).ok_or(ExceededLimit::Size)
}

/// The child of a segment: by map key or list index.
fn child_value<'a>(value: &'a Value, segment: &str) -> Option<&'a Value> {
    match value {
        Value::Object(map) => map.get(segment),
        Value::Array(items) if segment.bytes().all(|b| b.is_ascii_digit()) => {
            items.get(segment.parse::<usize>().ok()?)
        }
        _ => None,
    }
}

fn gather_leaves<'a>(path: String, value: &'a Value, visit: &mut dyn FnMut(String, &'a Value)) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, value) in map {
                gather_leaves(
                    format!("{path}.{}", path::quote_segment_if_needed(key)),
                    value,
                    visit,
                );
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                gather_leaves(format!("{path}.{index}"), item, visit);
            }
        }
        leaf => visit(path, leaf),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{MAX_FACTS_BYTES, NodeFacts, NodeFactsError};

    fn facts(value: Value) -> NodeFacts {
        NodeFacts::from_value(value).unwrap()
    }

    #[test]
    fn paths_traverse_maps_and_lists() {
        let facts = facts(json!({
            "os": {"family": "Debian", "release": {"full": "12.4"}},
            "disks": [{"name": "sda"}, {"name": "sdb"}],
            "labels": {"a.b": {"c": true}},
        }));
        assert_eq!(facts.get("os.release.full"), Some(&json!("12.4")));
        assert_eq!(facts.get("disks.1.name"), Some(&json!("sdb")));
        assert_eq!(facts.get("labels.\"a.b\".c"), Some(&json!(true)));
        for absent in
            ["", "os.", "disks.2", "disks.+1", "disks.name", "labels.a.b.c", "os.family.x"]
        {
            assert_eq!(facts.get(absent), None, "{absent}");
        }
    }

    #[test]
    fn exact_key_takes_precedence_and_quotes_bypass_it() {
        let facts = facts(json!({"os.family": "flat", "os": {"family": "nested"}, "odd key": 1}));
        assert_eq!(facts.get("os.family"), Some(&json!("flat")));
        assert_eq!(facts.get("\"os\".family"), Some(&json!("nested")));
        assert_eq!(facts.get("odd key"), Some(&json!(1)));
    }

    #[test]
    fn every_leaf_has_its_path() {
        let facts = facts(json!({
            "os.family": "flat", "os": {"family": "nested", "": null, "x y": [1, [], {"k'": 2}]},
            "empty": {}, "a=b": {"c": 3},
        }));
        let leaves = facts.leaf_values();
        assert_eq!(leaves.len(), 8);
        for (path, value) in leaves {
            assert_eq!(facts.get(&path), Some(value), "{path}");
        }
    }

    #[test]
    fn facts_must_be_objects_within_the_limits() {
        assert_eq!(NodeFacts::from_value(json!(["a"])), Err(NodeFactsError::NotAnObject("a list")));
        let nested = |levels: usize| (1..levels).fold(json!({}), |inner, _| json!({"a": inner}));
        assert!(NodeFacts::from_value(nested(32)).is_ok());
        assert_eq!(NodeFacts::from_value(nested(33)), Err(NodeFactsError::TooDeep("a".into())));
        // The key counts as one byte and the value as eight; the remaining bytes are text.
        let sized = |bytes: usize| json!({"a": "x".repeat(bytes)});
        assert!(NodeFacts::from_value(sized(MAX_FACTS_BYTES - 9)).is_ok());
        let large = NodeFacts::from_value(sized(MAX_FACTS_BYTES - 8));
        assert_eq!(large, Err(NodeFactsError::TooLarge("a".into())));
    }

    #[test]
    fn decoding_applies_the_same_limits() {
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(40), "]".repeat(40));
        let refused = serde_json::from_str::<NodeFacts>(&deep).unwrap_err().to_string();
        assert!(refused.contains("deeper than 32"), "{refused}");
        assert!(serde_json::from_str::<NodeFacts>("[]").is_err());
        let text = r#"{"a":{"b":[1,null]}}"#;
        let decoded: NodeFacts = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&decoded).unwrap(), text);
    }
}
