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
mod data;
mod drive;
mod files;
mod native;
mod options;
mod outcome;
mod permit;
mod places;
mod program;
mod record;
mod resident;
mod runs;
mod session;
#[cfg(test)]
mod tests;
mod verdict;
pub mod wrapper;

use std::sync::Arc;

use muster_api::system::System;
use muster_api::wire::identity::NameError;
use muster_api::{Agent, AgentError, Data, DataError, ddl};
use muster_permits::Desk;

pub use files::yaml;
pub use options::{Application, Engine, Options};
pub use resident::Resident;

use runs::Runs;

/// The agent `puppet` of a node, its data source, and its part that goes on beside requests.
#[derive(Debug, Clone)]
pub struct Puppet {
    runs: Arc<Runs>,
}

impl Puppet {
    /// With these options; permits come from the desk. The pool must be a name.
    pub fn new(options: Options, desk: Desk) -> Result<Self, NameError> {
        Ok(Self {
            runs: Runs::new(options, desk)?,
        })
    }

    /// The agent.
    pub fn agent(&self) -> Result<Agent, AgentError> {
        let runs = || Arc::clone(&self.runs);
        Agent::builder(ddl::builtin("puppet").unwrap_or_default())?
            .action(actions::Status(runs()))
            .action(actions::RunOnce(runs()))
            .action(actions::Runs(runs()))
            .action(actions::Enable(runs()))
            .action(actions::Disable(runs()))
            .action(actions::LastRunSummary(runs()))
            .action(actions::LastRunReport(runs()))
            .action(actions::Locks(runs()))
            .build()
    }

    /// What takes up the runs of an earlier daemon, and counts those of others.
    pub fn resident(&self, system: Arc<dyn System>) -> Resident {
        Resident::new(Arc::clone(&self.runs), system)
    }
}

/// The data source `puppet`.
pub fn data_sources(options: Options) -> Result<Vec<Data>, DataError> {
    Ok(vec![Data::builtin(data::Puppet(Arc::new(options)))?])
}
