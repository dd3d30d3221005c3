//! The provisioner: turns new machines into managed nodes, step by step, and removes nodes from the fleet.
//!
//! Several hosts may run it; one is the leader ([`muster_bus::leader`]). The state of each node is a [`record`], stored at the broker and written before and
//! after each step of the [`plan`]. If a leader dies, nothing is lost, and its successor continues from the records. The steps call the agents
//! `provision` on the node and `puppetca` on the masters ([`worker`]), or agents and programs that the operator configures.
//!
//! The agent `provisioner` shows the state of nodes and accepts requests; [`ProvisionerService::run_until_stopped`] does the work.

mod actions;
mod configure;
mod enrol;
mod enrolment_store;
pub mod fleet;
mod handle;
mod helper;
pub mod masters;
pub mod notify;
mod options;
pub mod plan;
pub mod record;
mod service;
pub mod store;
#[cfg(test)]
mod tests;
pub mod worker;
pub mod workflow;

use muster_api::{Agent, AgentError, DaemonContext, NodePlugin, PluginResult};
use muster_contract::provisioner::{
    ProvisionerAgent, ProvisionerPause, ProvisionerResume, ProvisionerRetire, ProvisionerRetry,
    ProvisionerStatus,
};

use actions::{control, status};

pub use enrol::EnrolmentService;
pub use enrolment_store::{BucketEnrolmentError, BucketEnrolmentStore};
pub use handle::ProvisionerHandle;
pub use options::{
    AgentStep, EnrolmentOptions, HelperStep, NotificationChannel, NotificationEvent,
    NotificationTarget, Options, StepName, StepNameError, StepOptions, StepTarget,
};
pub use service::{ProvisionerService, ProvisionerServiceError};

pub fn build_agent(handle: &ProvisionerHandle) -> Result<Agent, AgentError> {
    Agent::builder_for::<ProvisionerAgent>()?
        .action(ProvisionerStatus, handle, status::list_nodes)
        .action(ProvisionerRetry, handle, control::retry_node)
        .action(ProvisionerPause, handle, |handle, cx, input| {
            control::set_paused(handle, cx, input, true)
        })
        .action(ProvisionerResume, handle, |handle, cx, input| {
            control::set_paused(handle, cx, input, false)
        })
        .action(ProvisionerRetire, handle, control::retire_node)
        .build()
}

#[derive(Debug, Clone)]
pub struct ProvisionerPlugin {
    options: Options,
    handle: ProvisionerHandle,
}

impl NodePlugin for ProvisionerPlugin {
    const NAME: &'static str = "provisioner";
    type Options = Options;
    type Shared = ProvisionerHandle;

    fn configure(
        options: Options,
        _: &DaemonContext,
        handle: ProvisionerHandle,
    ) -> PluginResult<Self> {
        Ok(Self { options, handle })
    }

    fn is_enabled(&self) -> bool {
        self.options.enabled
    }

    fn build_agent(&self) -> Result<Agent, AgentError> {
        build_agent(&self.handle)
    }
}
