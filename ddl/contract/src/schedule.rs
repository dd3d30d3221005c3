//! The agent `schedule`: the service that requests actions by schedules.

use std::collections::BTreeMap;

use muster_base::NodeText;
use muster_ddl::{Action, ActionList, ActionProperties, AgentContract, EmptyInput};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

mod rows;

pub use rows::{
    ScheduleEntry, ScheduleLoadRow, ScheduleOverdueRow, SchedulePauseRow, ScheduleRow,
    ScheduleSeatRow, ScheduleStartRow,
};

/// The name of a schedule.
const NAME_PATTERN: &str = r"\A[a-z0-9][a-z0-9_-]{0,62}\z";

/// The service that requests actions by schedules.
#[derive(Debug, JsonSchema)]
pub struct ScheduleAgent;

impl AgentContract for ScheduleAgent {
    const NAME: &'static str = "schedule";
    const TIMEOUT: u64 = 30;
    const DEFAULT_ACTION: Option<&'static str> = Some("list");

    fn list_actions(list: &mut impl ActionList) {
        list.add::<ScheduleAdd>()
            .add::<ScheduleList>()
            .add::<ScheduleShow>()
            .add::<SchedulePause>()
            .add::<ScheduleResume>()
            .add::<ScheduleRemove>()
            .add::<ScheduleRebalance>()
            .add::<ScheduleHistory>();
    }
}

/// Add a schedule, or replace one of the same name.
#[derive(Debug, JsonSchema)]
pub struct ScheduleAdd;

impl Action for ScheduleAdd {
    type Agent = ScheduleAgent;
    const NAME: &'static str = "add";
    type Input = ScheduleAddInput;
    type Output = ScheduleAddOutput;

    fn properties() -> ActionProperties {
        ActionProperties::change().examples(include_str!("schedule/add.json"))
    }
}

/// Inputs of `add`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ScheduleAddInput {
    /// The schedule, signed by its author.
    #[schemars(length(max = 66000), regex(pattern = r"\A[A-Za-z0-9_-]+\z"))]
    pub grant: String,
    /// Replace a schedule of the same name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replace: Option<bool>,
}

/// Outputs of `add`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ScheduleAddOutput {
    /// The name of the schedule.
    pub name: NodeText,
    /// The id of the signed schedule.
    pub id: String,
    /// When it ends, in milliseconds since the epoch: at its own end, or with its author's token.
    pub ends: u64,
    /// Number of nodes that match now; null while the directory is not ready.
    pub nodes: Option<usize>,
    /// First starts, in milliseconds since the epoch.
    pub next: Vec<u64>,
    /// Whether it replaced a schedule.
    pub replaced: bool,
}

/// Highest number of nodes that an answer lists by seat.
pub const MAX_LISTED_SEATS: usize = 5000;

/// Show one schedule: what it is, its next starts, and the last result of each node.
#[derive(Debug, JsonSchema)]
pub struct ScheduleShow;

impl Action for ScheduleShow {
    type Agent = ScheduleAgent;
    const NAME: &'static str = "show";
    type Input = ScheduleShowInput;
    type Output = ScheduleShowOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read().examples(include_str!("schedule/show.json"))
    }
}

/// Inputs of `show`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ScheduleShowInput {
    /// The schedule.
    #[schemars(length(max = 63), regex(pattern = NAME_PATTERN))]
    pub name: String,
    /// Return the expected load over the next interval or day, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load: Option<bool>,
    /// Also return the nodes in the order of their seats.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seats: Option<bool>,
}

/// Pause a schedule, or all.
#[derive(Debug, JsonSchema)]
pub struct SchedulePause;

impl Action for SchedulePause {
    type Agent = ScheduleAgent;
    const NAME: &'static str = "pause";
    type Input = SchedulePauseInput;
    type Output = ScheduleChangeOutput;

    fn properties() -> ActionProperties {
        ActionProperties::change().idempotent().examples(include_str!("schedule/pause.json"))
    }
}

/// Inputs of `pause` and `resume`: one schedule, or all.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct SchedulePauseInput {
    /// The schedule.
    #[schemars(length(max = 63), regex(pattern = NAME_PATTERN))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// All schedules, those that are added later too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all: Option<bool>,
    /// Why; it is shown with the schedule.
    #[schemars(length(max = 200), regex(pattern = r"\A[^\x00-\x1f\x7f]*\z"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Resume a schedule, or all.
#[derive(Debug, JsonSchema)]
pub struct ScheduleResume;

