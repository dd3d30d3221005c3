//! `provision`: the steps that turn a new machine into a node managed by Puppet. A provisioner calls them one at a time.
//!
//! The provisioner locks the node with a lease and a fence number (`fenced_lock`); a call with an older fence is rejected. When provisioning is
//! complete, the node is *released*: it then rejects every step until `reprovision` is called.

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

use muster_api::{
    Agent, AgentError, DaemonContext, DataSourceError, NodePlugin, PluginError,
    ValidatedDataSource, ddl,
};
use muster_permits::PermitClient as Permits;
use tokio::sync::Notify;

pub use fenced_lock::{DISABLED_FILE, PROVISIONING_FILE};
pub use options::Options;

use step_context::StepContext;

/// Builds the agent with every action that its DDL declares. `state` is the daemon's state directory, which contains the lock and the marker of a
/// provisioned node. `permits` provides permits for runs, if the options require them. `changed` is notified when a marker has changed.
pub fn build_agent(
    options: Options,
    state: PathBuf,
    permits: Permits,
    changed: Arc<Notify>,
) -> Result<Agent, AgentError> {
    let context = Arc::new(StepContext::new(options, state, permits, changed));
    Agent::builder(ddl::builtin_agent("provision").unwrap_or_default())?
        .with_action(actions::ProvisionLockAction(Arc::clone(&context)))
        .with_action(actions::ProvisionUnlockAction(Arc::clone(&context)))
        .with_action(actions::IsLockedAction(Arc::clone(&context)))
        .with_action(actions::ProvisionDisableAction(Arc::clone(&context)))
        .with_action(actions::IsDisabledAction(Arc::clone(&context)))
        .with_action(actions::ProvisionReleaseAction(Arc::clone(&context)))
        .with_action(actions::ReprovisionAction(Arc::clone(&context)))
        .with_action(actions::SetPuppetHostAction(Arc::clone(&context)))
        .with_action(actions::HasCertAction(Arc::clone(&context)))
        .with_action(actions::RequestCertificateAction(Arc::clone(&context)))
        .with_action(actions::BootstrapPuppetAction(Arc::clone(&context)))
        .with_action(actions::RunPuppetAction(Arc::clone(&context)))
        .with_action(actions::DaemonizePuppetAction(context))
        .build()
}

/// Builds the data source `provision`.
pub fn data_sources(state: PathBuf) -> Result<Vec<ValidatedDataSource>, DataSourceError> {
    Ok(vec![ValidatedDataSource::with_builtin_ddl(data::ProvisionDataSource(state))?])
}

/// What the plugin shares with the daemon.
#[derive(Debug, Clone)]
pub struct ProvisionShared {
    /// Provides permits for runs of Puppet, if the options require them.
    pub permits: Permits,
    /// Notified when the agent changes the markers of the node.
    pub changed: Arc<Notify>,
}

/// The agent and the data source `provision`.
#[derive(Debug, Clone)]
pub struct ProvisionPlugin {
    options: Options,
    state: PathBuf,
    shared: ProvisionShared,
}

impl NodePlugin for ProvisionPlugin {
    const NAME: &'static str = "provision";
    type Options = Options;
    type Shared = ProvisionShared;

    fn configure(
        options: Options,
        daemon: &DaemonContext,
        shared: ProvisionShared,
    ) -> Result<Self, PluginError> {
        Ok(Self { options, state: daemon.state.clone(), shared })
    }

    fn agents(&self) -> Result<Vec<Agent>, AgentError> {
        if !self.options.is_enabled(&self.state) {
            return Ok(Vec::new());
        }
        let ProvisionShared { permits, changed } = self.shared.clone();
        let agent = build_agent(self.options.clone(), self.state.clone(), permits, changed)?;
        Ok(vec![agent])
    }

    fn data_sources(&self) -> Result<Vec<ValidatedDataSource>, DataSourceError> {
        data_sources(self.state.clone())
    }
}
