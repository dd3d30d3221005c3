//! Queries of other services on the same host, which share the index.

use std::collections::BTreeMap;

use muster_filter::NodeFilter;
use muster_wire::identity::Identity;
use serde_json::Value;
use tokio::time::Instant;

use crate::liveness::Presence;
use crate::query::{QueryError, find_nodes};
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

impl DirectoryHandle {
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
