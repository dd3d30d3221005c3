//! The facts of all nodes: each distinct value of a top-level fact is stored once, as JSON, with the nodes that have it.
//!
//! Most values are the same on many nodes, so a node costs 8 bytes per fact and the values that only it has. The same table is the index: the nodes with
//! a value at a path are found by looking at each distinct value of the fact, not at each node.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use muster_filter::state::{FactPath, NodeFacts};
use muster_filter::{FactIndexKey, ReferencedFacts, fact_index_keys};
use roaring::RoaringBitmap;
use serde_json::{Map, Value};

use crate::memory::{STORED_FACT_BYTES, fact_name_bytes, fact_value_bytes};
use crate::node_set::NodeSet;

/// One fact of one node: the numbers of its name and its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StoredFact {
    name: u32,
    value: u32,
}

/// The facts of one node, sorted by name.
pub(crate) type StoredFacts = Box<[StoredFact]>;

/// Distinct values of facts, and the nodes that have them.
#[derive(Debug, Default)]
pub struct FactValues {
    names: HashMap<Arc<str>, u32>,
    /// By the number of the name.
    values_of_name: Vec<NameEntry>,
    values: Vec<ValueEntry>,
    /// Numbers of values that no node has any more.
    free: Vec<u32>,
    /// Numbers of names that no node has any more.
    free_names: Vec<u32>,
    memory_bytes: usize,
}

#[derive(Debug)]
struct NameEntry {
    name: Arc<str>,
    by_text: HashMap<Arc<str>, u32>,
}

#[derive(Debug)]
struct ValueEntry {
    name: u32,
    /// JSON.
    text: Arc<str>,
    nodes: NodeSet,
}

impl FactValues {
    pub(crate) fn insert(&mut self, node: u32, facts: &NodeFacts) -> StoredFacts {
        let mut stored: Vec<StoredFact> = facts
            .iter()
            .map(|(name, value)| {
                let name = self.number_of_name(name);
                let value = self.number_of_value(name, &value.to_string());
                if let Some(entry) = self.values.get_mut(value as usize) {
                    self.memory_bytes -= entry.nodes.memory_bytes();
                    entry.nodes.insert(node);
                    self.memory_bytes += entry.nodes.memory_bytes() + STORED_FACT_BYTES;
                }
                StoredFact { name, value }
            })
            .collect();
        stored.sort_unstable();
        stored.into()
    }

    /// Removes the facts of a node, and the values that no other node has.
    pub(crate) fn remove(&mut self, node: u32, facts: &[StoredFact]) {
        for fact in facts {
            let Some(entry) = self.values.get_mut(fact.value as usize) else { continue };
            self.memory_bytes -= entry.nodes.memory_bytes() + STORED_FACT_BYTES;
            entry.nodes.remove(node);
            self.memory_bytes += entry.nodes.memory_bytes();
            if entry.nodes.is_empty() {
                let text = std::mem::replace(&mut entry.text, Arc::from(""));
                self.memory_bytes -= fact_value_bytes(&text);
                if let Some(name) = self.values_of_name.get_mut(fact.name as usize) {
                    name.by_text.remove(&text);
                    if name.by_text.is_empty() {
                        name.by_text.shrink_to_fit();
                        self.names.remove(&name.name);
                        self.memory_bytes -= fact_name_bytes(&name.name);
                        self.free_names.push(fact.name);
                    }
                }
                self.free.push(fact.value);
            }
        }
    }

    /// The facts of a node, restricted to those that a filter reads.
    pub(crate) fn facts_of(&self, facts: &[StoredFact], wanted: &ReferencedFacts) -> NodeFacts {
        let map: Map<String, Value> = match wanted {
            ReferencedFacts::All => facts.iter().filter_map(|fact| self.parse(*fact)).collect(),
            ReferencedFacts::Named(names) => {
                let numbers = names.iter().filter_map(|name| self.names.get(name.as_str()));
                let found = numbers.filter_map(|name| {
                    let at = facts.binary_search_by_key(name, |fact| fact.name).ok()?;
                    self.parse(*facts.get(at)?)
                });
                found.collect()
            }
        };
        // The limits were checked when the record was decoded.
        NodeFacts::from_map(map).unwrap_or_default()
    }

