//! The agent `puppet`: runs of Puppet, and its state on a node.

mod last_run;
mod locks;
mod outcome;

use muster_base::NodeText;
use muster_ddl::aggregate::AggregateFunction;
use muster_ddl::{Action, ActionList, ActionProperties, AgentContract, EmptyInput};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use last_run::{
    LastRunReportInput, LastRunReportOutput, LastRunSummaryInput, LastRunSummaryOutput,
    PuppetLastRunReport, PuppetLastRunSummary, PuppetResourceEvent,
};
pub use locks::{
    PuppetDisable, PuppetDisableInput, PuppetDisableOutput, PuppetEnable, PuppetEnableInput,
    PuppetEnableOutput, PuppetLockRow, PuppetLocks, PuppetLocksOutput,
};
pub use outcome::{PuppetRunClass, PuppetRunOutcome, PuppetRunState};

/// Tags, separated by commas.
const TAGS_PATTERN: &str = "^[A-Za-z0-9_:.,-]+$";
/// A UUID.
const UUID_PATTERN: &str =
    "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$";

/// Runs Puppet and reports the results of its runs.
#[derive(Debug, JsonSchema)]
pub struct PuppetAgent;

impl AgentContract for PuppetAgent {
    const NAME: &'static str = "puppet";
    const TIMEOUT: u64 = 60;

    fn list_actions(list: &mut impl ActionList) {
        list.add::<PuppetStatus>()
            .add::<PuppetRunOnce>()
            .add::<PuppetRuns>()
            .add::<PuppetEnable>()
            .add::<PuppetDisable>()
            .add::<PuppetLastRunSummary>()
            .add::<PuppetLastRunReport>()
            .add::<PuppetLocks>();
    }
}

/// Run Puppet once, and report the result; a run that did not succeed is a failed reply.
#[derive(Debug, JsonSchema)]
pub struct PuppetRunOnce;

impl Action for PuppetRunOnce {
    type Agent = PuppetAgent;
    const NAME: &'static str = "runonce";
    type Input = PuppetRunOnceInput;
    type Output = PuppetRunOutcome;

    fn properties() -> ActionProperties {
        ActionProperties::change()
            .timeout(3600)
            .streams()
            .summary("class")
            .examples(include_str!("runonce.json"))
    }
}

/// Inputs of `runonce`; what is absent is as configured on the node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PuppetRunOnceInput {
    /// Start without a random delay (no splay).
    pub force: Option<bool>,
    /// A server other than the configured one, optionally with :PORT; only if the node's configuration permits it.
    #[schemars(
        title = "Puppet Server",
        length(max = 260),
        regex(pattern = "^[A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]{1,5})?$")
    )]
    pub server: Option<String>,
    /// Apply only resources with one of these tags, separated by commas.
    #[schemars(length(max = 1000), regex(pattern = TAGS_PATTERN))]
    pub tags: Option<String>,
    /// Skip resources with one of these tags, separated by commas.
    #[schemars(length(max = 1000), regex(pattern = TAGS_PATTERN))]
    pub skip_tags: Option<String>,
    /// Only report what would change; false applies changes even if noop is configured.
    #[schemars(title = "Noop")]
    pub noop: Option<bool>,
    /// Wait a random time before the run; false starts immediately even if splay is configured.
    pub splay: Option<bool>,
    /// Maximum random time, in seconds.
    #[schemars(title = "Splay Limit")]
    pub splaylimit: Option<i64>,
    /// The environment to request.
    #[schemars(length(max = 50), regex(pattern = "^[a-z0-9_]+$"))]
    pub environment: Option<String>,
    /// Whether to manage resources outside their schedules too.
    #[schemars(title = "Ignore Schedules")]
    pub ignoreschedules: Option<bool>,
    /// Whether to apply the cached catalog instead of requesting a new one.
    pub use_cached_catalog: Option<bool>,
    /// The id of the run (a UUID); if a node has already run it, it returns that result and does not run again.
    #[schemars(length(max = 36), regex(pattern = UUID_PATTERN))]
    pub run: Option<String>,
    /// The rollout that the run belongs to (a UUID); its runs that wait for a permit are served in the order of their ids.
    #[schemars(length(max = 36), regex(pattern = UUID_PATTERN))]
    pub rollout: Option<String>,
    /// The permit pool.
    #[schemars(length(max = 63), regex(pattern = "^[a-z0-9][a-z0-9_-]{0,62}$"))]
    pub pool: Option<String>,
    /// Maximum number of concurrent runs of the pool in the fleet; if absent and not configured, the run imposes no limit, and keeps those of other runs.
    pub limit: Option<i64>,
    /// Nodes with a higher priority get a permit first; 0 is normal.
    pub priority: Option<i64>,
    /// Maximum time to wait for other runs of the node, and again for the permit, in seconds.
    pub wait: Option<i64>,
    /// Reply immediately with the id of the run.
    pub background: Option<bool>,
}

