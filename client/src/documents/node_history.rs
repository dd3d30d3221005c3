//! Documents of what changed on a node.

use muster_wire::Millis;
use muster_wire::identity::Identity;
use muster_wire::node_history::{NodeChange, NodeHistory, ValueChange};
use schemars::JsonSchema;
use serde::Serialize;

/// The document of `rpc node --history -j`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct NodeHistoryDocument<'a> {
    schema: &'static str,
    node: &'a Identity,
    changes: &'a [NodeChange],
}

impl<'a> NodeHistoryDocument<'a> {
    /// The document of all changes that the node has noted.
    pub fn new(node: &'a Identity, history: &'a NodeHistory) -> Self {
        Self { schema: "muster.node-history.v1", node, changes: history.changes() }
    }
}

/// The document of `rpc node --diff -j`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct NodeDifferenceDocument<'a> {
    schema: &'static str,
    node: &'a Identity,
    from: Millis,
    until: Millis,
    complete: bool,
    values: Vec<ValueChange>,
}

impl<'a> NodeDifferenceDocument<'a> {
    /// The document of what differs between two times, in milliseconds since the epoch.
    pub fn new(node: &'a Identity, history: &NodeHistory, from: Millis, until: Millis) -> Self {
        Self {
            schema: "muster.node-difference.v1",
            node,
            from,
            until,
            complete: history.reaches(from),
            values: history.between(from, until),
        }
    }

    /// Whether the history reaches back to the first time.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// The values that differ.
    pub fn values(&self) -> &[ValueChange] {
        &self.values
    }
}