impl Action for ScheduleResume {
    type Agent = ScheduleAgent;
    const NAME: &'static str = "resume";
    type Input = ScheduleResumeInput;
    type Output = ScheduleChangeOutput;

    fn properties() -> ActionProperties {
        ActionProperties::change().idempotent().examples(include_str!("schedule/resume.json"))
    }
}

/// Inputs of `resume`: one schedule, or all.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ScheduleResumeInput {
    /// The schedule.
    #[schemars(length(max = 63), regex(pattern = NAME_PATTERN))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// All schedules, those that are added later too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all: Option<bool>,
}

/// Remove a schedule.
#[derive(Debug, JsonSchema)]
pub struct ScheduleRemove;

impl Action for ScheduleRemove {
    type Agent = ScheduleAgent;
    const NAME: &'static str = "remove";
    type Input = ScheduleNameInput;
    type Output = ScheduleChangeOutput;

    fn properties() -> ActionProperties {
        ActionProperties::change()
            .idempotent()
            .describe_output("changed", "Whether there was one")
            .examples(include_str!("schedule/remove.json"))
    }
}

/// Inputs of `remove` and `rebalance`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ScheduleNameInput {
    /// The schedule.
    #[schemars(length(max = 63), regex(pattern = NAME_PATTERN))]
    pub name: String,
}

/// Outputs of `pause`, `resume` and `remove`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ScheduleChangeOutput {
    /// Whether anything changed.
    pub changed: bool,
    /// What was done.
    pub text: String,
}

/// List what a schedule did, the newest first.
#[derive(Debug, JsonSchema)]
pub struct ScheduleHistory;

impl Action for ScheduleHistory {
    type Agent = ScheduleAgent;
    const NAME: &'static str = "history";
    type Input = ScheduleHistoryInput;
    type Output = ScheduleHistoryOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read().examples(include_str!("schedule/history.json"))
    }
}

/// Inputs of `history`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ScheduleHistoryInput {
    /// The schedule.
    #[schemars(length(max = 63), regex(pattern = NAME_PATTERN))]
    pub name: String,
    /// Only this node.
    #[schemars(length(max = 253), regex(pattern = "^[a-zA-Z0-9_.-]+$"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Most entries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
}

/// List the schedules, and how they do.
#[derive(Debug, JsonSchema)]
pub struct ScheduleList;

impl Action for ScheduleList {
    type Agent = ScheduleAgent;
    const NAME: &'static str = "list";
    type Input = EmptyInput;
    type Output = ScheduleListOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read().examples(include_str!("schedule/list.json"))
    }
}

/// Outputs of `list`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ScheduleListOutput {
    /// Each with what it requests, when, of how many nodes, and its state.
    pub schedules: Vec<ScheduleRow>,
    /// Who paused all schedules, when and why; null if they are not paused.
    pub paused: Option<SchedulePauseRow>,
    /// The host that sends the requests; null if there is none.
    pub leader: Option<String>,
    /// Whether this instance knows the nodes.
    pub ready: bool,
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
    /// The next starts: node and time.
    pub next: Vec<ScheduleStartRow>,
    /// Nodes whose last run is older than two intervals, and when it was.
    pub overdue: Vec<ScheduleOverdueRow>,
    /// Nodes whose last turn could not begin, and why.
    pub missed: Vec<ScheduleEntry>,
    /// Expected number of runs in progress in each part of the time.
    pub load: Vec<ScheduleLoadRow>,
    /// Most runs in progress at once, as expected.
    pub peak: u32,
    /// The same if starts were assigned by measured durations.
    pub balanced_peak: u32,
    /// The nodes in the order of their seats, with the expected time of a run; empty for a schedule with more than 5,000 nodes.
    pub seats: Vec<ScheduleSeatRow>,
}

/// Outputs of `history`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ScheduleHistoryOutput {
    /// Each with the time, the node, the outcome and its reason.
    pub entries: Vec<ScheduleEntry>,
}

/// Assign the starts of a schedule again, by measured durations; nodes that move have one shorter or longer interval.
#[derive(Debug, JsonSchema)]
pub struct ScheduleRebalance;

impl Action for ScheduleRebalance {
    type Agent = ScheduleAgent;
    const NAME: &'static str = "rebalance";
    type Input = ScheduleNameInput;
    type Output = ScheduleChangeOutput;

    fn properties() -> ActionProperties {
        ActionProperties::change()
            .idempotent()
            .describe_output("changed", "Whether the leader assigns them")
            .examples(include_str!("schedule/rebalance.json"))
    }
}
