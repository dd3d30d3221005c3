//! The agent `history`: the service that answers what happened in the fleet.

mod statistics;

use std::str::FromStr;

use muster_base::NodeText;
use muster_ddl::{Action, ActionList, ActionProperties, AgentContract};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use statistics::{
    HistoryStatistics, HistoryStatisticsInput, HistoryStatisticsOutput, RunCounts, SLOWEST_RUNS,
    STATISTICS_PERIODS,
};

/// The name of a node.
const NODE_PATTERN: &str = "^[a-zA-Z0-9_.-]+$";
/// Most rows of one answer.
pub const MAX_HISTORY_ROWS: u32 = 1000;
/// Rows of an answer without a limit.
pub const DEFAULT_HISTORY_ROWS: u32 = 200;
/// Most differences of one answer.
pub const MAX_DRIFT_ROWS: usize = 1000;
/// Nodes that are named for each difference.
pub const MAX_DRIFT_NODES: usize = 20;

/// The service that answers what happened in the fleet.
#[derive(Debug, JsonSchema)]
pub struct HistoryAgent;

impl AgentContract for HistoryAgent {
    const NAME: &'static str = "history";
    const TIMEOUT: u64 = 30;
    const DEFAULT_ACTION: Option<&'static str> = Some("query");

    fn list_actions(list: &mut impl ActionList) {
        list.add::<HistoryQuery>().add::<HistoryRuns>();
        list.add::<HistoryDrift>().add::<HistoryReport>();
        list.add::<HistoryStatistics>();
    }
}

/// List what happened: requests, changes of resources, and runs; the newest first.
#[derive(Debug, JsonSchema)]
pub struct HistoryQuery;

impl Action for HistoryQuery {
    type Agent = HistoryAgent;
    const NAME: &'static str = "query";
    type Input = HistoryQueryInput;
    type Output = HistoryQueryOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read().examples(include_str!("history/query.json"))
    }
}

/// Inputs of `query`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct HistoryQueryInput {
    /// Which nodes, as JSON of a filter; all if absent.
    #[schemars(length(max = 65536))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// What happened at this time or later, in milliseconds since the epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<u64>,
    /// What happened before this time, in milliseconds since the epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<u64>,
    /// Only rows of this kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<HistoryKind>,
    /// Of this user.
    #[schemars(length(max = 253))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
    /// Of the request with this id, or of those whose ids begin so.
    #[schemars(length(max = 64))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// Of the run with this id.
    #[schemars(length(max = 64))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// Of runs of this release.
    #[schemars(length(max = 64))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
    /// Requests to this agent, and what they changed.
    #[schemars(length(max = 64))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Requests of this action.
    #[schemars(length(max = 64))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// Changes of this resource: `File[/etc/motd]`.
    #[schemars(length(max = 2048))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// Changes of resources of this type: `File`.
    #[schemars(title = "Type", length(max = 128))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_type: Option<String>,
    /// Only changes, runs that changed something, and requests that may have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed: Option<bool>,
    /// Only what failed, or was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<bool>,
    /// Only changes in runs, and the ends of runs.
    #[schemars(title = "In runs")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_runs: Option<bool>,
    /// Words that occur in messages, names of resources, inputs or reasons.
    #[schemars(length(max = 1024))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Most rows; 200 if absent, and at most 1000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Rows from this position on, in the order in which the service took them: `position` of the answer before. Without rows, try again later.
    #[schemars(length(max = 64))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Rows after this one: `next` of the page before.
    #[schemars(length(max = 64))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// The kinds of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HistoryKind {
    /// A decision about a request.
    Request,
    /// A change of one resource.
    Change,
    /// The end of a run.
    Run,
    /// Records that are missing.
    Gap,
}

impl HistoryKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Request, Self::Change, Self::Run, Self::Gap];

    /// The name of the kind, as in a row.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Change => "change",
            Self::Run => "run",
            Self::Gap => "gap",
        }
    }
}

/// The text is not a kind of rows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a kind; use request, change, run or gap")]
pub struct UnknownHistoryKind(String);

impl FromStr for HistoryKind {
    type Err = UnknownHistoryKind;
    fn from_str(text: &str) -> Result<Self, UnknownHistoryKind> {
        let found = Self::ALL.into_iter().find(|kind| kind.as_str() == text);
        found.ok_or_else(|| UnknownHistoryKind(text.to_owned()))
    }
}

/// Outputs of `query`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HistoryQueryOutput {
    /// What happened, the newest first.
    pub rows: Vec<HistoryRow>,
    /// Where the next page begins, if there are more.
    pub next: Option<String>,
    /// Where rows begin that the service takes later, for `from`. The same in each instance.
    pub position: Option<String>,
    /// Messages of nodes that the service has not read yet, because it has just started or is slow.
    pub behind: u64,
    /// The time since which this history is complete, in milliseconds since the epoch; absent while it is empty.
    #[schemars(title = "Complete since")]
    pub complete_since: Option<u64>,
}

