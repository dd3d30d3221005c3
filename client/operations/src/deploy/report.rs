//! The result of a deployment, by node.

use muster_base::NodeText;
use muster_contract::config::ConfigDeployOutput;

use crate::batches::{NodeResult, NodeResults};

/// How a deployment to a node ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeDeployOutcome {
    /// The node runs with the files, and they stay.
    Confirmed,
    /// The node had these files.
    Unchanged,
    /// The files would change.
    Planned,
    /// A deployment that waited for its confirmation was undone.
    Reverted,
    /// The node refused; its files are as they were.
    Failed(NodeText),
    /// The files were replaced, but the node did not accept the confirmation: it restores its earlier files.
    Unconfirmed(NodeText),
    /// The node did not reply.
    NoReply(NodeText),
    /// The deployment was not attempted or was interrupted, because the command ended early.
    NotCompleted,
}

/// The result for one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeDeployResult {
    /// How it ended.
    pub outcome: NodeDeployOutcome,
    /// What the node replied at first.
    pub output: ConfigDeployOutput,
}

/// A deployment and the results of all nodes.
#[derive(Debug, Clone)]
pub struct DeployReport {
    /// The name of the deployment.
    pub deployment: String,
    /// By node.
    pub results: NodeResults<NodeDeployResult>,
}

impl NodeDeployOutcome {
    /// Whether the node has the files now, or would have them.
    pub fn is_ok(&self) -> bool {
        matches!(self, Self::Confirmed | Self::Unchanged | Self::Planned | Self::Reverted)
    }

    /// The stable name in documents.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Confirmed => "confirmed",
            Self::Unchanged => "unchanged",
            Self::Planned => "planned",
            Self::Reverted => "reverted",
            Self::Failed(_) => "failed",
            Self::Unconfirmed(_) => "unconfirmed",
            Self::NoReply(_) => "no_reply",
            Self::NotCompleted => "not_completed",
        }
    }

    /// Why it did not succeed.
    pub fn message(&self) -> Option<&NodeText> {
        match self {
            Self::Failed(message) | Self::Unconfirmed(message) | Self::NoReply(message) => {
                Some(message)
            }
            _ => None,
        }
    }
}

impl NodeDeployResult {
    pub(super) fn new(outcome: NodeDeployOutcome, output: ConfigDeployOutput) -> Self {
        Self { outcome, output }
    }
}

impl NodeResult for NodeDeployResult {
    fn not_completed() -> Self {
        Self::new(NodeDeployOutcome::NotCompleted, ConfigDeployOutput::default())
    }

    fn is_ok(&self) -> bool {
        self.outcome.is_ok()
    }

    fn is_silent(&self) -> bool {
        matches!(self.outcome, NodeDeployOutcome::NoReply(_))
    }
}
