//! Scheduled checks: inputs and outputs of the actions, what the node's record says of them, and the data of their events.

use std::collections::BTreeMap;

use muster_ddl::{Action, ActionProperties};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CheckState, NrpeAgent};

/// The name of the state in a node's record: `state.checks`.
pub const CHECKS_STATE_NAME: &str = "checks";
/// What the kinds of all events of checks begin with.
pub const CHECK_EVENT_PREFIX: &str = "check_";
/// The kind of the event of a check that no schedule of the node has any more.
pub const CHECK_REMOVED_EVENT: &str = "check_removed";

/// The name of a scheduled check.
const CHECK_PATTERN: &str = r"\A[a-zA-Z0-9_-]+\z";

/// An acknowledged problem. It ends when the check is OK.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CheckAcknowledgement {
    /// The caller.
    pub author: String,
    /// What the caller says.
    pub comment: String,
    /// When it was acknowledged, in milliseconds since the epoch.
    pub time: u64,
    /// When it ends even if the problem remains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<u64>,
}

/// A time in which problems are expected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MaintenanceWindow {
    /// The caller.
    pub author: String,
    /// What the caller says; empty if nothing.
    pub comment: String,
    /// When it began, in milliseconds since the epoch.
    pub time: u64,
    /// When it ends.
    pub until: u64,
}

/// A scheduled check, as `nrpe checks` returns it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ScheduledCheckRow {
    /// Its name.
    pub check: String,
    /// The command of `nrpe.cfg`.
    pub command: String,
    /// The hard state; absent while it is not known, because the check has not run or not often enough.
    pub state: Option<CheckState>,
    /// Since when it has the hard state, in milliseconds since the epoch.
    pub since: Option<u64>,
    /// The state of the last result.
    pub current: Option<CheckState>,
    /// `hard`, or `soft` while the last result is not confirmed.
    pub state_type: String,
    /// Number of this result among those that decide on the hard state.
    pub attempt: u32,
    /// How many results decide.
    pub max_attempts: u32,
    /// The first line of the last output.
    pub output: String,
    /// The performance data of the last output.
    pub perfdata: String,
    /// When it ran last, in milliseconds since the epoch.
    pub last_check: Option<u64>,
    /// When it runs next.
    pub next_check: Option<u64>,
    /// Whether it is late.
    pub overdue: bool,
    /// Whether it flaps.
    pub flapping: bool,
    /// How much it changes, in percent.
    pub change_percent: f64,
    /// The acknowledgement, if any.
    pub acknowledgement: Option<CheckAcknowledgement>,
    /// The maintenance of the check or of the node.
    pub maintenance: Option<MaintenanceWindow>,
    /// Notes of the schedule.
    pub notes: String,
}

/// List the scheduled checks of the node with their states.
#[derive(Debug, JsonSchema)]
pub struct NrpeChecks;

impl Action for NrpeChecks {
    type Agent = NrpeAgent;
    const NAME: &'static str = "checks";
    type Input = ScheduledChecksInput;
    type Output = ScheduledChecksOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read().examples(include_str!("checks.json"))
    }
}

/// Inputs of `checks`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ScheduledChecksInput {
    /// Only this check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 50), regex(pattern = CHECK_PATTERN))]
    pub check: Option<String>,
}

/// Outputs of `checks`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ScheduledChecksOutput {
    /// The scheduled checks with their states.
    pub checks: Vec<ScheduledCheckRow>,
    /// What is wrong with the files of schedules.
    pub problems: Vec<String>,
}

/// Run a scheduled check now, and record its result.
#[derive(Debug, JsonSchema)]
pub struct NrpeTrigger;

impl Action for NrpeTrigger {
    type Agent = NrpeAgent;
    const NAME: &'static str = "trigger";
    type Input = CheckNameInput;
    type Output = CheckChangeOutput;

    fn properties() -> ActionProperties {
        ActionProperties::change().idempotent().timeout(120).examples(include_str!("trigger.json"))
    }
}

/// Inputs of `trigger` and `unacknowledge`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct CheckNameInput {
    /// The name of a scheduled check.
    #[schemars(length(max = 50), regex(pattern = CHECK_PATTERN))]
    pub check: String,
}

/// Acknowledge the problem of a scheduled check until it is OK.
#[derive(Debug, JsonSchema)]
pub struct NrpeAcknowledge;

impl Action for NrpeAcknowledge {
    type Agent = NrpeAgent;
    const NAME: &'static str = "acknowledge";
    type Input = AcknowledgeInput;
    type Output = CheckChangeOutput;

    fn properties() -> ActionProperties {
        ActionProperties::change().idempotent().examples(include_str!("acknowledge.json"))
    }
}

/// Inputs of `acknowledge`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct AcknowledgeInput {
    /// The name of a scheduled check.
    #[schemars(length(max = 50), regex(pattern = CHECK_PATTERN))]
    pub check: String,
    /// What is known of the problem.
    #[schemars(length(max = 512))]
    pub comment: String,
    /// The acknowledgement ends after this time, even if the problem remains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
}

