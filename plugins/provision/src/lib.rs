//! `provision`: the steps that turn a new machine into a node managed by Puppet. A provisioner calls them one at a time.
//!
//! The provisioner locks the node with a lease and a fence number (`fenced_lock`); a call with an older fence is rejected. When provisioning is
//! complete, the node is *released*: it then rejects every step until `reprovision` is called.

mod actions;
pub mod certificate;
mod data;
mod delivery;
mod fenced_lock;
mod hosts;
mod options;
mod outcome;
mod puppet;
pub mod puppetca;
mod step_context;
mod summary;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;

use muster_api::{
    Agent, AgentError, DaemonContext, DataSourceError, NodePlugin, PluginResult,
    ValidatedDataSource,
};
use muster_contract::provision::{
    ProvisionAgent, ProvisionBootstrapPuppet, ProvisionConfigure, ProvisionDaemonizePuppet,
    ProvisionDisable, ProvisionHasCert, ProvisionIsDisabled, ProvisionIsLocked, ProvisionLock,
    ProvisionRelease, ProvisionReprovision, ProvisionRequestCertificate, ProvisionRunPuppet,
    ProvisionSetPuppetHost, ProvisionUnlock,
};
use muster_puppet::permits::PermitClient as Permits;
use tokio::sync::Notify;

pub use delivery::{
    DeliveredSettings, DeliveryError, DeliveryReport, DeliveryTarget, NodeDelivery, SETTINGS_FILE,
    SettingPattern, SettingPatternError,
};
pub use fenced_lock::{DISABLED_FILE, PROVISIONING_FILE};
pub use options::Options;

use actions::{configure, daemonize, lock, markers, run};
use fenced_lock::FencedLock;
use step_context::StepContext;

/// Builds the agent with every action that its DDL declares. `state` is the daemon's state directory, which contains the lock and the marker of a
/// provisioned node.
pub fn build_agent(
    options: Options,
    state: PathBuf,
    shared: ProvisionShared,
) -> Result<Agent, AgentError> {
    let context = Arc::new(StepContext::new(options, state, shared));
    Agent::builder_for::<ProvisionAgent>()?
        .blocking_action(ProvisionLock, &context, lock::take_lock)
        .blocking_action(ProvisionUnlock, &context, lock::release_lock)
        .blocking_action(ProvisionIsLocked, &context, lock::query_lock)
        .blocking_action(ProvisionDisable, &context, |context, cx, input| {
            markers::finish_provisioning(context, cx, input, false)
        })
        .blocking_action(ProvisionIsDisabled, &context, |context, _, _| {
            Ok(markers::query_markers(context))
        })
        .blocking_action(ProvisionRelease, &context, |context, cx, input| {
            markers::finish_provisioning(context, cx, input, true)
        })
        .blocking_action(ProvisionReprovision, &context, markers::restart_provisioning)
        .blocking_action(ProvisionConfigure, &context, configure::configure_node)
        .blocking_action(ProvisionSetPuppetHost, &context, actions::hosts::set_puppet_host)
        .blocking_action(ProvisionHasCert, &context, actions::certificate::check_certificate_files)
        .blocking_action(
            ProvisionRequestCertificate,
            &context,
            actions::certificate::request_certificate,
        )
        .action(ProvisionBootstrapPuppet, &context, run::bootstrap_puppet)
        .action(ProvisionRunPuppet, &context, run::run_puppet)
        .blocking_action(ProvisionDaemonizePuppet, &context, daemonize::daemonize_puppet)
        .ending_at_deadline(ProvisionReprovision)
        .ending_at_deadline(ProvisionHasCert)
        .ending_at_deadline(ProvisionRequestCertificate)
        .ending_at_deadline(ProvisionBootstrapPuppet)
        .ending_at_deadline(ProvisionRunPuppet)
        .ending_at_deadline(ProvisionDaemonizePuppet)
        .build()
}

#[derive(Debug, Clone)]
pub struct ProvisionShared {
    /// Provides permits for runs of Puppet, if the options require them.
    pub permits: Permits,
    /// Notified when the agent changes the markers of the node.
    pub changed: Arc<Notify>,
    /// The daemon's configuration and policies; `None` if the daemon has no files.
    pub delivery: Option<Arc<dyn DeliveryTarget>>,
}

impl ProvisionShared {
    /// For an agent without a daemon: nothing is notified, and nothing can be delivered.
    pub fn without_daemon(permits: Permits) -> Self {
        Self { permits, changed: Arc::default(), delivery: None }
    }
}

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
    ) -> PluginResult<Self> {
        Ok(Self { options, state: daemon.state.clone(), shared })
    }

    fn is_enabled(&self) -> bool {
        self.options.is_enabled(&self.state)
    }

    fn build_agent(&self) -> Result<Agent, AgentError> {
        build_agent(self.options.clone(), self.state.clone(), self.shared.clone())
    }

    fn data_sources(&self) -> Result<Vec<ValidatedDataSource>, DataSourceError> {
        let lock = FencedLock::new(self.state.clone());
        Ok(vec![ValidatedDataSource::blocking(Self::NAME, &lock, data::query_state)?])
    }
}
