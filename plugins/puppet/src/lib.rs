//! `puppet`: runs Puppet, or the native engine in its place, and reports how its runs ended.
//!
//! Every run passes the same stages: the node's lock, a permit of the fleet, then the program as a separate process group that survives a restart of
//! the daemon. The result is read from report, summary, locks and log. An unmodified Puppet loses refreshes when a failure or a kill comes between
//! notification and refresh; these are entered in the engine's ledger and replayed; see [`wrapper`].
//!
//! Out of scope: who may start a run (policies decide), and how many runs a fleet may have at once (callers or the configuration decide).

#![warn(missing_docs)]

mod actions;
mod arguments;
mod classification;
mod data;
mod drive;
mod files;
mod monitor;
mod native;
mod options;
mod paths;
mod permit;
mod program;
mod record;
mod runs;
mod session;
#[cfg(test)]
mod tests;
pub mod wrapper;

use std::path::PathBuf;
use std::sync::Arc;

use muster_api::system::System;
use muster_api::wire::identity::NameError;
use muster_api::{
    Agent, AgentError, DaemonContext, DataSourceError, NodePlugin, PluginError,
    ValidatedDataSource, ddl,
};
use muster_permits::PermitClient;

pub use files::yaml;
pub use monitor::PuppetRunMonitor;
pub use options::{CatalogEngine, Options, PuppetApplication};

use runs::PuppetRunManager;

/// The agent `puppet` of a node, its data source, and its background monitor.
#[derive(Debug, Clone)]
pub struct PuppetPlugin {
    options: Options,
    runs: Arc<PuppetRunManager>,
}

impl PuppetPlugin {
    /// Creates the plugin; `permits` provides the permits. Fails if the configured pool is not a valid name.
    pub fn new(options: Options, permits: PermitClient) -> Result<Self, NameError> {
        let runs = PuppetRunManager::new(options.clone(), permits)?;
        Ok(Self { options, runs })
    }

    /// Builds the agent.
    pub fn build_agent(&self) -> Result<Agent, AgentError> {
        let runs = || Arc::clone(&self.runs);
        Agent::builder(ddl::builtin_agent("puppet").unwrap_or_default())?
            .with_action(actions::PuppetStatusAction(runs()))
            .with_action(actions::PuppetRunOnceAction(runs()))
            .with_action(actions::PuppetRunsAction(runs()))
            .with_action(actions::PuppetEnableAction(runs()))
            .with_action(actions::PuppetDisableAction(runs()))
            .with_action(actions::LastRunSummaryAction(runs()))
            .with_action(actions::LastRunReportAction(runs()))
            .with_action(actions::PuppetLocksAction(runs()))
            .build()
    }

    /// Builds the background task that resumes the runs of an earlier daemon and counts runs that were started outside.
    pub fn build_monitor(&self, system: Arc<dyn System>) -> PuppetRunMonitor {
        PuppetRunMonitor::new(Arc::clone(&self.runs), system)
    }
}

/// What the plugin shares with others.
#[derive(Debug, Clone)]
pub struct PuppetShared {
    /// Provides permits for runs.
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
    ) -> Result<Self, PluginError> {
        if options.state_dir.as_os_str().is_empty() {
            options.state_dir = daemon.state.join("puppet");
        }
        if options.engine_dir.as_os_str().is_empty() {
            options.engine_dir = shared.engine_dir;
        }
        Self::new(options, shared.permits).map_err(|error| PluginError::Option {
            plugin: Self::NAME,
            option: "pool",
            source: error.into(),
        })
    }

    fn agents(&self) -> Result<Vec<Agent>, AgentError> {
        if !self.options.enabled {
            return Ok(Vec::new());
        }
        Ok(vec![self.build_agent()?])
    }

    fn data_sources(&self) -> Result<Vec<ValidatedDataSource>, DataSourceError> {
        data_sources(self.options.clone())
    }
}

/// Builds the data source `puppet`.
pub fn data_sources(options: Options) -> Result<Vec<ValidatedDataSource>, DataSourceError> {
    Ok(vec![ValidatedDataSource::with_builtin_ddl(data::PuppetDataSource(Arc::new(options)))?])
}
