//! Lists of names that nodes have, each stored once, and the index from a name to the nodes that have it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use roaring::RoaringBitmap;

use crate::memory::{BITMAP_NODE_BYTES, index_entry_bytes, list_bytes};

/// The nodes that have a name: a class, an agent or a collective.
#[derive(Debug, Default)]
pub(crate) struct NameIndex {
    nodes: HashMap<String, RoaringBitmap>,
    memory_bytes: usize,
}

impl NameIndex {
    pub(crate) fn insert(&mut self, names: &[String], node: u32) {
        for name in names {
            let nodes = self.nodes.entry(name.clone()).or_default();
            if nodes.is_empty() {
                self.memory_bytes += index_entry_bytes(name);
            }
            if nodes.insert(node) {
                self.memory_bytes += BITMAP_NODE_BYTES;
            }
        }
    }

    pub(crate) fn remove(&mut self, names: &[String], node: u32) {
        for name in names {
            let Some(nodes) = self.nodes.get_mut(name) else { continue };
            if nodes.remove(node) {
                self.memory_bytes -= BITMAP_NODE_BYTES;
            }
            if nodes.is_empty() {
                self.nodes.remove(name);
                self.memory_bytes -= index_entry_bytes(name);
            }
        }
    }

    pub(crate) fn has_name(&self, name: &str) -> bool {
        self.nodes.contains_key(name)
    }

    pub(crate) fn nodes_with_any(&self, names: &[String]) -> RoaringBitmap {
        let mut found = RoaringBitmap::new();
        names.iter().filter_map(|name| self.nodes.get(name)).for_each(|nodes| found |= nodes);
        found
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }
}

/// Lists of names that several nodes share.
#[derive(Debug, Default)]
pub(crate) struct SharedLists {
    lists: HashSet<Arc<[String]>>,
    memory_bytes: usize,
}

impl SharedLists {
    pub(crate) fn share(&mut self, list: Vec<String>) -> Arc<[String]> {
        if let Some(shared) = self.lists.get(list.as_slice()) {
            return Arc::clone(shared);
        }
        let list = Arc::<[String]>::from(list);
        self.memory_bytes += list_bytes(&list);
        self.lists.insert(Arc::clone(&list));
        list
    }

    /// Removes the lists of a node that no other node has.
    pub(crate) fn release(&mut self, lists: &[Arc<[String]>; 4]) {
        for list in lists {
            let own = lists.iter().filter(|other| Arc::ptr_eq(list, other)).count();
            if Arc::strong_count(list) == own + 1 && self.lists.remove(list) {
                self.memory_bytes -= list_bytes(list);
            }
        }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }
}
