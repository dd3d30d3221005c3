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

use std::sync::Arc;

use muster_api::system::System;
use muster_api::wire::identity::NameError;
use muster_api::{Agent, AgentError, DataSourceError, ValidatedDataSource, ddl};
use muster_permits::PermitClient;

pub use files::yaml;
pub use monitor::PuppetRunMonitor;
pub use options::{CatalogEngine, Options, PuppetApplication};

use runs::PuppetRunManager;

/// The agent `puppet` of a node, its data source, and its background monitor.
#[derive(Debug, Clone)]
pub struct PuppetPlugin {
    runs: Arc<PuppetRunManager>,
}

impl PuppetPlugin {
    /// Creates the plugin; `permits` provides the permits. Fails if the configured pool is not a valid name.
    pub fn new(options: Options, permits: PermitClient) -> Result<Self, NameError> {
        Ok(Self {
            runs: PuppetRunManager::new(options, permits)?,
        })
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

/// Builds the data source `puppet`.
pub fn data_sources(options: Options) -> Result<Vec<ValidatedDataSource>, DataSourceError> {
    Ok(vec![ValidatedDataSource::with_builtin_ddl(
        data::PuppetDataSource(Arc::new(options)),
    )?])
}
