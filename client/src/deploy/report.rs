//! The result of a deployment, by node.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::jobs::RequestOutcome;
use muster_base::NodeText;
use muster_calls::RolloutStopReason;
use muster_contract::config::ConfigDeployOutput;
use muster_wire::identity::Identity;

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

/// The results of all nodes.
#[derive(Debug, Clone, Default)]
pub struct DeployReport {
    /// The name of the deployment.
    pub deployment: String,
    /// By node.
    pub nodes: BTreeMap<Identity, NodeDeployResult>,
    /// Why the command ended early, if it did.
    pub stop: Option<RolloutStopReason>,
    /// Duration.
    pub took: Duration,
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

impl DeployReport {
    /// Number of nodes whose deployment failed or that did not reply.
    pub(super) fn unsuccessful_count(&self) -> usize {
        self.nodes.values().filter(|result| !result.outcome.is_ok()).count()
    }

    /// Adds the nodes without a result.
    pub(super) fn add_not_completed(&mut self, nodes: BTreeSet<Identity>) {
        for node in nodes {
            self.nodes.entry(node).or_insert_with(|| {
                NodeDeployResult::new(
                    NodeDeployOutcome::NotCompleted,
                    ConfigDeployOutput::default(),
                )
            });
        }
    }

    /// How the command ended, as for requests.
    pub fn outcome(&self) -> RequestOutcome {
        let count = |is_counted: fn(&NodeDeployOutcome) -> bool| {
            self.nodes.values().filter(|result| is_counted(&result.outcome)).count()
        };
        let silent = count(|outcome| matches!(outcome, NodeDeployOutcome::NoReply(_)));
        RequestOutcome::of_nodes(self.nodes.len(), count(NodeDeployOutcome::is_ok), silent)
    }
}
