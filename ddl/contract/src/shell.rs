//! The agent `shell`: programs of the caller, directly or as jobs.

use std::collections::BTreeMap;
use std::fmt;

use muster_ddl::aggregate::AggregateFunction;
use muster_ddl::{Action, ActionList, ActionProperties, AgentContract, EmptyInput};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The handle of a job.
const JOB_PATTERN: &str = "^[0-9a-f]+$";

/// Runs programs, directly or as jobs that continue when the daemon stops.
#[derive(Debug, JsonSchema)]
pub struct ShellAgent;

impl AgentContract for ShellAgent {
    const NAME: &'static str = "shell";
    const TIMEOUT: u64 = 60;

    fn list_actions(list: &mut impl ActionList) {
        list.add::<ShellRun>()
            .add::<ShellStart>()
            .add::<ShellStatus>()
            .add::<ShellTail>()
            .add::<ShellList>()
            .add::<ShellKill>();
    }
}

/// Run a program and wait for its end; fails unless its exit code is 0.
#[derive(Debug, JsonSchema)]
pub struct ShellRun;

impl Action for ShellRun {
    type Agent = ShellAgent;
    const NAME: &'static str = "run";
    type Input = ShellRunInput;
    type Output = ShellRunOutput;

    fn properties() -> ActionProperties {
        ActionProperties::root_equivalent()
            .timeout(600)
            .streams()
            .summary("exitcode")
            .examples(include_str!("shell/run.json"))
    }
}

/// Inputs of `run`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShellRunInput {
    /// What to run.
    #[serde(flatten)]
    pub program: ShellProgramInput,
    /// Timeout in seconds; default: that of the call.
    pub timeout: Option<u64>,
}

/// The inputs that `run` and `start` share.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShellProgramInput {
    /// Program and arguments, as an array; no shell interprets them.
    pub command: Option<Vec<String>>,
    /// A script for /bin/sh -c, instead of command.
    #[schemars(length(max = 65536))]
    pub script: Option<String>,
    /// Run as this user; default: the daemon's user.
    #[schemars(length(max = 32), regex(pattern = "^[A-Za-z_][A-Za-z0-9_.-]*[$]?$"))]
    pub user: Option<String>,
    /// Working directory; default: /.
    #[schemars(title = "Directory", length(max = 4096))]
    pub cwd: Option<String>,
    /// Additional environment variables; those of the daemon are not inherited.
    #[schemars(title = "Environment", extend("x-sensitive" = true))]
    pub env: Option<BTreeMap<String, String>>,
    /// Standard input of the program.
    #[schemars(title = "Input", length(max = 524_288), extend("x-sensitive" = true))]
    pub stdin: Option<String>,
}

/// Omits environment and standard input, which may contain passwords.
impl fmt::Debug for ShellProgramInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShellProgramInput")
            .field("command", &self.command)
            .field("script", &self.script)
            .field("user", &self.user)
            .field("cwd", &self.cwd)
            .finish_non_exhaustive()
    }
}

/// Outputs of `run`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShellRunOutput {
    /// Exit code; 128 + signal if a signal ended the program.
    ///
    /// Unknown while the program runs, and if it was stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exitcode: Option<i32>,
    /// Standard output.
    #[schemars(title = "Output")]
    pub stdout: String,
    /// Standard error.
    #[schemars(title = "Errors")]
    pub stderr: String,
    /// Whether the output was truncated to the size limit of a reply.
    pub truncated: bool,
}

/// Start a program as a job, and reply immediately.
#[derive(Debug, JsonSchema)]
pub struct ShellStart;

impl Action for ShellStart {
    type Agent = ShellAgent;
    const NAME: &'static str = "start";
    type Input = ShellProgramInput;
    type Output = ShellStartOutput;

    fn properties() -> ActionProperties {
        ActionProperties::root_equivalent().examples(include_str!("shell/start.json"))
    }
}

/// Outputs of `start`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShellStartOutput {
    /// Handle of the job, for the other actions.
    pub job: String,
}

/// Report the state of a job.
#[derive(Debug, JsonSchema)]
pub struct ShellStatus;

impl Action for ShellStatus {
    type Agent = ShellAgent;
    const NAME: &'static str = "status";
    type Input = ShellJobInput;
    type Output = ShellJobView;

    fn properties() -> ActionProperties {
        ActionProperties::read().summary("state").examples(include_str!("shell/status.json"))
    }
}

