//! The agent `again`: runs of Puppet that ask for another run.

use muster_base::NodeText;
use muster_ddl::{Action, ActionList, ActionProperties, AgentContract, EmptyInput};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most names of nodes that a condition waits for in one report.
pub const MAX_MISSING_NAMES: usize = 10;
/// Most conditions of a node that the directory evaluates.
pub const MAX_WAITING_BARRIERS: usize = 8;

/// The id of a condition.
const CONDITION_PATTERN: &str = r"\A[0-9a-f-]+\z";
/// The name of a group of requests.
const GROUP_PATTERN: &str = r"\A[a-zA-Z0-9_.-]+\z";

/// A condition in the node's record, below `again.barriers`: each other node that matches the filter has finished a run of Puppet after `after`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingBarrier {
    /// Its id.
    pub id: String,
    /// The filter in its JSON form.
    pub filter: String,
    /// In milliseconds since the epoch, by the clock of the node that waits.
    pub after: u64,
}

/// Runs Puppet again when a run has asked for it.
#[derive(Debug, JsonSchema)]
pub struct AgainAgent;

impl AgentContract for AgainAgent {
    const NAME: &'static str = "again";
    const TIMEOUT: u64 = 30;

    fn list_actions(list: &mut impl ActionList) {
        list.add::<AgainRequestRun>()
            .add::<AgainCancel>()
            .add::<AgainReset>()
            .add::<AgainRelease>()
            .add::<AgainNoteMissing>()
            .add::<AgainList>()
            .add::<AgainHistory>();
    }
}

/// Report that a condition on other nodes holds; only the directory's service may.
#[derive(Debug, JsonSchema)]
pub struct AgainRelease;

impl Action for AgainRelease {
    type Agent = AgainAgent;
    const NAME: &'static str = "release";
    type Input = AgainReleaseInput;
    type Output = AgainChangeOutput;

    fn properties() -> ActionProperties {
        ActionProperties::change()
            .idempotent()
            .summary("text")
            .describe_output("changed", "Whether a run waited for the condition")
            .examples(include_str!("again/release.json"))
    }
}

/// Inputs of `release`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgainReleaseInput {
    /// The id of the condition, in the node's record.
    #[schemars(length(max = 36), regex(pattern = CONDITION_PATTERN))]
    pub id: String,
}

/// Report which nodes a condition waits for, for `list`; only the directory's service may.
#[derive(Debug, JsonSchema)]
pub struct AgainNoteMissing;

impl Action for AgainNoteMissing {
    type Agent = AgainAgent;
    const NAME: &'static str = "note_missing";
    type Input = AgainMissingInput;
    type Output = AgainChangeOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read()
            .summary("text")
            .describe_output("changed", "Whether a run waits for the condition")
            .examples(include_str!("again/note_missing.json"))
    }
}

/// Inputs of `note_missing`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgainMissingInput {
    /// The id of the condition, in the node's record.
    #[schemars(length(max = 36), regex(pattern = CONDITION_PATTERN))]
    pub id: String,
    /// How many nodes have not finished a run.
    pub count: u64,
    /// Names of up to ten of them.
    #[serde(default)]
    pub nodes: Vec<String>,
}

/// Ask for a run; all requests until it begins share one run.
#[derive(Debug, JsonSchema)]
pub struct AgainRequestRun;

impl Action for AgainRequestRun {
    type Agent = AgainAgent;
    const NAME: &'static str = "request";
    type Input = AgainRequestInput;
    type Output = AgainRequestOutput;

    fn properties() -> ActionProperties {
        ActionProperties::change().summary("state").examples(include_str!("again/request.json"))
    }
}

/// Inputs of `request`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgainRequestInput {
    /// Why a run is needed.
    #[schemars(length(max = 256), regex(pattern = r"\A[^\x00-\x1f\x7f]*\z"))]
    pub reason: String,
    /// Shortest delay, in seconds; a random time is added.
    #[schemars(title = "Shortest delay")]
    pub min_delay: Option<u64>,
    /// Longest delay, in seconds, without the limits of node and fleet.
    #[schemars(title = "Longest delay")]
    pub max_delay: Option<u64>,
    /// A name under which the run can be cancelled.
    #[schemars(length(max = 64), regex(pattern = GROUP_PATTERN))]
    pub group: Option<String>,
    /// No earlier than this time, in seconds since the epoch.
    #[schemars(title = "Not before")]
    pub not_before: Option<u64>,
    /// Seconds until the request expires.
    pub deadline: Option<u64>,
    /// Only record that a run was asked for.
    pub noop: Option<bool>,
}

/// Outputs of `request`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgainRequestOutput {
    /// `pending`, `due`, `limited`, `running` or `suppressed`.
    pub state: NodeText,
    /// The state in a sentence.
    pub text: NodeText,
    /// The id of the pending run.
    pub id: Option<String>,
    /// Whether a run had been asked for already.
    pub merged: bool,
    /// Whether this request caused the run.
    pub changed: bool,
}

/// Cancel the run that was asked for and has not begun.
#[derive(Debug, JsonSchema)]
pub struct AgainCancel;

impl Action for AgainCancel {
    type Agent = AgainAgent;
    const NAME: &'static str = "cancel";
    type Input = AgainCancelInput;
    type Output = AgainChangeOutput;

    fn properties() -> ActionProperties {
        ActionProperties::change()
            .idempotent()
            .summary("text")
            .examples(include_str!("again/cancel.json"))
    }
}

