//! `again`: runs of Puppet that ask for another run.
//!
//! A manifest that cannot finish in one run asks for the next one, with the resource `Exec[again]` that calls `rpcd again`. The request is on disk when
//! the command returns, also while the daemon does not run ([`spool`], [`journal`]). All requests of a run are one pending run. [`plan`] decides when it
//! begins: after the run that asked has ended, after a delay with a random part, within the limits of the node, and not if successive runs make the
//! same changes. The agent `puppet` starts the run, with its locks and permits; [`budget`] limits how many runs begin in the fleet.
//!
//! Out of scope: whether more work is left. The manifest decides that.

mod accept;
mod actions;
pub mod barrier;
mod barrier_actions;
pub mod budget;
pub mod clock;
mod describe;
mod driver;
mod follow;
pub mod journal;
pub mod monitor;
pub mod plan;
pub mod policy;
pub mod requester;
pub mod spool;
#[cfg(test)]
mod storm_tests;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use muster_api::{
    Agent, AgentError, DaemonContext, NodePlugin, PluginError, PluginResult, StateSource,
};
use muster_contract::again::{
    AgainAgent, AgainCancel, AgainHistory, AgainList, AgainNoteMissing, AgainRelease,
    AgainRequestRun, AgainReset,
};

use crate::PuppetRunHandle;
use crate::permits::PermitClient;

pub use monitor::{AgainMonitor, AgainMonitorParts};
pub use policy::{AgainOptions, AgainPolicy};

use budget::FleetBudget;
use clock::SteadyClock;

/// The agent `again`, and the task that begins runs.
#[derive(Debug, Clone)]
pub struct AgainPlugin {
    is_enabled: bool,
    monitor: AgainMonitor,
}

#[derive(Debug, Clone)]
pub struct AgainShared {
    /// Begins runs.
    pub puppet: PuppetRunHandle,
    /// Permits of the fleet's budget.
    pub permits: PermitClient,
}

/// The directory of the agent, below the daemon's state directory.
pub fn again_directory(state: &Path) -> PathBuf {
    state.join(AgainPlugin::NAME)
}

impl AgainPlugin {
    /// The task that begins runs; `None` if the agent is not enabled.
    pub fn monitor(&self) -> Option<AgainMonitor> {
        self.is_enabled.then(|| self.monitor.clone())
    }
}

impl NodePlugin for AgainPlugin {
    const NAME: &'static str = "again";
    type Options = AgainOptions;
    type Shared = AgainShared;

    fn configure(
        options: AgainOptions,
        daemon: &DaemonContext,
        shared: AgainShared,
    ) -> PluginResult<Self> {
        let budget = FleetBudget::new(shared.permits, options.budget).map_err(|source| {
            PluginError::Option { plugin: Self::NAME, option: "budget", source: source.into() }
        })?;
        let monitor = AgainMonitor::new(AgainMonitorParts {
            policy: AgainPolicy::from_options(&options),
            directory: again_directory(&daemon.state),
            puppet: shared.puppet,
            budget,
            clock: SteadyClock::system(),
            state_changes: daemon.state_changes.clone(),
        });
        Ok(Self { is_enabled: options.enabled, monitor })
    }

    fn is_enabled(&self) -> bool {
        self.is_enabled
    }

    fn build_agent(&self) -> Result<Agent, AgentError> {
        Agent::builder_for::<AgainAgent>()?
            .blocking_action(AgainRequestRun, &self.monitor, actions::request_run)
            .blocking_action(AgainCancel, &self.monitor, actions::cancel_run)
            .blocking_action(AgainReset, &self.monitor, actions::reset_limits)
            .blocking_action(AgainRelease, &self.monitor, barrier_actions::release_barrier)
            .blocking_action(AgainNoteMissing, &self.monitor, barrier_actions::note_missing)
            .blocking_action(AgainList, &self.monitor, actions::list_pending)
            .blocking_action(AgainHistory, &self.monitor, actions::list_history)
            .build()
    }

    fn state_sources(&self) -> Vec<Arc<dyn StateSource>> {
        if self.is_enabled { vec![Arc::new(self.monitor.clone())] } else { Vec::new() }
    }
}