/// One thing that happened.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HistoryRow {
    /// When, by the clock of the node, in milliseconds since the epoch.
    pub time: u64,
    /// The node.
    pub node: String,
    /// `request`: a decision about a request. `change`: of one resource. `run`: the end of a run. `gap`: records that are missing.
    pub kind: NodeText,
    /// `executed`, `denied`, `refused`, `success`, `failure`, `noop`, `changed`, `unchanged`, `failed`, `aborted`.
    pub status: NodeText,
    /// The user who sent the request, or who promoted the release.
    pub who: Option<NodeText>,
    /// The request.
    pub request: Option<NodeText>,
    /// The user who approved the request.
    pub approver: Option<NodeText>,
    /// The schedule that sent the request.
    pub schedule: Option<NodeText>,
    /// The agent.
    pub agent: Option<NodeText>,
    /// The action.
    pub action: Option<NodeText>,
    /// The run.
    pub run: Option<NodeText>,
    /// The release of the run.
    pub release: Option<NodeText>,
    /// The resource: `File[/etc/motd]`.
    pub resource: Option<NodeText>,
    /// The property of the resource.
    pub property: Option<NodeText>,
    /// The value before.
    pub before: Option<NodeText>,
    /// The value after.
    pub after: Option<NodeText>,
    /// The message; of a request its inputs, the reason why it was not run, and the rule that denied it.
    pub message: Option<NodeText>,
}

/// List runs, the newest first.
#[derive(Debug, JsonSchema)]
pub struct HistoryRuns;

impl Action for HistoryRuns {
    type Agent = HistoryAgent;
    const NAME: &'static str = "runs";
    type Input = HistoryRunsInput;
    type Output = HistoryRunsOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read().examples(include_str!("history/runs.json"))
    }
}

/// Inputs of `runs`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct HistoryRunsInput {
    /// Which nodes, as JSON of a filter; all if absent.
    #[schemars(length(max = 65536))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// Runs that began at this time or later, in milliseconds since the epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<u64>,
    /// Runs that began before this time, in milliseconds since the epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<u64>,
    /// Only runs that failed or were cut off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<bool>,
    /// Only runs that changed something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed: Option<bool>,
    /// Most rows; 200 if absent, and at most 1000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// Outputs of `runs`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HistoryRunsOutput {
    /// The runs, the newest first.
    pub runs: Vec<HistoryRunRow>,
    /// Whether there are more.
    pub more: bool,
    /// Messages of nodes that the service has not read yet.
    pub behind: u64,
}

/// One run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HistoryRunRow {
    /// Its id.
    pub run: String,
    /// The node.
    pub node: String,
    /// When it began, in milliseconds since the epoch.
    pub started: u64,
    /// When it ended; absent while it runs.
    pub ended: Option<u64>,
    /// `running`, `changed`, `unchanged`, `failed`, or `aborted`: it was cut off.
    pub status: NodeText,
    /// Whether it only reported what it would change.
    pub noop: bool,
    /// What applied the catalog: `muster` or `puppet`.
    pub engine: NodeText,
    /// The user who asked for it, or who promoted the release.
    pub who: Option<NodeText>,
    /// The request that began it.
    pub request: Option<NodeText>,
    /// The release.
    pub release: Option<NodeText>,
    /// The environment.
    pub environment: Option<NodeText>,
    /// Number of resources.
    pub resources: u64,
    /// Number of changed ones; of a noop run, that would be changed.
    pub changed: u64,
    /// Number of failed ones.
    pub failed: u64,
    /// Why it was cut off.
    pub problem: Option<NodeText>,
}

/// List what the last run of each node would have changed: equal differences together, those of most nodes first.
#[derive(Debug, JsonSchema)]
pub struct HistoryDrift;

impl Action for HistoryDrift {
    type Agent = HistoryAgent;
    const NAME: &'static str = "drift";
    type Input = HistoryDriftInput;
    type Output = HistoryDriftOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read().examples(include_str!("history/drift.json"))
    }
}

/// Inputs of `drift`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct HistoryDriftInput {
    /// Which nodes, as JSON of a filter; all if absent.
    #[schemars(length(max = 65536))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
}

/// Outputs of `drift`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HistoryDriftOutput {
    /// The differences.
    pub rows: Vec<HistoryDriftRow>,
    /// Whether there are more.
    pub more: bool,
    /// Messages of nodes that the service has not read yet.
    pub behind: u64,
}

/// One difference of one or more nodes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HistoryDriftRow {
    /// The resource: `File[/etc/motd]`.
    pub resource: NodeText,
    /// The property of the resource.
    pub property: Option<NodeText>,
    /// The value on the nodes.
    pub before: Option<NodeText>,
    /// The value in the catalog.
    pub after: Option<NodeText>,
    /// What the run said.
    pub message: Option<NodeText>,
    /// Number of nodes.
    pub count: u64,
    /// The first 20 of them.
    pub nodes: Vec<String>,
    /// Since when the first of these nodes differs, in milliseconds since the epoch: the first run that reported it after a run last changed the resource.
    pub since: u64,
}

/// Return the report of a run, with all its events.
#[derive(Debug, JsonSchema)]
pub struct HistoryReport;

impl Action for HistoryReport {
    type Agent = HistoryAgent;
    const NAME: &'static str = "report";
    type Input = HistoryReportInput;
    type Output = HistoryReportOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read().examples(include_str!("history/report.json"))
    }
}

/// Inputs of `report`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct HistoryReportInput {
    /// The node.
    #[schemars(length(max = 253), regex(pattern = NODE_PATTERN))]
    pub node: String,
    /// The id of the run; the last one of the node if absent.
    #[schemars(length(max = 64), regex(pattern = "^[0-9a-f-]+$"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
}

/// Outputs of `report`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HistoryReportOutput {
    /// The run, as in a list.
    pub run: HistoryRunRow,
    /// The report in Puppet's format 12, as JSON, compressed (DEFLATE) and in base64.
    pub report: String,
}
