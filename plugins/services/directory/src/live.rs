//! Queries of other services on the same host, which share the index.

use std::collections::BTreeMap;

use muster_filter::NodeFilter;
use muster_filter::state::MapField;
use muster_wire::Millis;
use muster_wire::identity::Identity;
use muster_wire::token::PublicKey;
use serde_json::{Map, Value};
use tokio::time::Instant;

use crate::liveness::Presence;
use crate::query::{QueryError, RecordFilter, find_nodes};
use crate::state::DirectoryHandle;
use crate::value_path::ValuePath;

#[derive(Debug, Clone, PartialEq)]
pub struct SelectedNode {
    pub identity: Identity,
    /// Whether it has sent no heartbeat for two intervals.
    pub is_missing: bool,
    /// Its values at the paths, by path; those that it does not have are left out.
    pub values: BTreeMap<String, Value>,
}

/// What is known of one node.
#[derive(Debug, Clone)]
pub struct NodeSnapshot {
    pub identity: Identity,
    /// The revision of its record in the bucket.
    pub revision: u64,
    /// When the node made its record, by its clock.
    pub record_time: Millis,
    pub facts: Map<String, Value>,
    /// The key that signed its record.
    pub key: Option<PublicKey>,
}

/// Which nodes have changed.
#[derive(Debug)]
pub struct ChangedNodes {
    /// The number of the last change, to ask for later ones.
    pub last: u64,
    /// `None` if that is no longer known: each may have changed.
    pub nodes: Option<Vec<Identity>>,
}

impl DirectoryHandle {
    /// What is known of a node; `None` if it has no record.
    pub fn snapshot(&self, node: &Identity) -> Option<NodeSnapshot> {
        let state = self.read();
        let stored = state.table.get(node)?;
        let facts = state.table.map_of(stored, MapField::Facts).unwrap_or_default().into_map();
        let key = stored.sender.as_ref().map(|sender| sender.key);
        let (revision, record_time) = (stored.revision, stored.record_time);
        Some(NodeSnapshot { identity: node.clone(), revision, record_time, facts, key })
    }

    /// The names of all nodes, each with the time of its record; `None` until all records were read once.
    pub fn record_times(&self) -> Option<Vec<(Identity, Millis)>> {
        let state = self.read();
        let times = || state.table.iter().map(|node| (node.identity.clone(), node.record_time));
        state.is_ready.then(|| times().collect())
    }

    /// The names of all nodes; `None` until all records were read once.
    pub fn node_names(&self) -> Option<Vec<Identity>> {
        let state = self.read();
        let names = || state.table.iter().map(|node| node.identity.clone()).collect();
        state.is_ready.then(names)
    }

    /// Whether a node matches a filter; `None` if it has no record.
    pub fn matches(
        &self,
        node: &Identity,
        filter: &NodeFilter,
    ) -> Result<Option<bool>, QueryError> {
        let filter = RecordFilter::new(filter)?;
        let state = self.read();
        Ok(state.table.get(node).map(|node| filter.matches(&state.table, node)))
    }

    /// Waits for a change after this one, and returns which nodes have changed. The first call asks with 0.
    pub async fn next_changes(&self, after: u64) -> ChangedNodes {
        self.wait_for_change(after).await;
        let state = self.read();
        let changed = state.changes_after(after);
        let names = |changed: Vec<(u64, &Identity)>| {
            changed.into_iter().map(|(_, node)| node.clone()).collect()
        };
        ChangedNodes { last: state.last_change(), nodes: changed.map(names) }
    }

    /// The nodes that match, by name, with their values at these paths. `None` until all records were read once.
    pub fn select_nodes(
        &self,
        filter: &NodeFilter,
        paths: &[ValuePath],
    ) -> Result<Option<Vec<SelectedNode>>, QueryError> {
        let (state, now) = (self.read(), Instant::now());
        if !state.is_ready {
            return Ok(None);
        }
        let found = find_nodes(&state.table, filter)?;
        let selected = found.into_iter().map(|node| SelectedNode {
            identity: node.identity.clone(),
            is_missing: state.presence(node, now) == Presence::Missing,
            values: state.table.values_at(node, paths),
        });
        Ok(Some(selected.collect()))
    }
}
