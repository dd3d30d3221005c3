//! Finds the values of a path in a node's document, or in an element of a list. Copies nothing.
//!
//! A path descends into maps by key and into lists by index, and also into each map that is an element of a list. So a path has
//! any number of values. Where a map has no such key, or where a scalar ends the path early, the value is missing; elements of
//! lists that are no maps contribute nothing.

use serde_json::{Map, Value};

use super::path::{DocumentPath, NameField};
use super::value::{NameCase, NodeValue};
use crate::state::{FactPath, NodeView};

/// What a query document is evaluated for.
#[derive(Clone, Copy)]
pub(super) enum DocumentScope<'a> {
    Node(&'a NodeView<'a>),
    /// A map that is an element of a list.
    Element(&'a Map<String, Value>),
}

/// Receives each value, `None` if it is missing; returns whether to stop.
pub(super) type VisitValue<'a, 'v> = &'v mut dyn FnMut(Option<NodeValue<'a>>) -> bool;

impl DocumentPath {
    /// Whether the value is certain: facts, classes and state are not until their sources were read once.
    pub(super) fn is_known(&self, scope: DocumentScope<'_>) -> bool {
        let DocumentScope::Node(node) = scope else { return true };
        match self {
            Self::Map(field, path) => node.map(*field).is_some_and(|map| match path {
                None => map.is_complete(),
                Some(path) => map.is_known(path),
            }),
            Self::Names(NameField::Classes, _) => node.classes_known,
            Self::Identity | Self::Names(..) | Self::Element(_) => true,
        }
    }

    /// Visits the values until `visit` returns true; returns whether it did.
    pub(super) fn any_value<'a>(
        &self,
        scope: DocumentScope<'a>,
        visit: VisitValue<'a, '_>,
    ) -> bool {
        match (self, scope) {
            (Self::Identity, DocumentScope::Node(node)) => {
                visit(Some(NodeValue::Name(node.identity, NameCase::Ignored)))
            }
            (Self::Map(field, path), DocumentScope::Node(node)) => match (node.map(*field), path) {
                (None, _) => false,
                (Some(map), None) => visit(Some(NodeValue::Map(map.as_map()))),
                (Some(map), Some(path)) => any_at_path(map.as_map(), path, visit),
            },
            (Self::Names(field, index), DocumentScope::Node(node)) => {
                let (names, case) = match field {
                    NameField::Agents => (node.agents, NameCase::Ignored),
                    NameField::Classes => (node.classes, NameCase::Ignored),
                    NameField::Collectives => (node.collectives, NameCase::Exact),
                };
                match index {
                    None => visit(Some(NodeValue::Names(names, case))),
                    Some(index) => names
                        .get(*index)
                        .is_some_and(|name| visit(Some(NodeValue::Name(name, case)))),
                }
            }
            (Self::Element(path), DocumentScope::Element(map)) => {
                any_below_map(map, path.segment_list(), visit)
            }
            // The parser pairs each path with its scope.
            (Self::Element(_), DocumentScope::Node(_)) | (_, DocumentScope::Element(_)) => false,
        }
    }
}

/// Visits the values at a path of a map. An exact top-level key takes precedence, as for `-F`.
fn any_at_path<'a>(
    map: &'a Map<String, Value>,
    path: &FactPath,
    visit: VisitValue<'a, '_>,
) -> bool {
    match map.get(path.as_str()) {
        Some(value) => visit(Some(NodeValue::Json(value))),
        None => any_below_map(map, path.segment_list(), visit),
    }
}

fn any_below_map<'a>(
    map: &'a Map<String, Value>,
    segments: &[Box<str>],
    visit: VisitValue<'a, '_>,
) -> bool {
    match segments.split_first() {
        None => false,
        Some((key, rest)) => match map.get(key.as_ref()) {
            None => visit(None),
            Some(value) => any_below(value, rest, visit),
        },
    }
}

fn any_below<'a>(value: &'a Value, segments: &[Box<str>], visit: VisitValue<'a, '_>) -> bool {
    let Some((segment, rest)) = segments.split_first() else {
        return visit(Some(NodeValue::Json(value)));
    };
    match value {
        Value::Object(map) => any_below_map(map, segments, visit),
        Value::Array(items) => {
            let index = parse_index(segment);
            let indexed = index.and_then(|index| items.get(index));
            if indexed.is_some_and(|item| any_below(item, rest, visit)) {
                return true;
            }
            // With an index, a map without this key is not a missing value: the index is what was meant.
            let is_searched =
                |map: &&Map<String, Value>| index.is_none() || map.contains_key(segment.as_ref());
            let mut maps = items.iter().filter_map(Value::as_object).filter(is_searched);
            maps.any(|map| any_below_map(map, segments, visit))
        }
        _ => visit(None),
    }
}

fn parse_index(segment: &str) -> Option<usize> {
    let is_index = !segment.is_empty() && segment.bytes().all(|b| b.is_ascii_digit());
    if is_index { segment.parse().ok() } else { None }
}
