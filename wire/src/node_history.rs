//! What changed on a node, and when: the newest changes of its facts, classes, agents, collectives and version, which its record carries.
//!
//! A node notes a change when it publishes a record that differs from the one before. So history needs no second store at the broker, survives restarts of all
//! programs, and is signed. It is as trustworthy as the node: a stolen key of the node can rewrite it. Facts that always change and the state of
//! subsystems are in no change.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Millis;
use crate::compressed::{CompressedJsonError, compress_json, decompress_json};
use crate::node_record::NodeContent;

/// Changes that a record carries; older ones are dropped.
pub const MAX_CHANGES: usize = 64;
/// Values that a change names; further ones are counted.
pub const MAX_CHANGED_VALUES: usize = 100;
/// Longest value in a change, in bytes of JSON. A longer one is replaced by its size as a text: `(2048 bytes)`.
pub const MAX_VALUE_BYTES: usize = 512;
/// Largest compressed history in bytes. The oldest changes are dropped beyond it.
pub const MAX_HISTORY_BYTES: usize = 12 * 1024;
/// Largest history before compression, in bytes.
const MAX_HISTORY_TEXT_BYTES: usize = MAX_CHANGES * MAX_CHANGED_VALUES * 4 * MAX_VALUE_BYTES;

/// What changed between two records of a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeChange {
    /// When the node noted it, by its clock, in milliseconds since the epoch.
    pub time: Millis,
    /// The changed values, by path.
    pub values: Vec<ValueChange>,
    /// Number of further changed values.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: usize,
}

/// One value before and after a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ValueChange {
    /// `facts.os.release.full`, `agents.puppet`, `version`; `classes` and `collectives` for one name that was added or removed.
    pub path: String,
    /// The value before; `None` if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// The value after; `None` if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
}

/// The newest changes of a node, the oldest first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeHistory(Vec<NodeChange>);

impl NodeHistory {
    /// Adds what differs between two contents, if anything does. Contents are compared as they are: the caller leaves out facts that always change.
    pub fn note(&mut self, before: &NodeContent, after: &NodeContent, time: Millis) {
        let mut values = changed_values(before, after);
        if values.is_empty() {
            return;
        }
        let more = values.len().saturating_sub(MAX_CHANGED_VALUES);
        values.truncate(MAX_CHANGED_VALUES);
        values.iter_mut().for_each(ValueChange::shorten);
        self.0.push(NodeChange { time, values, more });
        let surplus = self.0.len().saturating_sub(MAX_CHANGES);
        self.0.drain(..surplus);
    }

    /// The changes, the oldest first.
    pub fn changes(&self) -> &[NodeChange] {
        &self.0
    }

    /// What differs between two times: for each value, that before the first change and that after the last one. Values that are the same again are left out,
    /// and so are values that a change only counts.
    pub fn between(&self, after: Millis, until: Millis) -> Vec<ValueChange> {
        let mut merged: BTreeMap<(String, Option<String>), ValueChange> = BTreeMap::new();
        let within = self.0.iter().filter(|change| after < change.time && change.time <= until);
        for change in within.flat_map(|change| &change.values) {
            let key = (change.path.clone(), change.member());
            merged
                .entry(key)
                .and_modify(|known| known.after.clone_from(&change.after))
                .or_insert_with(|| change.clone());
        }
        merged.into_values().filter(|change| change.before != change.after).collect()
    }

    /// Whether changes after this time are complete: whether one at or before it is still known, or none was ever dropped.
    pub fn reaches(&self, time: Millis) -> bool {
        self.0.len() < MAX_CHANGES || self.0.first().is_some_and(|oldest| oldest.time <= time)
    }

    /// The history as a text for a record; `None` if it is empty. The oldest changes are dropped until it is small enough.
    pub fn compress(&self) -> Result<Option<String>, CompressedJsonError> {
        let mut changes = self.0.as_slice();
        while !changes.is_empty() {
            let text = compress_json(&changes)?;
            if text.len() <= MAX_HISTORY_BYTES {
                return Ok(Some(text));
            }
            changes = changes.get(changes.len().div_ceil(4)..).unwrap_or_default();
        }
        Ok(None)
    }

