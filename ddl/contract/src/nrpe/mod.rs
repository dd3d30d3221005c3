//! The agent `nrpe`: checks of a node with the states, exit codes and output texts of Nagios plugins.

mod perfdata;
mod plugin_output;
mod scheduled;

use std::collections::BTreeMap;

use muster_ddl::{Action, ActionList, ActionProperties, AgentContract, EmptyInput};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use perfdata::{PerfMetric, parse_perfdata};
pub use plugin_output::PluginOutput;
pub use scheduled::{
    AcknowledgeInput, CHECK_EVENT_PREFIX, CHECK_REMOVED_EVENT, CHECKS_STATE_NAME,
    CheckAcknowledgement, CheckChangeOutput, CheckCounts, CheckEventData, CheckNameInput,
    MaintenanceInput, MaintenanceWindow, NrpeAcknowledge, NrpeChecks, NrpeEndMaintenance,
    NrpeMaintenance, NrpeTrigger, NrpeUnacknowledge, RecordedCheck, RecordedChecks,
    ScheduledCheckRow, ScheduledChecksInput, ScheduledChecksOutput,
};

/// The exit code of a state that is not known.
pub const UNKNOWN_EXIT_CODE: i64 = 3;

/// Longest name of a command, in bytes.
const MAX_COMMAND_NAME_BYTES: usize = 255;
/// Characters of names of commands besides letters and digits. Others are those that NRPE refuses in requests, its separator `!`, and quotes.
const COMMAND_NAME_PUNCTUATION: &str = " _.:,@%+/#()*?~^$-";

/// Whether a text can be the name of a scheduled check: letters, digits, `-` and `_`, at most 50.
pub fn is_check_name(name: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    (1..=50).contains(&name.len()) && name.chars().all(is_allowed)
}

/// Whether a caller can give a text as the name of a command of `nrpe.cfg`.
pub fn is_command_name(name: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || COMMAND_NAME_PUNCTUATION.contains(c);
    (1..=MAX_COMMAND_NAME_BYTES).contains(&name.len()) && name.chars().all(is_allowed)
}

/// Runs the checks of the node's NRPE configuration, on request and by schedule.
#[derive(Debug, JsonSchema)]
pub struct NrpeAgent;

impl AgentContract for NrpeAgent {
    const NAME: &'static str = "nrpe";
    const VERSION: &'static str = "1.1.0";
    const TIMEOUT: u64 = 30;

    fn list_actions(list: &mut impl ActionList) {
        list.add::<NrpeRunCommand>()
            .add::<NrpeRunAllCommands>()
            .add::<NrpeChecks>()
            .add::<NrpeTrigger>()
            .add::<NrpeAcknowledge>()
            .add::<NrpeUnacknowledge>()
            .add::<NrpeMaintenance>()
            .add::<NrpeEndMaintenance>();
    }
}

/// The state of a check, ordered by exit code.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum CheckState {
    /// Exit code 0.
    Ok,
    /// Exit code 1.
    Warning,
    /// Exit code 2.
    Critical,
    /// Exit code 3, and every other one.
    Unknown,
}

impl CheckState {
    /// All states, by exit code.
    pub const ALL: [Self; 4] = [Self::Ok, Self::Warning, Self::Critical, Self::Unknown];

    /// The state that an exit code stands for. Every code from 0 to 2 has a state of its own; all others are unknown.
    pub fn from_exit_code(code: i64) -> Self {
        match code {
            0 => Self::Ok,
            1 => Self::Warning,
            2 => Self::Critical,
            _ => Self::Unknown,
        }
    }

    /// The exit code.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Warning => 1,
            Self::Critical => 2,
            Self::Unknown => 3,
        }
    }

    /// The name in texts of plugins.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Warning => "WARNING",
            Self::Critical => "CRITICAL",
            Self::Unknown => "UNKNOWN",
        }
    }
}

/// Run a check; a state other than OK is a failure with the name of the state.
#[derive(Debug, JsonSchema)]
pub struct NrpeRunCommand;

