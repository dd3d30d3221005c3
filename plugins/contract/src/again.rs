//! The agent `again`: runs of Puppet that ask for another run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most names of nodes that a condition waits for in one report.
pub const MAX_MISSING_NAMES: usize = 10;
/// Most conditions of a node that the directory evaluates.
pub const MAX_WAITING_BARRIERS: usize = 8;

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

/// Inputs of `release`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgainReleaseInput {
    /// The id of the condition that holds.
    pub id: String,
}

/// Inputs of `note_missing`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgainMissingInput {
    /// The id of the condition.
    pub id: String,
    /// How many nodes have not finished a run.
    pub count: u64,
    /// Names of some of them.
    #[serde(default)]
    pub nodes: Vec<String>,
}

/// Inputs of `request`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgainRequestInput {
    /// Why another run is needed.
    pub reason: String,
    /// Shortest delay, in seconds.
    pub min_delay: Option<u64>,
    /// Longest delay, in seconds.
    pub max_delay: Option<u64>,
    /// A name under which the request can be cancelled.
    pub group: Option<String>,
    /// No earlier than this time, in seconds since the epoch.
    pub not_before: Option<u64>,
    /// Seconds until the request expires.
    pub deadline: Option<u64>,
    /// Only record the request.
    pub noop: Option<bool>,
}

/// Outputs of `request`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgainRequestOutput {
    /// The state of the pending run: `pending`, `due`, `limited`, `running`, or `suppressed`.
    pub state: String,
    /// The state in a sentence.
    pub text: String,
    /// The id of the pending run.
    pub id: Option<String>,
    /// Whether a run had been asked for already.
    pub merged: bool,
    /// Whether this request caused the run.
    pub changed: bool,
}

/// Inputs of `cancel`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgainCancelInput {
    /// Only a run that was asked for in this group.
    pub group: Option<String>,
    /// Only report what would be cancelled.
    pub noop: Option<bool>,
}

/// Inputs of `reset`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgainResetInput {
    /// Only report what would be reset.
    pub noop: Option<bool>,
}

/// Outputs of `cancel` and `reset`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgainChangeOutput {
    /// Whether there was something to change.
    pub changed: bool,
    /// What was done, in a sentence.
    pub text: String,
}

/// Outputs of `list`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgainListOutput {
    /// `none`, `pending`, `due`, `limited` or `running`.
    pub state: String,
    /// The state in a sentence.
    pub text: String,
    /// Whether successive runs made the same changes, so that no further run begins.
    pub oscillating: bool,
    /// The id of the pending or running one.
    pub id: Option<String>,
    /// The run that was begun.
    pub run: Option<String>,
    /// The run that asked: its id if the agent `puppet` began it.
    pub cause_run: Option<String>,
    /// The `transaction_uuid` of the run that asked.
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
    pub recent: u64,
    /// The conditions on other nodes that the run waits for.
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
    pub missing_nodes: Vec<String>,
}

/// Who asked and why.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgainReasonRow {
    /// The resource or caller.
    pub requester: String,
    /// Why.
    pub reason: String,
    /// How many requests had both.
    pub requests: u64,
}

/// Inputs of `history`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgainHistoryInput {
    /// Most entries.
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
    pub end: String,
    /// The class of the run, or why it did not begin: `budget`, `oscillating`, `noop`, `cancelled`, `deadline`, `disabled`, `conditions`.
    pub detail: String,
    /// Who cancelled it.
    pub by: Option<String>,
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
    pub barrier: Option<String>,
    /// Who asked and why.
    #[serde(default)]
    pub reasons: Vec<AgainReasonRow>,
}
