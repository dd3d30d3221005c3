//! The agent `puppet`: runs of Puppet, and its state on a node.

mod outcome;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use outcome::{PuppetRunClass, PuppetRunOutcome, PuppetRunState};

/// Inputs of `runonce`; what is absent is as configured on the node.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PuppetRunOnceInput {
    /// Do not spread runs over time.
    pub force: Option<bool>,
    /// The server, with `:port` if needed.
    pub server: Option<String>,
    /// Only resources with one of these tags, separated by commas.
    pub tags: Option<String>,
    /// No resources with one of these tags, separated by commas.
    pub skip_tags: Option<String>,
    /// Change nothing.
    pub noop: Option<bool>,
    /// Wait a random time first.
    pub splay: Option<bool>,
    /// Maximum of that time, in seconds.
    pub splaylimit: Option<i64>,
    /// The environment to request.
    pub environment: Option<String>,
    /// Manage resources outside of their schedules, too.
    pub ignoreschedules: Option<bool>,
    /// Apply the last catalog instead of requesting one.
    pub use_cached_catalog: Option<bool>,
    /// The run id, a UUID: a repeated request returns the result of that run.
    pub run: Option<String>,
    /// The rollout that the run belongs to, a UUID: its waiting runs are served in the order of their ids.
    pub rollout: Option<String>,
    /// The pool of permits.
    pub pool: Option<String>,
    /// Maximum concurrent runs of the pool in the fleet; without one, the run keeps the limits of others.
    pub limit: Option<i64>,
    /// Waiters with a higher priority come first.
    pub priority: Option<i64>,
    /// Maximum wait for other runs of the node, and again for the permit, in seconds.
    pub wait: Option<i64>,
    /// Reply at once with the run id.
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
    pub daemon_present: bool,
    /// `applying a catalog`, `idling`, `stopped` or `disabled`.
    pub status: String,
    /// Why runs are disabled; else empty.
    pub disable_message: String,
    /// When the last run ended, in seconds since 1970; 0 if there was none.
    pub lastrun: u64,
    /// Seconds since then.
    pub since_lastrun: u64,
    /// The outcome class of the last run, from Puppet's summary; none if there was no run.
    #[schemars(with = "Option<String>")]
    pub last_class: Option<PuppetRunClass>,
    /// Resources of the last run that failed, or whose refresh failed.
    pub last_failed: Option<u64>,
    /// The state as a sentence.
    pub message: String,
    /// Holder of the run lock: `ours`, `puppet`, `stale` or `none`.
    pub holder: String,
    /// The process that holds it.
    pub holder_pid: Option<u64>,
    /// Id of the agent's run in progress.
    pub run: Option<String>,
    /// The stage of that run.
    pub run_state: Option<String>,
    /// Number of pending refreshes.
    pub pending: u64,
    /// The engine that applies catalogs: `puppet` or `native`.
    pub engine: String,
}

/// Outputs of `last_run_summary`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LastRunSummaryOutput {
    /// Resources that were not in the described state.
    pub out_of_sync_resources: Option<u64>,
    /// Resources that failed, or whose refresh failed.
    pub failed_resources: Option<u64>,
    /// Resources with a corrective change, which undid a change made outside of Puppet.
    pub corrected_resources: Option<u64>,
    /// Resources that were changed.
    pub changed_resources: Option<u64>,
    /// Resources of the catalog.
    pub total_resources: Option<u64>,
    /// Time to get the catalog, in seconds.
    pub config_retrieval_time: Option<f64>,
    /// Duration of the run, in seconds.
    pub total_time: Option<f64>,
    /// Log lines, if requested.
    pub logs: Vec<String>,
    /// When the run ended, in seconds since 1970.
    pub lastrun: Option<u64>,
    /// Seconds since then.
    pub since_lastrun: Option<u64>,
    /// Version of the catalog's configuration.
    pub config_version: Option<String>,
    /// Number of resources by type.
    pub type_distribution: BTreeMap<String, u64>,
    /// Puppet's summary file.
    pub summary: Map<String, Value>,
    /// Whether there was no catalog to apply.
    pub failed_run: bool,
    /// The outcome class.
    #[schemars(with = "Option<String>")]
    pub class: Option<PuppetRunClass>,
    /// The environment.
    pub environment: Option<String>,
    /// Whether a cached catalog was applied, and why.
    pub cached_catalog_status: Option<String>,
}