/// Progress of `runonce`: sent at each change of the stage.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PuppetRunProgress {
    /// The stage.
    pub state: PuppetRunState,
    /// The run id.
    #[serde(default)]
    pub run: String,
    /// Time of the message by the node's clock, in milliseconds since 1970.
    #[serde(default)]
    pub at: u64,
    /// Time since the run was requested, in seconds.
    #[serde(default)]
    pub elapsed: f64,
}

/// Report whether Puppet is running, idling, stopped or disabled.
#[derive(Debug, JsonSchema)]
pub struct PuppetStatus;

impl Action for PuppetStatus {
    type Agent = PuppetAgent;
    const NAME: &'static str = "status";
    type Input = EmptyInput;
    type Output = PuppetStatusOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read()
            .summary("status")
            .aggregate(AggregateFunction::BooleanSummary, "enabled", &[])
            .examples(include_str!("status.json"))
    }
}

/// Outputs of `status`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[expect(clippy::struct_excessive_bools, reason = "MCollective's outputs")]
pub struct PuppetStatusOutput {
    /// Whether a catalog is being applied.
    pub applying: bool,
    /// Whether Puppet's daemon waits for its next run.
    pub idling: bool,
    /// Whether runs are allowed.
    pub enabled: bool,
    /// Whether Puppet's daemon is running.
    #[schemars(title = "Daemon Running")]
    pub daemon_present: bool,
    /// `applying a catalog`, `idling`, `stopped` or `disabled`.
    pub status: NodeText,
    /// The reason why runs are disabled.
    #[schemars(title = "Lock Message")]
    pub disable_message: NodeText,
    /// End of the last run, in seconds since the epoch; 0 if there was none.
    #[schemars(title = "Last Run")]
    pub lastrun: u64,
    /// Seconds since the last run.
    #[schemars(title = "Since Last Run")]
    pub since_lastrun: u64,
    /// The outcome class of the last run, from Puppet's summary: `clean`, `changed`, `failed`, `failed+changed` or `compile_failed`; none if there was no run.
    #[schemars(with = "Option<String>", title = "Last Result")]
    pub last_class: Option<PuppetRunClass>,
    /// Resources of the last run that failed, or whose refresh failed.
    #[schemars(title = "Last Failed Resources")]
    pub last_failed: Option<u64>,
    /// The status in a sentence.
    pub message: NodeText,
    /// Holder of the run lock: `ours`, `puppet` for a run that something else started, `stale` for a lock without a process, or `none`.
    #[schemars(title = "Lock Holder")]
    pub holder: String,
    /// Process id of the lock holder.
    #[schemars(title = "Lock Holder's Process")]
    pub holder_pid: Option<u64>,
    /// Id of the run that this agent started and that is running or waiting.
    pub run: Option<String>,
    /// State of that run.
    pub run_state: Option<String>,
    /// Number of pending refreshes.
    #[schemars(title = "Pending Refreshes")]
    pub pending: u64,
    /// The engine that applies catalogs: `puppet` or `native`.
    pub engine: String,
}

/// List the results of runs that this agent started, the newest first.
#[derive(Debug, JsonSchema)]
pub struct PuppetRuns;

impl Action for PuppetRuns {
    type Agent = PuppetAgent;
    const NAME: &'static str = "runs";
    type Input = PuppetRunsInput;
    type Output = PuppetRunsOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read().examples(include_str!("runs.json"))
    }
}

/// Inputs of `runs`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PuppetRunsInput {
    /// Only this run.
    #[schemars(length(max = 36), regex(pattern = UUID_PATTERN))]
    pub run: Option<String>,
    /// Maximum number of runs.
    #[schemars(extend("x-default" = 20))]
    pub count: usize,
}

/// Outputs of `runs`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PuppetRunsOutput {
    /// Number of listed runs.
    pub count: usize,
    /// Each with the outputs of `runonce`.
    pub runs: Vec<PuppetRunOutcome>,
}
