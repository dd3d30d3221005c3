//! `puppet`: runs Puppet, or our own engine in its place, and tells how its runs ended.
//!
//! A run is taken through the same gates whoever asks for it: the node's lock, a permit of the fleet, the program itself as a
//! process group of its own that outlives the daemon. Its result is that of the run, read from report, summary, locks and log.
//! What an unmodified Puppet forgets, refreshes that a failure or a kill came between, is entered in the engine's ledger and
//! made up for; see [`wrapper`].
//!
//! Does not decide who may ask (policies do), nor how many runs at once a fleet can bear (callers or the configuration do).

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
mod outcome;
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

/// The agent `puppet` of a node, its data source, and its part that goes on beside requests.
#[derive(Debug, Clone)]
pub struct PuppetPlugin {
    runs: Arc<PuppetRunManager>,
}

impl PuppetPlugin {
    /// With these options; permits come from the desk. The pool must be a name.
    pub fn new(options: Options, desk: PermitClient) -> Result<Self, NameError> {
        Ok(Self {
            runs: PuppetRunManager::new(options, desk)?,
        })
    }

    /// The agent.
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

    /// What takes up the runs of an earlier daemon, and counts those of others.
    pub fn build_monitor(&self, system: Arc<dyn System>) -> PuppetRunMonitor {
        PuppetRunMonitor::new(Arc::clone(&self.runs), system)
    }
}

/// The data source `puppet`.
pub fn data_sources(options: Options) -> Result<Vec<ValidatedDataSource>, DataSourceError> {
    Ok(vec![ValidatedDataSource::with_builtin_ddl(
        data::PuppetDataSource(Arc::new(options)),
    )?])
}
