//! `service`: starts, stops and restarts services, and shows whether they run.
//!
//! The engine detects the init system and controls it. The agent does not change whether a service starts at boot; a `puppetral` resource
//! does. An unknown service is a failure.

mod actions;
mod node_service;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use muster_api::{
    ActionError, Agent, AgentError, DaemonContext, DataSourceError, NoOptions, NoState, NodePlugin,
    PluginResult, ValidatedDataSource,
};
use muster_contract::service::ServiceRunState::Running;
use muster_contract::service::{
    ServiceAgent, ServiceRestart, ServiceStart, ServiceStatus, ServiceStop,
};

use actions::change_state;

/// Requests the restart of the daemon itself, which no action can perform: it would wait for its own end.
pub trait DaemonRestarter: fmt::Debug + Send + Sync {
    /// Whether this is the daemon's own service.
    fn is_daemon(&self, service: &str) -> bool;
    /// Requests the restart; it happens after the action has replied.
    fn request_restart(&self) -> Result<(), ActionError>;
}

/// Restarts the daemon, where it is a service of the machine.
#[derive(Debug, Clone, Default)]
pub(crate) struct SelfRestart(Option<Arc<dyn DaemonRestarter>>);

impl SelfRestart {
    /// The restarter, if this is the daemon's own service.
    pub(crate) fn for_service(&self, service: &str) -> Option<&dyn DaemonRestarter> {
        self.0.as_deref().filter(|restarter| restarter.is_daemon(service))
    }
}

/// The agent and the data source `service`.
#[derive(Debug, Clone)]
pub struct ServicePlugin(Arc<dyn DaemonRestarter>);

impl ServicePlugin {
    /// An agent of a node that is not a service of its machine.
    pub fn create_agent() -> Result<Agent, AgentError> {
        build_agent(&SelfRestart::default())
    }

    fn create_data_sources() -> Result<Vec<ValidatedDataSource>, DataSourceError> {
        Ok(vec![ValidatedDataSource::blocking(Self::NAME, &NoState, actions::find_service)?])
    }
}

impl NodePlugin for ServicePlugin {
    const NAME: &'static str = "service";
    type Options = NoOptions;
    type Shared = Arc<dyn DaemonRestarter>;

    fn configure(_: NoOptions, _: &DaemonContext, restarter: Self::Shared) -> PluginResult<Self> {
        Ok(Self(restarter))
    }

    fn build_agent(&self) -> Result<Agent, AgentError> {
        build_agent(&SelfRestart(Some(Arc::clone(&self.0))))
    }

    fn data_sources(&self) -> Result<Vec<ValidatedDataSource>, DataSourceError> {
        Self::create_data_sources()
    }
}

fn build_agent(restart: &SelfRestart) -> Result<Agent, AgentError> {
    Agent::builder_for::<ServiceAgent>()?
        .blocking_action(ServiceStatus, &NoState, actions::query_service)
        .blocking_action(ServiceStart, &NoState, |_, cx, input| change_state(cx, input, Running))
        .blocking_action(ServiceStop, restart, actions::stop_service)
        .blocking_action(ServiceRestart, restart, actions::restart_service)
        .build()
}
