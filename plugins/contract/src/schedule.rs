//! The agent `schedule`: the service that requests actions by schedules.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Inputs of `add`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ScheduleAddInput {
    /// The signed schedule: a `ScheduleGrant` in an envelope, in base64url.
    pub grant: String,
    /// Whether it may replace a schedule of the same name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replace: Option<bool>,
}

/// Outputs of `add`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ScheduleAddOutput {
    /// The name of the schedule.
    pub name: String,
    /// The id of the signed schedule.
    pub id: String,
    /// When it ends, in milliseconds since the epoch.
    pub ends: u64,
    /// Number of nodes that match now; absent while the directory is not ready.
    pub nodes: Option<usize>,
    /// The first starts, in milliseconds since the epoch.
    pub next: Vec<u64>,
    /// Whether it replaced a schedule.
    pub replaced: bool,
}

/// Highest number of nodes that an answer lists by seat.
pub const MAX_LISTED_SEATS: usize = 5000;

/// Inputs of `show`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ScheduleShowInput {
    /// The schedule.
    pub name: String,
    /// Whether to return the expected load, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load: Option<bool>,
    /// Whether to return the nodes by seat, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seats: Option<bool>,
}

/// Inputs of `pause` and `resume`: one schedule, or all.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct SchedulePauseInput {
    /// The schedule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// All schedules.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all: Option<bool>,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Inputs of `resume`: one schedule, or all.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ScheduleResumeInput {
    /// The schedule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// All schedules.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all: Option<bool>,
}

/// Inputs of `remove` and `rebalance`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ScheduleNameInput {
    /// The schedule.
    pub name: String,
}

/// Outputs of `pause`, `resume` and `remove`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ScheduleChangeOutput {
    /// Whether anything changed.
    pub changed: bool,
    /// What was done, in a sentence.
    pub text: String,
}

/// Inputs of `history`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ScheduleHistoryInput {
    /// The schedule.
    pub name: String,
    /// Only this node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Most entries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
}

/// Outputs of `list`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ScheduleListOutput {
    /// The schedules, by name.
    pub schedules: Vec<ScheduleRow>,
    /// Who paused all schedules.
    pub paused: Option<SchedulePause>,
    /// The host that sends the requests.
    pub leader: Option<String>,
    /// Whether this instance knows the nodes.
    pub ready: bool,
}

/// One schedule.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ScheduleRow {
    /// The name.
    pub name: String,
    /// The caller in whose name it requests.
    pub author: String,
    /// Agent and action.
    pub what: String,
    /// When, in words.
    pub when: String,
    /// Which nodes, in words.
    pub filter: String,
    /// How many nodes at once.
    pub limit: Option<u32>,
    /// `active`, `paused`, `ended`, or `refused`.
    pub state: String,
    /// Why it is paused or refused.
    pub reason: Option<String>,
    /// Number of nodes that match.
    pub nodes: usize,
    /// Number of requests in progress.
    pub running: usize,
    /// Number of nodes whose last turn could not begin.
    pub missed: usize,
    /// Number of nodes whose last run is older than two intervals.
    pub overdue: usize,
    /// The next start, in milliseconds since the epoch.
    pub next: Option<u64>,
    /// When it ends, in milliseconds since the epoch.
    pub ends: u64,
}

/// Who paused a schedule, when and why.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SchedulePause {
    /// The caller.
    pub by: String,
    /// When, in milliseconds since the epoch.
    pub at: u64,
    /// Why.
    pub reason: Option<String>,
}

/// Outputs of `show`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ScheduleShowOutput {
    /// The schedule, as in a list.
    pub schedule: ScheduleRow,
    /// The schedule as its author signed it.
    pub spec: Map<String, Value>,
    /// Number of nodes by last outcome.
    pub outcomes: BTreeMap<String, usize>,
    /// The next starts.
    pub next: Vec<ScheduleStartRow>,
    /// Nodes whose last run is older than two intervals.
    pub overdue: Vec<ScheduleOverdueRow>,
    /// Nodes whose last turn could not begin.
    pub missed: Vec<ScheduleEntry>,
    /// Expected number of runs in progress.
    pub load: Vec<ScheduleLoadRow>,
    /// Most runs in progress at once, as expected.
    pub peak: u32,
    /// The same if the seats were assigned by measured durations.
    pub balanced_peak: u32,
    /// The nodes in the order of their seats; empty for a schedule with more than 5,000 nodes.
    pub seats: Vec<ScheduleSeatRow>,
}

/// A node with a seat.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ScheduleSeatRow {
    /// The node.
    pub node: String,
    /// Expected time of a run, in milliseconds: that of its last one, or the mean of all nodes; absent if no time is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_ms: Option<u64>,
}

/// A start to come.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ScheduleStartRow {
    /// The node.
    pub node: String,
    /// When, in milliseconds since the epoch.
    pub at: u64,
}

/// A node that has not run for long.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ScheduleOverdueRow {
    /// The node.
    pub node: String,
    /// Its last run, in milliseconds since the epoch; absent if none is known.
    pub last: Option<u64>,
}

/// The expected load of a part of the time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ScheduleLoadRow {
    /// Its begin, in milliseconds since the epoch.
    pub at: u64,
    /// Average number of runs in progress.
    pub running: f64,
}

/// Outputs of `history`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ScheduleHistoryOutput {
    /// The entries, newest first.
    pub entries: Vec<ScheduleEntry>,
}

/// What became of one turn of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ScheduleEntry {
    /// When it was decided, in milliseconds since the epoch.
    pub at: u64,
    /// The time in the schedule, in milliseconds since the epoch.
    pub slot: u64,
    /// The node.
    pub node: String,
    /// `begun`, `succeeded`, `failed`, `skipped`, `cancelled`, `refused`, `no_answer` or `missed`.
    pub outcome: String,
    /// Why, or the result in words.
    pub reason: String,
    /// How long the request took, in milliseconds.
    pub took_ms: u64,
}