    /// The nodes whose values at a path have one of these keys; some of them may not match a filter that requires it.
    pub(crate) fn nodes_with(
        &self,
        path: &FactPath,
        keys: &BTreeSet<FactIndexKey>,
    ) -> RoaringBitmap {
        let mut found = RoaringBitmap::new();
        for entry in self.values_below(path) {
            if !fact_index_keys(&self.single_fact(entry), path).is_disjoint(keys) {
                entry.nodes.add_to(&mut found);
            }
        }
        found
    }

    /// How many of these nodes have which value at a path. Lists and maps count as one value. The second number is that of nodes without a value.
    pub(crate) fn facets(
        &self,
        path: &FactPath,
        nodes: &RoaringBitmap,
    ) -> (Vec<(Value, u64)>, u64) {
        let mut counts: HashMap<String, u64> = HashMap::new();
        let mut uncounted = nodes.clone();
        for entry in self.values_below(path) {
            let facts = NodeFacts::from_map(self.single_fact(entry)).unwrap_or_default();
            let count = entry.nodes.intersection_len(&uncounted);
            if count > 0
                && let Some(value) = facts.get_path(path)
            {
                *counts.entry(value.to_string()).or_default() += count;
                // A node with a fact of this exact name and a value below the first segment counts once.
                entry.nodes.remove_from(&mut uncounted);
            }
        }
        let parse = |(text, count): (String, u64)| {
            (serde_json::from_str(&text).unwrap_or(Value::Null), count)
        };
        (counts.into_iter().map(parse).collect(), uncounted.len())
    }

    /// Number of distinct values.
    pub fn len(&self) -> usize {
        self.values.len() - self.free.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of the texts of all distinct values.
    pub fn text_bytes(&self) -> usize {
        self.values.iter().map(|entry| entry.text.len()).sum()
    }

    /// Estimated memory of all facts, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    /// The distinct values of the facts that a path can begin with: the fact of that exact name, which takes precedence, and that of its first segment.
    fn values_below<'a>(&'a self, path: &'a FactPath) -> impl Iterator<Item = &'a ValueEntry> {
        let first = path.segments().next();
        let exact = Some(path.as_str()).filter(|exact| first != Some(*exact));
        let names = exact.into_iter().chain(first).filter_map(|name| self.names.get(name));
        let entries = names.filter_map(|name| self.values_of_name.get(*name as usize));
        let values = entries.flat_map(|entry| entry.by_text.values());
        values.filter_map(|value| self.values.get(*value as usize))
    }

    fn single_fact(&self, entry: &ValueEntry) -> Map<String, Value> {
        let name = self.values_of_name.get(entry.name as usize);
        let value = serde_json::from_str(&entry.text).unwrap_or(Value::Null);
        name.map(|name| (name.name.to_string(), value)).into_iter().collect()
    }

    fn parse(&self, fact: StoredFact) -> Option<(String, Value)> {
        let name = self.values_of_name.get(fact.name as usize)?;
        let text = &self.values.get(fact.value as usize)?.text;
        Some((name.name.to_string(), serde_json::from_str(text).ok()?))
    }

    fn number_of_name(&mut self, name: &str) -> u32 {
        if let Some(number) = self.names.get(name) {
            return *number;
        }
        self.memory_bytes += fact_name_bytes(name);
        let name = Arc::<str>::from(name);
        let entry = NameEntry { name: Arc::clone(&name), by_text: HashMap::new() };
        let number = if let Some(number) = self.free_names.pop() {
            if let Some(place) = self.values_of_name.get_mut(number as usize) {
                *place = entry;
            }
            number
        } else {
            self.values_of_name.push(entry);
            number_of(self.values_of_name.len() - 1)
        };
        self.names.insert(name, number);
        number
    }

    fn number_of_value(&mut self, name: u32, text: &str) -> u32 {
        let Some(name_entry) = self.values_of_name.get_mut(name as usize) else { return u32::MAX };
        if let Some(number) = name_entry.by_text.get(text) {
            return *number;
        }
        self.memory_bytes += fact_value_bytes(text);
        let text = Arc::<str>::from(text);
        let entry = ValueEntry { name, text: Arc::clone(&text), nodes: NodeSet::Empty };
        let number = if let Some(number) = self.free.pop() {
            if let Some(place) = self.values.get_mut(number as usize) {
                *place = entry;
            }
            number
        } else {
            self.values.push(entry);
            number_of(self.values.len() - 1)
        };
        name_entry.by_text.insert(text, number);
        number
    }
}

/// Memory ends long before the numbers do.
fn number_of(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}
