//! `restart`: restarts a service when no run is in progress, once for all merged requests, and reports the outcome.
//!
//! A service that is restarted during the run that manages it interrupts that run, and a background loop per request restarts it once per
//! request without a reported outcome. Here a request is stored on disk ([`cycle`], [`store`]) and answered at once. A *worker* ([`worker`]),
//! a detached process, waits for the run to end, takes the run lock, restarts the target, checks that a new process runs, and stores the
//! outcome. Requests that arrive before the restart begins share it. A worker that died is replaced at the next request, or when the daemon
//! starts.

mod actions;
pub mod cycle;
pub mod instance;
pub mod manager;
mod restart_methods;
pub mod store;
pub mod target;
mod target_status;
#[cfg(test)]
mod tests;
pub mod worker;

use std::sync::Arc;

use muster_api::{Agent, AgentError, DaemonContext, NoOptions, NodePlugin, PluginResult};
use muster_contract::restart::{RestartAgent, RestartRequest, RestartStatus};

pub use cycle::{AcceptedRestart, RestartCycle, RestartOptions, RestartState};
pub use instance::DaemonInstance;
pub use manager::{DetachedLauncher, RestartError, RestartManager, WorkerLauncher};
pub use store::RestartStore;
pub use target::{RestartTarget, RestartTargetError};

/// Builds the agent with every action that its DDL declares.
pub fn build_agent(restarts: RestartManager) -> Result<Agent, AgentError> {
    let restarts = Arc::new(restarts);
    Agent::builder_for::<RestartAgent>()?
        .action(RestartRequest, &restarts, actions::request_restart)
        .blocking_action(RestartStatus, &restarts, actions::query_status)
        .ending_at_deadline(RestartRequest)
        .build()
}

/// The agent `restart`.
#[derive(Debug, Clone)]
pub struct RestartPlugin(RestartManager);

impl NodePlugin for RestartPlugin {
    const NAME: &'static str = "restart";
    type Options = NoOptions;
    type Shared = RestartManager;

    fn configure(_: NoOptions, _: &DaemonContext, restarts: RestartManager) -> PluginResult<Self> {
        Ok(Self(restarts))
    }

    fn build_agent(&self) -> Result<Agent, AgentError> {
        build_agent(self.0.clone())
    }
}
