//! The result of a copy, by node.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use crate::jobs::RequestOutcome;
use muster_base::NodeText;
use muster_calls::RolloutStopReason;
use muster_wire::identity::Identity;

/// How a copy to or from a node ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeCopyOutcome {
    /// The file was copied.
    Copied,
    /// The target had the same content and attributes.
    Unchanged,
    /// The target had the same content; its mode, owner or group was set.
    AttributesSet,
    /// The copy failed; the target is as it was.
    Failed(NodeText),
    /// The node did not reply, or no longer.
    NoReply(NodeText),
    /// The copy was not attempted or was interrupted, because the command ended early.
    NotCompleted,
}

/// The result for one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeCopyResult {
    /// How it ended.
    pub outcome: NodeCopyOutcome,
    /// Size of the file in bytes; 0 if unknown.
    pub bytes: u64,
    /// Bytes that an interrupted copy had left, and that were not sent again.
    pub resumed_bytes: u64,
    /// The file that was written: a path of the node, or of this machine if the file was fetched.
    pub file: Option<PathBuf>,
    /// SHA-256 of the file, in hexadecimal digits, if known.
    pub sha256: Option<String>,
}

/// The results of all nodes.
#[derive(Debug, Clone, Default)]
pub struct CopyReport {
    /// By node.
    pub nodes: BTreeMap<Identity, NodeCopyResult>,
    /// Why the command ended early, if it did.
    pub stop: Option<RolloutStopReason>,
    /// Duration of the copies.
    pub took: Duration,
}

impl NodeCopyOutcome {
    /// Whether the target has the file now.
    pub fn is_ok(&self) -> bool {
        matches!(self, Self::Copied | Self::Unchanged | Self::AttributesSet)
    }

    /// The stable name in documents.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Copied => "copied",
            Self::Unchanged => "unchanged",
            Self::AttributesSet => "attributes",
            Self::Failed(_) => "failed",
            Self::NoReply(_) => "no_reply",
            Self::NotCompleted => "not_completed",
        }
    }

    /// Why the copy failed.
    pub fn message(&self) -> Option<&NodeText> {
        match self {
            Self::Failed(message) | Self::NoReply(message) => Some(message),
            _ => None,
        }
    }
}

impl NodeCopyResult {
    /// A result with this outcome, and nothing else known.
    pub fn new(outcome: NodeCopyOutcome) -> Self {
        Self { outcome, bytes: 0, resumed_bytes: 0, file: None, sha256: None }
    }
}

impl CopyReport {
    /// Number of nodes whose copy failed or that did not reply.
    pub(super) fn unsuccessful_count(&self) -> usize {
        self.nodes.values().filter(|result| !result.outcome.is_ok()).count()
    }

    /// Adds the nodes without a result.
    pub(super) fn add_not_completed(&mut self, nodes: BTreeSet<Identity>) {
        for node in nodes {
            let result = || NodeCopyResult::new(NodeCopyOutcome::NotCompleted);
            self.nodes.entry(node).or_insert_with(result);
        }
    }

    /// How the command ended, as for requests.
    pub fn outcome(&self) -> RequestOutcome {
        let count = |is_counted: fn(&NodeCopyOutcome) -> bool| {
            self.nodes.values().filter(|result| is_counted(&result.outcome)).count()
        };
        let silent = count(|outcome| matches!(outcome, NodeCopyOutcome::NoReply(_)));
        RequestOutcome::of_nodes(self.nodes.len(), count(NodeCopyOutcome::is_ok), silent)
    }
}

#[cfg(test)]
mod tests {
    use crate::jobs::RequestOutcome;

    use super::{CopyReport, NodeCopyOutcome, NodeCopyResult};

    #[test]
    fn outcome_follows_from_the_nodes() {
        let no_reply = NodeCopyOutcome::NoReply("gone".into());
        for (outcomes, expected) in [
            (vec![], RequestOutcome::NoNodes),
            (vec![NodeCopyOutcome::Copied, NodeCopyOutcome::Unchanged], RequestOutcome::Succeeded),
            (vec![NodeCopyOutcome::Copied, no_reply.clone()], RequestOutcome::SomeFailed),
            (vec![no_reply.clone(), no_reply], RequestOutcome::NoReplies),
            (vec![NodeCopyOutcome::NotCompleted], RequestOutcome::SomeFailed),
        ] {
            let nodes = (0..).zip(outcomes).map(|(number, outcome)| {
                (format!("n{number}").parse().unwrap(), NodeCopyResult::new(outcome))
            });
            let report = CopyReport { nodes: nodes.collect(), ..CopyReport::default() };
            assert_eq!(report.outcome(), expected, "{report:?}");
        }
    }
}
