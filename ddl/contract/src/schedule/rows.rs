//! The rows of answers about schedules.

use muster_base::NodeText;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One schedule.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ScheduleRow {
    /// The name.
    pub name: NodeText,
    /// The caller in whose name it requests.
    pub author: NodeText,
    /// Agent and action.
    pub what: NodeText,
    /// When, in words.
    pub when: NodeText,
    /// Which nodes, in words.
    pub filter: NodeText,
    /// How many nodes at once.
    pub limit: Option<u32>,
    /// `active`, `paused`, `ended`, or `refused`.
    pub state: NodeText,
    /// Why it is paused or refused.
    pub reason: Option<NodeText>,
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
pub struct SchedulePauseRow {
    /// The caller.
    pub by: NodeText,
    /// When, in milliseconds since the epoch.
    pub at: u64,
    /// Why.
    pub reason: Option<NodeText>,
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
    pub node: NodeText,
    /// When, in milliseconds since the epoch.
    pub at: u64,
}

/// A node that has not run for long.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ScheduleOverdueRow {
    /// The node.
    pub node: NodeText,
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

/// What became of one turn of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ScheduleEntry {
    /// When it was decided, in milliseconds since the epoch.
    pub at: u64,
    /// The time in the schedule, in milliseconds since the epoch.
    pub slot: u64,
    /// The node.
    pub node: NodeText,
    /// `begun`, `succeeded`, `failed`, `skipped`, `cancelled`, `refused`, `no_answer` or `missed`.
    pub outcome: NodeText,
    /// Why, or the result in words.
    pub reason: NodeText,
    /// How long the request took, in milliseconds.
    pub took_ms: u64,
}
