//! `provision`: the steps by which a new machine becomes a node that Puppet manages. Each is asked for by a provisioner, one at a time.
//!
//! The node is taken with a lock that has a lease and a number (`hold`); whoever comes with an older number is refused. When it is
//! done the node is *released*: from then on it refuses every step until somebody lets it be provisioned once more.

#![warn(missing_docs)]

mod actions;
mod data;
mod desk;
mod hold;
mod hosts;
mod options;
mod outcome;
mod puppet;
mod summary;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;

use muster_api::{Agent, AgentError, Data, DataError, ddl};
use muster_permits::Desk as Permits;

pub use hold::{DISABLED, MARKER};
pub use options::Options;

use desk::Desk;

/// The agent, with every action that its DDL declares. `state` is the daemon's own state directory, in which the lock and the mark of
/// a node that is done are kept; `permits` is where runs take theirs, if they need one.
pub fn agent(options: Options, state: PathBuf, permits: Permits) -> Result<Agent, AgentError> {
    let desk = Arc::new(Desk::new(options, state, permits));
    Agent::builder(ddl::builtin("provision").unwrap_or_default())?
        .action(actions::Lock(Arc::clone(&desk)))
        .action(actions::Unlock(Arc::clone(&desk)))
        .action(actions::IsLocked(Arc::clone(&desk)))
        .action(actions::Disable(Arc::clone(&desk)))
        .action(actions::IsDisabled(Arc::clone(&desk)))
        .action(actions::Release(Arc::clone(&desk)))
        .action(actions::Reprovision(Arc::clone(&desk)))
        .action(actions::SetPuppetHost(Arc::clone(&desk)))
        .action(actions::HasCert(Arc::clone(&desk)))
        .action(actions::RequestCertificate(Arc::clone(&desk)))
        .action(actions::BootstrapPuppet(Arc::clone(&desk)))
        .action(actions::RunPuppet(Arc::clone(&desk)))
        .action(actions::DaemonizePuppet(desk))
        .build()
}

/// The data source `provision`.
pub fn data_sources(state: PathBuf) -> Result<Vec<Data>, DataError> {
    Ok(vec![Data::builtin(data::ProvisionData(state))?])
}