/// Inputs of `cancel`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgainCancelInput {
    /// Only a run that was asked for in this group.
    #[schemars(length(max = 64), regex(pattern = GROUP_PATTERN))]
    pub group: Option<String>,
    /// Report what would be cancelled.
    pub noop: Option<bool>,
}

/// Clear the state `oscillating` and the limits of the node.
#[derive(Debug, JsonSchema)]
pub struct AgainReset;

impl Action for AgainReset {
    type Agent = AgainAgent;
    const NAME: &'static str = "reset";
    type Input = AgainResetInput;
    type Output = AgainChangeOutput;

    fn properties() -> ActionProperties {
        ActionProperties::change()
            .idempotent()
            .summary("text")
            .describe_output("changed", "Whether there was something to clear")
            .examples(include_str!("again/reset.json"))
    }
}

/// Inputs of `reset`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgainResetInput {
    /// Report what would be reset.
    pub noop: Option<bool>,
}

/// Outputs of `cancel` and `reset`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgainChangeOutput {
    /// Whether a run was pending.
    pub changed: bool,
    /// What was done.
    pub text: String,
}

/// Report the run that was asked for.
#[derive(Debug, JsonSchema)]
pub struct AgainList;

impl Action for AgainList {
    type Agent = AgainAgent;
    const NAME: &'static str = "list";
    type Input = EmptyInput;
    type Output = AgainListOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read().summary("state").examples(include_str!("again/list.json"))
    }
}

/// Outputs of `list`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgainListOutput {
    /// `none`, `pending`, `due`, `limited` or `running`.
    pub state: NodeText,
    /// The state in a sentence.
    pub text: NodeText,
    /// Whether successive runs made the same changes, so that no further run begins.
    pub oscillating: bool,
    /// The id of the pending or running one.
    pub id: Option<String>,
    /// The run that was begun.
    pub run: Option<String>,
    /// The run that asked, if the agent `puppet` began it.
    #[schemars(title = "Cause")]
    pub cause_run: Option<String>,
    /// The `transaction_uuid` of the run that asked.
    #[schemars(title = "Cause (transaction)")]
    pub cause_transaction: Option<String>,
    /// Time of the first request, in milliseconds since the epoch.
    pub since: Option<u64>,
    /// When it is due, in milliseconds since the epoch; null while the run that asked goes on.
    pub due: Option<u64>,
    /// When it expires, in milliseconds since the epoch.
    pub deadline: Option<u64>,
    /// Number of requests.
    pub requests: u64,
    /// Who asked and why.
    #[serde(default)]
    pub reasons: Vec<AgainReasonRow>,
    /// Number of begun runs that count against the limits of the node.
    #[schemars(title = "Recent runs")]
    pub recent: u64,
    /// The conditions on other nodes that the run waits for, with the nodes that have not run yet.
    #[schemars(title = "Conditions")]
    #[serde(default)]
    pub barriers: Vec<AgainBarrierRow>,
}

/// A condition that a run waits for: each other node that matches the query has finished a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgainBarrierRow {
    /// Its id.
    pub id: String,
    /// The query.
    pub query: String,
    /// The end of the run that asked, in milliseconds since the epoch; null while it goes on.
    pub after: Option<u64>,
    /// When the run no longer waits, in milliseconds since the epoch; null while the run that asked goes on.
    pub expires: Option<u64>,
    /// How many nodes have not finished a run, as the directory reported last; null before it did.
    pub missing: Option<u64>,
    /// Names of some of them.
    #[serde(default)]
    pub missing_nodes: Vec<NodeText>,
}

/// Who asked and why.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgainReasonRow {
    /// The resource or caller.
    pub requester: NodeText,
    /// Why.
    pub reason: NodeText,
    /// How many requests had both.
    pub requests: u64,
}

/// List the runs that were asked for: those that took place and those that did not.
#[derive(Debug, JsonSchema)]
pub struct AgainHistory;

impl Action for AgainHistory {
    type Agent = AgainAgent;
    const NAME: &'static str = "history";
    type Input = AgainHistoryInput;
    type Output = AgainHistoryOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read().examples(include_str!("again/history.json"))
    }
}

/// Inputs of `history`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgainHistoryInput {
    /// Most entries.
    #[schemars(extend("x-default" = 20))]
    pub count: Option<u64>,
}

/// Outputs of `history`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgainHistoryOutput {
    /// The entries, newest first.
    #[serde(default)]
    pub entries: Vec<AgainHistoryRow>,
}

/// A run that was asked for and took place, or did not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgainHistoryRow {
    /// Its id.
    pub id: String,
    /// `ran`, `suppressed`.
    pub end: NodeText,
    /// The class of the run, or why it did not begin: `budget`, `oscillating`, `noop`, `cancelled`, `deadline`, `disabled`, `conditions`.
    pub detail: NodeText,
    /// Who cancelled it.
    pub by: Option<NodeText>,
    /// The run.
    pub run: Option<String>,
    /// The run that asked.
    pub cause_run: Option<String>,
    /// The `transaction_uuid` of the run that asked.
    pub cause_transaction: Option<String>,
    /// Time of the first request, in milliseconds since the epoch.
    pub since: u64,
    /// When it ended, in milliseconds since the epoch.
    pub at: u64,
    /// Number of requests.
    pub requests: u64,
    /// How its conditions on other nodes ended: `barrier released` or `barrier timed out`; null without conditions.
    #[serde(default)]
    pub barrier: Option<NodeText>,
    /// Who asked and why.
    #[serde(default)]
    pub reasons: Vec<AgainReasonRow>,
}
