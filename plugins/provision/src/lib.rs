//! `provision`: the steps by which a new machine becomes a node that Puppet manages. Each is asked for by a provisioner, one at a time.
//!
//! The node is taken with a lock that has a lease and a number (`hold`); whoever comes with an older number is refused. When it is
//! done the node is *released*: from then on it refuses every step until somebody lets it be provisioned once more.

#![warn(missing_docs)]

mod actions;
mod data;
mod fenced_lock;
mod hosts;
mod options;
mod outcome;
mod puppet;
mod step_context;
mod summary;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;

use muster_api::{Agent, AgentError, DataSourceError, ValidatedDataSource, ddl};
use muster_permits::PermitClient as Permits;

pub use fenced_lock::{DISABLED_FILE, PROVISIONING_FILE};
pub use options::Options;

use step_context::StepContext;

/// The agent, with every action that its DDL declares. `state` is the daemon's own state directory, in which the lock and the mark of
/// a node that is done are kept; `permits` is where runs take theirs, if they need one.
pub fn build_agent(
    options: Options,
    state: PathBuf,
    permits: Permits,
) -> Result<Agent, AgentError> {
    let desk = Arc::new(StepContext::new(options, state, permits));
    Agent::builder(ddl::builtin_agent("provision").unwrap_or_default())?
        .with_action(actions::ProvisionLockAction(Arc::clone(&desk)))
        .with_action(actions::ProvisionUnlockAction(Arc::clone(&desk)))
        .with_action(actions::IsLockedAction(Arc::clone(&desk)))
        .with_action(actions::ProvisionDisableAction(Arc::clone(&desk)))
        .with_action(actions::IsDisabledAction(Arc::clone(&desk)))
        .with_action(actions::ProvisionReleaseAction(Arc::clone(&desk)))
        .with_action(actions::ReprovisionAction(Arc::clone(&desk)))
        .with_action(actions::SetPuppetHostAction(Arc::clone(&desk)))
        .with_action(actions::HasCertAction(Arc::clone(&desk)))
        .with_action(actions::RequestCertificateAction(Arc::clone(&desk)))
        .with_action(actions::BootstrapPuppetAction(Arc::clone(&desk)))
        .with_action(actions::RunPuppetAction(Arc::clone(&desk)))
        .with_action(actions::DaemonizePuppetAction(desk))
        .build()
}

/// The data source `provision`.
pub fn data_sources(state: PathBuf) -> Result<Vec<ValidatedDataSource>, DataSourceError> {
    Ok(vec![ValidatedDataSource::with_builtin_ddl(
        data::ProvisionDataSource(state),
    )?])
}