/// Begin a maintenance of a scheduled check or of the node: results are recorded, problems cause no event.
#[derive(Debug, JsonSchema)]
pub struct NrpeMaintenance;

impl Action for NrpeMaintenance {
    type Agent = NrpeAgent;
    const NAME: &'static str = "maintenance";
    type Input = MaintenanceInput;
    type Output = CheckChangeOutput;

    fn properties() -> ActionProperties {
        ActionProperties::change().idempotent().examples(include_str!("maintenance.json"))
    }
}

/// Inputs of `maintenance`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct MaintenanceInput {
    /// The name of a scheduled check; the whole node without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 50), regex(pattern = CHECK_PATTERN))]
    pub check: Option<String>,
    /// The maintenance ends after this time.
    pub seconds: u64,
    /// The reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub comment: Option<String>,
}

/// Remove the acknowledgement of a scheduled check.
#[derive(Debug, JsonSchema)]
pub struct NrpeUnacknowledge;

impl Action for NrpeUnacknowledge {
    type Agent = NrpeAgent;
    const NAME: &'static str = "unacknowledge";
    type Input = CheckNameInput;
    type Output = CheckChangeOutput;

    fn properties() -> ActionProperties {
        ActionProperties::change().idempotent().examples(include_str!("unacknowledge.json"))
    }
}

/// Outputs of the actions that change one check, or all.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CheckChangeOutput {
    /// The scheduled checks with their states.
    pub checks: Vec<ScheduledCheckRow>,
}

/// What a record says of a check: only what changes rarely.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a separate flag of the record")]
pub struct RecordedCheck {
    /// The hard state; absent while it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<CheckState>,
    /// Since when, in seconds since the epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<u64>,
    /// The output when it got the state, cut.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub output: String,
    /// How many results decide.
    pub attempts: u32,
    /// Whether the problem is acknowledged.
    #[serde(skip_serializing_if = "is_false")]
    pub acknowledged: bool,
    /// Whether the check is in maintenance.
    #[serde(skip_serializing_if = "is_false")]
    pub maintenance: bool,
    /// Whether it flaps.
    #[serde(skip_serializing_if = "is_false")]
    pub flapping: bool,
    /// Whether it is late.
    #[serde(skip_serializing_if = "is_false")]
    pub overdue: bool,
}

/// What a record says of all checks of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordedChecks {
    /// Number of checks by hard state: `ok`, `warning`, `critical`, `unknown` and `not_checked`.
    #[serde(flatten)]
    pub counts: CheckCounts,
    /// The checks by name.
    pub checks: BTreeMap<String, RecordedCheck>,
    /// Number of checks that are left out, because a record has a limit. The ones that are not OK come first.
    #[serde(skip_serializing_if = "is_zero")]
    pub omitted: usize,
}

/// Numbers of checks by hard state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CheckCounts {
    /// OK.
    pub ok: usize,
    /// WARNING.
    pub warning: usize,
    /// CRITICAL.
    pub critical: usize,
    /// UNKNOWN.
    pub unknown: usize,
    /// No hard state yet.
    pub not_checked: usize,
}

impl CheckCounts {
    /// Counts one more check.
    pub fn add(&mut self, state: Option<CheckState>) {
        let count = match state {
            Some(CheckState::Ok) => &mut self.ok,
            Some(CheckState::Warning) => &mut self.warning,
            Some(CheckState::Critical) => &mut self.critical,
            Some(CheckState::Unknown) => &mut self.unknown,
            None => &mut self.not_checked,
        };
        *count += 1;
    }

    /// All of them together.
    pub fn total(self) -> usize {
        let Self { ok, warning, critical, unknown, not_checked } = self;
        ok + warning + critical + unknown + not_checked
    }
}

/// The data of an event of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CheckEventData {
    /// The check; absent for a maintenance of the whole node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<String>,
    /// The hard state after the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<CheckState>,
    /// The hard state of the event before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous: Option<CheckState>,
    /// The first line of the output.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub output: String,
    /// The performance data.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub perfdata: String,
    /// Whether it flaps.
    #[serde(skip_serializing_if = "is_false")]
    pub flapping: bool,
    /// Whether the problem is acknowledged.
    #[serde(skip_serializing_if = "is_false")]
    pub acknowledged: bool,
    /// The caller who acknowledged, or began or ended the maintenance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// What the caller says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// When it ends, in milliseconds since the epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<u64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_false(value: &bool) -> bool {
    !value
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(value: &usize) -> bool {
    *value == 0
}

/// End a maintenance of a scheduled check or of the node.
#[derive(Debug, JsonSchema)]
pub struct NrpeEndMaintenance;

impl Action for NrpeEndMaintenance {
    type Agent = NrpeAgent;
    const NAME: &'static str = "endmaintenance";
    type Input = ScheduledChecksInput;
    type Output = CheckChangeOutput;

    fn properties() -> ActionProperties {
        ActionProperties::change()
            .idempotent()
            .describe_input("check", "The name of a scheduled check; the whole node without it")
            .examples(include_str!("endmaintenance.json"))
    }
}