    /// Reads the text of a record.
    pub fn decompress(text: &str) -> Result<Self, CompressedJsonError> {
        decompress_json(text, MAX_HISTORY_TEXT_BYTES)
    }
}

impl ValueChange {
    /// The name that was added to a list or removed from it, so that each name has a history of its own.
    fn member(&self) -> Option<String> {
        let is_list = self.path == CLASSES || self.path == COLLECTIVES;
        let name = self.before.as_ref().or(self.after.as_ref()).and_then(Value::as_str);
        name.filter(|_| is_list).map(str::to_owned)
    }

    fn shorten(&mut self) {
        for value in [&mut self.before, &mut self.after].into_iter().flatten() {
            let bytes = value.to_string().len();
            if bytes > MAX_VALUE_BYTES {
                *value = Value::String(format!("({bytes} bytes)"));
            }
        }
    }
}

const CLASSES: &str = "classes";
const COLLECTIVES: &str = "collectives";

/// The values that differ, by path. Classes that are unknown count as unchanged, because a node reads them after its start.
fn changed_values(before: &NodeContent, after: &NodeContent) -> Vec<ValueChange> {
    let mut changes = changed_texts("", &version_map(before), &version_map(after));
    changes.extend(changed_texts("agents.", &before.agents, &after.agents));
    if let (Some(before), Some(after)) = (&before.classes, &after.classes) {
        changes.extend(changed_members(CLASSES, before.iter(), after.iter()));
    }
    let names = |content: &NodeContent| -> Vec<String> {
        content.collectives.iter().map(ToString::to_string).collect()
    };
    let (old, new) = (names(before), names(after));
    changes.extend(changed_members(COLLECTIVES, old.iter(), new.iter()));
    let old: BTreeMap<String, &Value> = before.facts.leaf_values().into_iter().collect();
    let new: BTreeMap<String, &Value> = after.facts.leaf_values().into_iter().collect();
    changes.extend(changed_entries("facts.", &old, &new, |value| Value::clone(value)));
    changes.sort_by(|one, other| one.path.cmp(&other.path));
    changes
}

fn version_map(content: &NodeContent) -> BTreeMap<String, String> {
    [("version".to_owned(), content.version.clone())].into()
}

fn changed_texts(
    prefix: &str,
    before: &BTreeMap<String, String>,
    after: &BTreeMap<String, String>,
) -> Vec<ValueChange> {
    changed_entries(prefix, before, after, |text| Value::String(text.clone()))
}

fn changed_entries<T: PartialEq>(
    prefix: &str,
    before: &BTreeMap<String, T>,
    after: &BTreeMap<String, T>,
    to_value: impl Fn(&T) -> Value,
) -> Vec<ValueChange> {
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let changed = names.into_iter().filter(|name| before.get(*name) != after.get(*name));
    let change = |name: &String| ValueChange {
        path: format!("{prefix}{name}"),
        before: before.get(name).map(&to_value),
        after: after.get(name).map(&to_value),
    };
    changed.map(change).collect()
}

fn changed_members<'a>(
    path: &str,
    before: impl Iterator<Item = &'a String>,
    after: impl Iterator<Item = &'a String>,
) -> Vec<ValueChange> {
    let (before, after): (BTreeSet<_>, BTreeSet<_>) = (before.collect(), after.collect());
    let change = |before: Option<&String>, after: Option<&String>| ValueChange {
        path: path.to_owned(),
        before: before.cloned().map(Value::String),
        after: after.cloned().map(Value::String),
    };
    let removed = before.difference(&after).map(|name| change(Some(name), None));
    let added = after.difference(&before).map(|name| change(None, Some(name)));
    removed.chain(added).collect()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests;
