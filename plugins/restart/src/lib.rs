//! `restart`: restarts a service when no run is in progress, once for all who ask, and tells what came of it.
//!
//! A service that is restarted in the middle of the run that manages it takes the run with it; one that is restarted by a loop in the
//! background is restarted by as many loops as there were requests, and nobody hears how it went. Here a request is written down
//! ([`cycle`], [`store`]) and answered at once; a *worker* ([`worker`]), a process that belongs to nobody, waits for the run to end,
//! takes the run lock itself, restarts, looks whether a new process is there, and writes down the outcome. Whoever asks before the
//! restart has begun shares it. A worker that died is replaced at the next request, or when the daemon starts.

#![warn(missing_docs)]

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

use muster_api::{Agent, AgentError, ddl};

pub use cycle::{RestartCycle, RestartOptions, RestartState};
pub use instance::DaemonInstance;
pub use manager::{
    AcceptedRestart, DetachedLauncher, RestartError, RestartManager, WorkerLauncher,
};
pub use store::RestartStore;
pub use target::{RestartTarget, RestartTargetError};

/// The agent, with every action that its DDL declares.
pub fn build_agent(restarts: RestartManager) -> Result<Agent, AgentError> {
    let document = ddl::builtin_agent("restart").unwrap_or_default();
    let restarts = Arc::new(restarts);
    Agent::builder(document)?
        .with_action(actions::RestartRequestAction(Arc::clone(&restarts)))
        .with_action(actions::RestartStatusAction(restarts))
        .build()
}
