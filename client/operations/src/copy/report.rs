//! The result of a copy, by node.

use std::path::PathBuf;

use muster_base::NodeText;

use crate::batches::{NodeResult, NodeResults};

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
pub type CopyReport = NodeResults<NodeCopyResult>;

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

impl NodeResult for NodeCopyResult {
    fn not_completed() -> Self {
        Self::new(NodeCopyOutcome::NotCompleted)
    }

    fn is_ok(&self) -> bool {
        self.outcome.is_ok()
    }

    fn is_silent(&self) -> bool {
        matches!(self.outcome, NodeCopyOutcome::NoReply(_))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use muster_client::RequestOutcome;

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
            let (nodes, took) = (nodes.collect(), Duration::ZERO);
            let report = CopyReport { nodes, stop: None, took };
            assert_eq!(report.outcome(), expected, "{report:?}");
        }
    }
}
