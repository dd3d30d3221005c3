//! `puppet`: runs Puppet, or the native engine in its place, and reports how its runs ended.
//!
//! Every run passes the same stages: the node's lock, a permit of the fleet, then the program as a separate process group that survives a restart of
//! the daemon. The result is read from report, summary, locks and log. An unmodified Puppet loses refreshes when a failure or a kill comes between
//! notification and refresh; these are entered in the engine's ledger and replayed; see [`wrapper`].
//!
//! Out of scope: who may start a run (policies decide), and how many runs a fleet may have at once (callers or the configuration decide).

mod actions;
pub mod again;
mod arguments;
mod classification;
mod data;
mod drive;
mod files;
mod history;
mod monitor;
mod native;
mod options;
mod paths;
mod permit;
pub mod permits;
mod program;
mod record;
mod run_handle;
mod runs;
mod session;
mod state;
#[cfg(test)]
mod tests;
pub mod wrapper;

use std::path::PathBuf;
use std::sync::Arc;

use muster_api::system::System;
use muster_api::wire::identity::NameError;
use muster_api::{
    Agent, AgentError, DaemonContext, DataSourceError, HistoryRecorder, NodePlugin, PluginError,
    PluginResult, StateChanges, StateSource, ValidatedDataSource,
};
use muster_contract::puppet::{
    PuppetAgent, PuppetDisable, PuppetEnable, PuppetLastRunReport, PuppetLastRunSummary,
    PuppetLocks, PuppetRunOnce, PuppetRuns, PuppetStatus,
};

use crate::permits::PermitClient;

pub use files::yaml;
pub use history::EngineRunRecorder;
pub use monitor::PuppetRunMonitor;
pub use options::{CatalogEngine, Options, PuppetApplication, RunCatalog};
pub use run_handle::{
    EndedRun, PuppetRunHandle, ReportedRun, RunActivity, RunPermit, RunStart, RunStartError,
    SkippedRefreshes,
};

use actions::{disable, last_run_report, last_run_summary, locks};
use runs::PuppetRunManager;

/// The agent `puppet` of a node, its data source, and its background monitor.
#[derive(Debug, Clone)]
pub struct PuppetPlugin {
    runs: Arc<PuppetRunManager>,
}

impl PuppetPlugin {
    /// Creates the plugin; `permits` provides the permits, `state_changes` is notified of the ends of runs, and `history` records them. Fails if the configured
    /// pool is not a valid name.
    pub fn new(
        options: Options,
        permits: PermitClient,
        state_changes: StateChanges,
        history: HistoryRecorder,
    ) -> Result<Self, NameError> {
        Ok(Self { runs: PuppetRunManager::new(options, permits, state_changes, history)? })
    }

    /// What other plugins may do with runs.
    pub fn run_handle(&self) -> PuppetRunHandle {
        PuppetRunHandle(Arc::clone(&self.runs))
    }

    /// Builds the background task that resumes the runs of an earlier daemon and counts runs that were started outside.
    pub fn build_monitor(&self, system: Arc<dyn System>) -> PuppetRunMonitor {
        PuppetRunMonitor::new(Arc::clone(&self.runs), system)
    }
}

#[derive(Debug, Clone)]
pub struct PuppetShared {
    pub permits: PermitClient,
    /// Directory of the engine's ledger and run lock, unless the options name another one.
    pub engine_dir: PathBuf,
}

impl NodePlugin for PuppetPlugin {
    const NAME: &'static str = "puppet";
    type Options = Options;
    type Shared = PuppetShared;

    fn configure(
        mut options: Options,
        daemon: &DaemonContext,
        shared: PuppetShared,
    ) -> PluginResult<Self> {
        if options.state_dir.as_os_str().is_empty() {
            options.state_dir = daemon.state.join("puppet");
        }
        if options.engine_dir.as_os_str().is_empty() {
            options.engine_dir = shared.engine_dir;
        }
        let (changes, history) = (daemon.state_changes.clone(), daemon.history.clone());
        Self::new(options, shared.permits, changes, history).map_err(|error| PluginError::Option {
            plugin: Self::NAME,
            option: "pool",
            source: error.into(),
        })
    }

    fn is_enabled(&self) -> bool {
        self.runs.options.enabled
    }

    fn build_agent(&self) -> Result<Agent, AgentError> {
        let runs = &self.runs;
        Agent::builder_for::<PuppetAgent>()?
            .blocking_action(PuppetStatus, runs, actions::status::query_status)
            .action(PuppetRunOnce, runs, actions::runonce::run_once)
            .blocking_action(PuppetRuns, runs, actions::runs::list_runs)
            .blocking_action(PuppetEnable, runs, disable::enable_runs)
            .blocking_action(PuppetDisable, runs, disable::disable_runs)
            .blocking_action(PuppetLastRunSummary, runs, last_run_summary::summarise_last_run)
            .blocking_action(PuppetLastRunReport, runs, last_run_report::report_last_run)
            .blocking_action(PuppetLocks, runs, locks::list_locks)
            .ending_at_deadline(PuppetRunOnce)
            .build()
    }

    fn data_sources(&self) -> Result<Vec<ValidatedDataSource>, DataSourceError> {
        Ok(vec![ValidatedDataSource::blocking(Self::NAME, &self.runs, data::query_puppet)?])
    }

    fn state_sources(&self) -> Vec<Arc<dyn StateSource>> {
        let source = state::PuppetStateSource(Arc::clone(&self.runs));
        if self.is_enabled() { vec![Arc::new(source)] } else { Vec::new() }
    }
}
