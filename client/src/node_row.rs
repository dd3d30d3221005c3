//! The replies of a report by result, and the outputs of nodes in the type of their action.

use muster_wire::identity::Identity;
use serde::de::DeserializeOwned;

use crate::node_reply::NodeReply;
use crate::report::RequestReport;

/// A node, and the outputs of an action that succeeded on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRow<T> {
    /// The node.
    pub node: Identity,
    /// The outputs.
    pub outputs: T,
}

impl RequestReport {
    /// The replies of nodes on which the action succeeded.
    pub fn successes(&self) -> impl Iterator<Item = &NodeReply> {
        self.replies.iter().filter(|reply| reply.is_ok())
    }

    /// The replies of nodes that refused the request, or on which the action failed.
    pub fn failures(&self) -> impl Iterator<Item = &NodeReply> {
        self.replies.iter().filter(|reply| !reply.is_ok())
    }

    /// The outputs of nodes on which the action succeeded, by name of node.
    pub fn rows<T: DeserializeOwned + Default>(&self) -> Vec<NodeRow<T>> {
        let row = |reply: &NodeReply| NodeRow {
            node: reply.node.clone(),
            outputs: reply.typed_outputs(),
        };
        let mut rows: Vec<NodeRow<T>> = self.successes().map(row).collect();
        rows.sort_by(|one, other| one.node.cmp(&other.node));
        rows
    }
}