impl Action for NrpeRunCommand {
    type Agent = NrpeAgent;
    const NAME: &'static str = "runcommand";
    type Input = RunCommandInput;
    type Output = RunCommandOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read().summary("exitcode").examples(include_str!("runcommand.json"))
    }
}

/// Inputs of `runcommand`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct RunCommandInput {
    /// The name of a command in the NRPE configuration.
    #[schemars(length(max = 255), regex(pattern = r"\A[a-zA-Z0-9 _.:,@%+/#()*?~^$-]+\z"))]
    pub command: String,
    /// Values of $ARG1$ and so on, separated by `!`; refused unless the configuration sets dont_blame_nrpe=1.
    #[expect(clippy::doc_markdown, reason = "callers see this text without markup")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(title = "Arguments", length(max = 1024))]
    pub args: Option<String>,
}

/// Outputs of `runcommand`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RunCommandOutput {
    /// The first line of the check's output, without performance data.
    pub output: String,
    /// The other lines, without performance data.
    pub long_output: String,
    /// 0 is OK, 1 WARNING, 2 CRITICAL, and 3 UNKNOWN: also for a check that timed out, ended by a signal, or exited with another code.
    pub exitcode: i64,
    /// The performance data.
    #[schemars(title = "Performance Data")]
    pub perfdata: String,
    /// The name of the command.
    pub command: String,
}

impl Default for RunCommandOutput {
    fn default() -> Self {
        Self {
            output: String::new(),
            long_output: String::new(),
            exitcode: UNKNOWN_EXIT_CODE,
            perfdata: String::new(),
            command: String::new(),
        }
    }
}

/// Run all checks without arguments.
#[derive(Debug, JsonSchema)]
pub struct NrpeRunAllCommands;

impl Action for NrpeRunAllCommands {
    type Agent = NrpeAgent;
    const NAME: &'static str = "runallcommands";
    type Input = EmptyInput;
    type Output = RunAllCommandsOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read().timeout(120).examples(include_str!("runallcommands.json"))
    }
}

/// Outputs of `runallcommands`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RunAllCommandsOutput {
    /// Exit code, output and performance data of each check, by name.
    pub commands: BTreeMap<String, CommandResultRow>,
}

/// The result of one of all commands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CommandResultRow {
    /// 0 to 3.
    pub exitcode: i64,
    /// The first line, without performance data.
    pub output: String,
    /// The performance data.
    pub perfdata: String,
}

/// Values of the data source `nrpe`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct NrpeDataOutput {
    /// 0 to 3.
    pub exitcode: i64,
    /// The first line, without performance data.
    pub output: String,
}

#[cfg(test)]
mod tests {
    use super::CheckState;
    use super::{is_check_name, is_command_name};

    #[test]
    fn every_exit_code_has_a_state() {
        for state in CheckState::ALL {
            assert_eq!(CheckState::from_exit_code(state.exit_code().into()), state);
        }
        for code in [-1, 4, 127, 255, i64::MAX, i64::MIN] {
            assert_eq!(CheckState::from_exit_code(code), CheckState::Unknown, "{code}");
        }
    }

    #[test]
    fn names_of_checks_are_words() {
        assert!(is_check_name("check_load-1"));
        for name in ["", "a b", "a.b", "a;b", "x\n", "ä", &"x".repeat(51)] {
            assert!(!is_check_name(name), "{name:?}");
        }
    }

    #[test]
    fn names_of_commands_are_those_that_nrpe_lets_callers_give() {
        for name in ["check_load-1", "check.load", "check load", " x ", "disk:/var (50%)"] {
            assert!(is_command_name(name), "{name:?}");
        }
        for name in
            ["", "a;b", "a|b", "a!b", "a'b", "a\"b", "a\\b", "a[b", "x\n", "ä", &"x".repeat(256)]
        {
            assert!(!is_command_name(name), "{name:?}");
        }
    }
}
