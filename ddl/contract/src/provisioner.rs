//! The agent `provisioner`: progress of the nodes that are being provisioned.

use muster_base::NodeText;
use muster_ddl::{Action, ActionList, ActionProperties, AgentContract};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The name of a node.
const NODE_PATTERN: &str = "^[a-zA-Z0-9_.-]+$";

/// The service that provisions new machines: shows their progress, and accepts commands.
#[derive(Debug, JsonSchema)]
pub struct ProvisionerAgent;

impl AgentContract for ProvisionerAgent {
    const NAME: &'static str = "provisioner";
    const TIMEOUT: u64 = 60;
    const DEFAULT_ACTION: Option<&'static str> = Some("status");

    fn list_actions(list: &mut impl ActionList) {
        list.add::<ProvisionerStatus>()
            .add::<ProvisionerRetry>()
            .add::<ProvisionerPause>()
            .add::<ProvisionerResume>()
            .add::<ProvisionerRetire>();
    }
}

/// Provisioning state of a node.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
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

/// Show the state of nodes; every host of the service shows the same.
#[derive(Debug, JsonSchema)]
pub struct ProvisionerStatus;

impl Action for ProvisionerStatus {
    type Agent = ProvisionerAgent;
    const NAME: &'static str = "status";
    type Input = ProvisionerStatusInput;
    type Output = ProvisionerStatusOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read().examples(include_str!("provisioner/status.json"))
    }
}

/// Inputs of `status`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProvisionerStatusInput {
    /// Only this node.
    #[schemars(length(max = 253), regex(pattern = NODE_PATTERN))]
    pub node: Option<String>,
    /// Only nodes in this state.
    pub state: Option<ProvisioningState>,
    /// Include the history of each node.
    #[schemars(extend("x-default" = false))]
    pub history: bool,
}

/// Outputs of `status`: the state of provisioning, as reported by one host of the service.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ProvisionerStatusOutput {
    /// The host that is the leader; empty if there is none.
    pub leader: NodeText,
    /// Number of nodes in each state.
    pub counts: Map<String, Value>,
    /// Each with state, step, attempt, completed steps, error, master, serial and times (milliseconds since the epoch); at most 1000.
    pub nodes: Vec<ProvisionedNodeRow>,
    /// Number of further nodes.
    pub more: u64,
}

/// One node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ProvisionedNodeRow {
    /// Its name.
    pub node: NodeText,
    /// `working`, `failed`, `done`, `retiring` or `retired`.
    pub state: NodeText,
    /// The current or next step; empty if there is none.
    pub step: NodeText,
    /// Number of the attempt.
    pub attempt: u64,
    /// Completed steps.
    pub done: Vec<NodeText>,
    /// Whether no step is started until it is resumed.
    pub paused: bool,
    /// Why it failed, or was deferred.
    pub error: NodeText,
    /// The master that was chosen for it.
    pub master: NodeText,
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
    pub step: NodeText,
    /// `began`, `done`, `failed`, `deferred` or `asked`.
    pub what: NodeText,
    /// Details as text.
    pub words: NodeText,
}

/// Retry a failed node, or immediately retry one that waits for its next attempt.
#[derive(Debug, JsonSchema)]
pub struct ProvisionerRetry;

impl Action for ProvisionerRetry {
    type Agent = ProvisionerAgent;
    const NAME: &'static str = "retry";
    type Input = NodeControlInput;
    type Output = NodeControlOutput;

    fn properties() -> ActionProperties {
        ActionProperties::change().idempotent().examples(include_str!("provisioner/retry.json"))
    }
}

/// Inputs of `retry`, `pause`, `resume` and `retire`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeControlInput {
    /// The node's name.
    #[schemars(length(max = 253), regex(pattern = NODE_PATTERN))]
    pub node: String,
}

/// Start no further step of a node.
#[derive(Debug, JsonSchema)]
pub struct ProvisionerPause;

impl Action for ProvisionerPause {
    type Agent = ProvisionerAgent;
    const NAME: &'static str = "pause";
    type Input = NodeControlInput;
    type Output = NodeControlOutput;

    fn properties() -> ActionProperties {
        ActionProperties::change().idempotent().examples(include_str!("provisioner/pause.json"))
    }
}

/// Outputs of `retry`, `pause`, `resume` and `retire`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct NodeControlOutput {
    /// The node.
    pub node: NodeText,
    /// The state now: working, failed, done, retiring or retired.
    pub state: NodeText,
    /// Whether the state changed.
    pub changed: bool,
}

/// Continue with a paused node.
#[derive(Debug, JsonSchema)]
pub struct ProvisionerResume;

impl Action for ProvisionerResume {
    type Agent = ProvisionerAgent;
    const NAME: &'static str = "resume";
    type Input = NodeControlInput;
    type Output = NodeControlOutput;

    fn properties() -> ActionProperties {
        ActionProperties::change().idempotent().examples(include_str!("provisioner/resume.json"))
    }
}

/// Remove a node from the fleet: revoke its certificates on all masters, and send the configured notification.
#[derive(Debug, JsonSchema)]
pub struct ProvisionerRetire;

impl Action for ProvisionerRetire {
    type Agent = ProvisionerAgent;
    const NAME: &'static str = "retire";
    type Input = NodeControlInput;
    type Output = NodeControlOutput;

    fn properties() -> ActionProperties {
        ActionProperties::root_equivalent()
            .idempotent()
            .examples(include_str!("provisioner/retire.json"))
    }
}
