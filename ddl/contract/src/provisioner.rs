//! The agent `provisioner`: progress of the nodes that are being provisioned.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Provisioning state of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProvisioningState {
    /// Provisioning is in progress.
    Working,
    /// A step failed permanently.
    Failed,
    /// Provisioning is complete.
    Done,
    /// Its certificates are being revoked.
    Retiring,
    /// It was removed from the fleet.
    Retired,
}

impl ProvisioningState {
    /// The name as used in replies.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::Failed => "failed",
            Self::Done => "done",
            Self::Retiring => "retiring",
            Self::Retired => "retired",
        }
    }
}

/// Outputs of `status`: the state of provisioning, as reported by one host of the service.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ProvisionerStatusOutput {
    /// The leading host; empty if there is none.
    pub leader: String,
    /// Number of nodes by state.
    pub counts: Map<String, Value>,
    /// The nodes, by name.
    pub nodes: Vec<ProvisionedNodeRow>,
    /// Number of further nodes, which are not listed.
    pub more: u64,
}

/// One node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ProvisionedNodeRow {
    /// Its name.
    pub node: String,
    /// `working`, `failed`, `done`, `retiring` or `retired`.
    pub state: String,
    /// The current or next step; empty if there is none.
    pub step: String,
    /// Number of the attempt.
    pub attempt: u64,
    /// Completed steps.
    pub done: Vec<String>,
    /// Whether no step is started until it is resumed.
    pub paused: bool,
    /// Why it failed, or was deferred.
    pub error: String,
    /// The master that was chosen for it.
    pub master: String,
    /// Serial number of its certificate.
    pub serial: String,
    /// When it was first seen, in milliseconds since 1970.
    pub since: u64,
    /// When it changed last, in milliseconds since 1970.
    pub changed: u64,
    /// Its history, oldest event first; only if requested.
    pub history: Vec<NodeHistoryRow>,
}

impl ProvisionedNodeRow {
    /// Whether the node is in this state.
    pub fn is_in(&self, state: ProvisioningState) -> bool {
        self.state == state.as_str()
    }
}

/// An event in the history of a node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct NodeHistoryRow {
    /// Time, in milliseconds since 1970.
    pub at: u64,
    /// The step, or the request of an operator.
    pub step: String,
    /// `began`, `done`, `failed`, `deferred` or `asked`.
    pub what: String,
    /// Details as text.
    pub words: String,
}

/// Outputs of `retry`, `pause`, `resume` and `retire`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct NodeControlOutput {
    /// The node.
    pub node: String,
    /// Its state.
    pub state: String,
    /// Whether the request was recorded; otherwise there was nothing to do.
    pub changed: bool,
}