/// The input of an action on one job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShellJobInput {
    /// The handle of the job, from start.
    #[schemars(length(max = 12), regex(pattern = JOB_PATTERN))]
    pub job: String,
}

/// A job, as callers see it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShellJobView {
    /// The handle.
    pub job: String,
    /// running, exited, killed (by this agent), or lost (the process is gone and its exit code is unknown).
    pub state: String,
    /// Exit code; 128 + signal if a signal ended the program.
    #[schemars(extend("x-type" = "any"))]
    pub exitcode: Option<i32>,
    /// The signal that the exit code stands for, or that `kill` has sent; a program can also exit with such a code itself.
    #[schemars(extend("x-type" = "any"))]
    pub signal: Option<i32>,
    /// Program and arguments.
    pub command: Vec<String>,
    /// The user of the job, if one was given.
    #[schemars(extend("x-type" = "any"))]
    pub user: Option<String>,
    /// The caller that started it.
    #[schemars(title = "Started By")]
    pub caller: String,
    /// Start time by the node's clock, in milliseconds since the epoch.
    pub started: u64,
    /// Bytes of standard output in the spool.
    #[schemars(title = "Output Bytes")]
    pub stdout_bytes: u64,
    /// Bytes of standard error in the spool.
    #[schemars(title = "Error Bytes")]
    pub stderr_bytes: u64,
}

/// Read the output of a job; with follow, send each line until the job ends.
#[derive(Debug, JsonSchema)]
pub struct ShellTail;

impl Action for ShellTail {
    type Agent = ShellAgent;
    const NAME: &'static str = "tail";
    type Input = ShellTailInput;
    type Output = ShellTailOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read().timeout(600).streams().examples(include_str!("shell/tail.json"))
    }
}

/// Inputs of `tail`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShellTailInput {
    /// The handle of the job, from start.
    #[schemars(length(max = 12), regex(pattern = JOB_PATTERN))]
    pub job: String,
    /// The output stream.
    #[schemars(extend("x-default" = "stdout"))]
    pub stream: ShellStream,
    /// Start in bytes from the beginning, or from the end if negative.
    #[schemars(extend("x-default" = 0))]
    pub offset: i64,
    /// Continue until the job ends or the call times out, for callers that receive progress.
    #[schemars(extend("x-default" = false))]
    pub follow: bool,
}

/// An output stream of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ShellStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Outputs of `tail`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShellTailOutput {
    /// At most 64 KiB; empty if the lines were sent as progress.
    pub text: String,
    /// The offset after the text, to continue reading.
    #[schemars(title = "Next Offset")]
    pub offset: u64,
    /// Whether the output is complete.
    pub end: bool,
}

/// List the jobs on the node, the oldest first.
#[derive(Debug, JsonSchema)]
pub struct ShellList;

impl Action for ShellList {
    type Agent = ShellAgent;
    const NAME: &'static str = "list";
    type Input = EmptyInput;
    type Output = ShellListOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read()
            .aggregate(AggregateFunction::Sum, "running", &[])
            .examples(include_str!("shell/list.json"))
    }
}

/// Outputs of `list`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShellListOutput {
    /// Number of running jobs.
    pub running: usize,
    /// All jobs.
    pub jobs: Vec<ShellJobView>,
}

/// Stop a job with its whole process group: TERM, then KILL.
#[derive(Debug, JsonSchema)]
pub struct ShellKill;

impl Action for ShellKill {
    type Agent = ShellAgent;
    const NAME: &'static str = "kill";
    type Input = ShellKillInput;
    type Output = ShellKillOutput;

    fn properties() -> ActionProperties {
        ActionProperties::change()
            .idempotent()
            .summary("state")
            .examples(include_str!("shell/kill.json"))
    }
}

/// Inputs of `kill`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShellKillInput {
    /// The handle of the job, from start.
    #[schemars(length(max = 12), regex(pattern = JOB_PATTERN))]
    pub job: String,
    /// Seconds between TERM and KILL, at most 60.
    #[schemars(extend("x-default" = 5))]
    pub grace: u64,
}

/// Outputs of `kill`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShellKillOutput {
    /// Whether a process was stopped.
    pub ended: bool,
    /// running, exited, killed or lost.
    pub state: String,
    /// Exit code; 128 + signal if a signal ended the program.
    #[schemars(extend("x-type" = "any"))]
    pub exitcode: Option<i32>,
    /// The signal that the exit code stands for, or that `kill` has sent; a program can also exit with such a code itself.
    #[schemars(extend("x-type" = "any"))]
    pub signal: Option<i32>,
}
