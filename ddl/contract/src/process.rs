//! The agent `process`: the processes of the machine.

use std::collections::BTreeMap;

use muster_ddl::aggregate::AggregateFunction;
use muster_ddl::{Action, ActionList, ActionProperties, AgentContract};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A name of a user, which may end with a dollar sign.
const USER_PATTERN: &str = "^[A-Za-z0-9_][A-Za-z0-9_.-]*[$]?$";

/// Lists, summarises and signals processes.
#[derive(Debug, JsonSchema)]
pub struct ProcessAgent;

impl AgentContract for ProcessAgent {
    const NAME: &'static str = "process";
    const TIMEOUT: u64 = 30;

    fn list_actions(list: &mut impl ActionList) {
        list.add::<ProcessList>().add::<ProcessSummary>().add::<ProcessKill>();
    }
}

/// List processes.
#[derive(Debug, JsonSchema)]
pub struct ProcessList;

impl Action for ProcessList {
    type Agent = ProcessAgent;
    const NAME: &'static str = "list";
    type Input = ProcessListInput;
    type Output = ProcessListOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read().summary("count").examples(include_str!("process/list.json"))
    }
}

/// Inputs of `list`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessListInput {
    /// The name of a process or of its program file, or a /regular expression/ that matches its command line.
    #[schemars(length(max = 400))]
    pub pattern: Option<String>,
    /// Only processes of this user.
    #[schemars(length(max = 32), regex(pattern = USER_PATTERN))]
    pub user: Option<String>,
}

/// Outputs of `list`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessListOutput {
    /// Number of matching processes.
    #[schemars(title = "Matching")]
    pub count: usize,
    /// Process id, parent, user, state, memory, processor time and command line of each; at most 1000.
    pub processes: Vec<ProcessRow>,
}

/// A process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessRow {
    /// Process id.
    pub pid: u32,
    /// Process id of its parent.
    pub parent: u32,
    /// Name of its user, or the id of a user without a name.
    pub user: String,
    /// Its state, a letter.
    pub state: String,
    /// Resident memory, private and shared.
    pub memory_bytes: u64,
    /// Processor time that it has used.
    pub cpu_seconds: f64,
    /// Its command line, or the name of a kernel thread in brackets.
    pub command: String,
}

/// Summarise the processes.
#[derive(Debug, JsonSchema)]
pub struct ProcessSummary;

impl Action for ProcessSummary {
    type Agent = ProcessAgent;
    const NAME: &'static str = "summary";
    type Input = ProcessSummaryInput;
    type Output = ProcessSummaryOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read()
            .aggregate(AggregateFunction::Average, "count", &[])
            .examples(include_str!("process/summary.json"))
    }
}

/// Inputs of `summary`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessSummaryInput {
    /// Number of the largest processes to list, at most 50.
    #[schemars(extend("x-default" = 5))]
    pub top: usize,
}

/// Outputs of `summary`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessSummaryOutput {
    /// Number of processes.
    #[schemars(title = "Processes")]
    pub count: usize,
    /// Number of processes in each state.
    pub states: BTreeMap<String, usize>,
    /// Number of processes of each user.
    pub users: BTreeMap<String, usize>,
    /// The processes that use the most memory.
    pub by_memory: Vec<ProcessRow>,
    /// The processes that have used the most processor time.
    #[schemars(title = "By Processor")]
    pub by_cpu: Vec<ProcessRow>,
}

/// Signal processes, except process 1, the daemon and the daemon's ancestors.
#[derive(Debug, JsonSchema)]
pub struct ProcessKill;

impl Action for ProcessKill {
    type Agent = ProcessAgent;
    const NAME: &'static str = "kill";
    type Input = ProcessKillInput;
    type Output = ProcessKillOutput;

    fn properties() -> ActionProperties {
        ActionProperties::change()
            .aggregate(AggregateFunction::Sum, "signalled", &[])
            .examples(include_str!("process/kill.json"))
    }
}

/// Inputs of `kill`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessKillInput {
    /// The name of a process or of its program file, or a /regular expression/ that matches its command line.
    #[schemars(length(max = 400))]
    pub pattern: Option<String>,
    /// The process id, instead of a pattern.
    #[schemars(title = "Process")]
    pub pid: Option<u32>,
    /// Only processes of this user.
    #[schemars(length(max = 32), regex(pattern = USER_PATTERN))]
    pub user: Option<String>,
    /// The name of the signal.
    #[schemars(length(max = 12), regex(pattern = "^[A-Za-z0-9]+$"), extend("x-default" = "TERM"))]
    pub signal: String,
    /// Only list the matching processes.
    #[schemars(extend("x-default" = false))]
    pub plan: bool,
    /// Report what would change, but change nothing.
    pub noop: Option<bool>,
}

/// Outputs of `kill`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessKillOutput {
    /// Number of matching processes.
    #[schemars(title = "Matching")]
    pub matched: usize,
    /// Number of processes that still existed and were signalled.
    pub signalled: usize,
    /// The process ids.
    #[schemars(title = "Processes")]
    pub pids: Vec<u32>,
}
