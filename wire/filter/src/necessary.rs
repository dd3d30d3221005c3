//! Conditions that every matching node satisfies, for an index that narrows the nodes before the filter decides.
//!
//! A condition is listed only if it is implied by the filter. Its keys are coarser than the evaluator: an index finds a superset,
//! and [`NodeFilter::matches`](crate::NodeFilter::matches) decides.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::number::NumericValue;
use crate::pattern::lower_case;
use crate::state::{FactPath, MapField, NodeView};

/// A condition that holds for every node that matches. Names and keys are alternatives: the node has at least one of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NecessaryCondition {
    /// The identity is one of these, in lower case.
    Identity(Vec<String>),
    /// The node has one of these classes, in lower case.
    Class(Vec<String>),
    /// The node has one of these agents, in lower case.
    Agent(Vec<String>),
    /// The node is in one of these collectives.
    Collective(Vec<String>),
    /// One of the keys at a path of a map is one of these: see [`fact_index_keys`].
    Value(MapField, FactPath, BTreeSet<FactIndexKey>),
}

/// A scalar in a form in which values are equal if the evaluator may regard them as equal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FactIndexKey {
    /// A text in lower case.
    Text(String),
    /// The bits of a 64-bit floating point number; also for texts that have the form of a number.
    Number(u64),
    /// A boolean.
    Boolean(bool),
}

impl FactIndexKey {
    /// The keys of a text: itself, and its number if it has the form of a number.
    pub(crate) fn of_text(text: &str) -> impl Iterator<Item = Self> {
        let number = NumericValue::parse(text).map(Self::of_number);
        std::iter::once(Self::Text(lower_case(text))).chain(number)
    }

    pub(crate) fn of_number(number: NumericValue) -> Self {
        // Zero and negative zero are equal.
        Self::Number((number.to_float() + 0.0).to_bits())
    }
}

impl NecessaryCondition {
    /// Whether the condition holds for a node. An index has the same answer for the same data.
    pub fn holds(&self, node: &NodeView<'_>) -> bool {
        let has_name = |wanted: &[String], names: &[String]| {
            names.iter().any(|name| wanted.contains(&lower_case(name)))
        };
        match self {
            Self::Identity(names) => names.contains(&lower_case(node.identity)),
            Self::Class(names) => has_name(names, node.classes),
            Self::Agent(names) => has_name(names, node.agents),
            Self::Collective(names) => node.collectives.iter().any(|name| names.contains(name)),
            Self::Value(field, path, keys) => node
                .map(*field)
                .is_some_and(|map| !fact_index_keys(map.as_map(), path).is_disjoint(keys)),
        }
    }
}

/// All keys of the values at a path: of scalars, of the elements of lists, and of the names in maps. A path descends into maps by key, into
/// lists by index, and into every map that is an element of a list. An exact top-level name counts, too.
pub fn fact_index_keys(facts: &Map<String, Value>, path: &FactPath) -> BTreeSet<FactIndexKey> {
    let mut keys = BTreeSet::new();
    if let Some(value) = facts.get(path.as_str()) {
        gather_keys(value, &mut keys);
    }
    if let Some((first, rest)) = path.segment_list().split_first()
        && let Some(value) = facts.get(first.as_ref())
    {
        gather_keys_below(value, rest, &mut keys);
    }
    keys
}

fn gather_keys_below(value: &Value, segments: &[Box<str>], keys: &mut BTreeSet<FactIndexKey>) {
    let Some((segment, rest)) = segments.split_first() else { return gather_keys(value, keys) };
    match value {
        Value::Object(map) => {
            if let Some(value) = map.get(segment.as_ref()) {
                gather_keys_below(value, rest, keys);
            }
        }
        Value::Array(items) => {
            let index = segment.parse::<usize>().ok();
            if let Some(item) = index.and_then(|index| items.get(index)) {
                gather_keys_below(item, rest, keys);
            }
            for map in items.iter().filter(|item| item.is_object()) {
                gather_keys_below(map, segments, keys);
            }
        }
        _ => {}
    }
}

fn gather_keys(value: &Value, keys: &mut BTreeSet<FactIndexKey>) {
    match value {
        Value::Null => {}
        Value::Bool(value) => {
            keys.insert(FactIndexKey::Boolean(*value));
        }
        Value::Number(number) => {
            keys.extend(NumericValue::from_json(number).map(FactIndexKey::of_number));
        }
        Value::String(text) => keys.extend(FactIndexKey::of_text(text)),
        Value::Array(items) => items.iter().for_each(|item| gather_keys(item, keys)),
        Value::Object(map) => map.keys().for_each(|name| keys.extend(FactIndexKey::of_text(name))),
    }
}
