//! The action `statistics` of `history`: counts runs.

use muster_ddl::{Action, ActionProperties};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{HistoryAgent, HistoryRunRow};

/// Periods of statistics.
pub const STATISTICS_PERIODS: usize = 14;
/// Runs that took longest, in statistics.
pub const SLOWEST_RUNS: usize = 5;

/// Count runs: how they ended, in which of equal periods, and how long they took.
#[derive(Debug, JsonSchema)]
pub struct HistoryStatistics;

impl Action for HistoryStatistics {
    type Agent = HistoryAgent;
    const NAME: &'static str = "statistics";
    type Input = HistoryStatisticsInput;
    type Output = HistoryStatisticsOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read().examples(include_str!("statistics.json"))
    }
}

/// Inputs of `statistics`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct HistoryStatisticsInput {
    /// Which nodes, as JSON of a filter; all if absent.
    #[schemars(length(max = 65536))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// Runs that began at this time or later, in milliseconds since the epoch.
    pub since: u64,
    /// Runs that began before this time, in milliseconds since the epoch.
    pub until: u64,
}

/// Outputs of `statistics`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HistoryStatisticsOutput {
    /// Nodes with runs.
    pub nodes: u64,
    /// Equal periods from `since` to `until`, 14 of them.
    pub periods: Vec<RunCounts>,
    /// Seconds in which half of the ended runs ended; absent without such runs.
    pub median: Option<u64>,
    /// Seconds in which 95 of 100 ended.
    pub most: Option<u64>,
    /// The runs that took longest, 5 at most.
    pub slowest: Vec<HistoryRunRow>,
    /// Messages of nodes that the service has not read yet.
    pub behind: u64,
}

/// Runs of a period, by how they ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RunCounts {
    /// All.
    pub runs: u64,
    /// That changed something.
    pub changed: u64,
    /// That failed.
    pub failed: u64,
    /// That were cut off.
    pub aborted: u64,
}

impl RunCounts {
    /// Both together.
    pub fn add(&mut self, other: Self) {
        self.runs += other.runs;
        self.changed += other.changed;
        self.failed += other.failed;
        self.aborted += other.aborted;
    }
}
