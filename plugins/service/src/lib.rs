//! `service`: starts, stops and restarts services, and shows whether they run.
//!
//! The engine detects the init system and controls it. The agent does not change whether a service starts at boot; a `puppetral` resource
//! does. An unknown service is a failure.

#![warn(missing_docs)]

mod actions;
mod service;
#[cfg(test)]
mod tests;

use muster_api::{
    Agent, AgentError, DataSourceError, NoState, StatelessPlugin, ValidatedDataSource,
};

use actions::{ServiceChangeInput, change_state};
use service::ServiceRunState::{Running, Stopped};

/// The agent and the data source `service`.
#[derive(Debug, Default, Clone, Copy)]
pub struct ServicePlugin;

impl StatelessPlugin for ServicePlugin {
    const NAME: &'static str = "service";

    fn create_agent() -> Result<Agent, AgentError> {
        Agent::builtin(Self::NAME)?
            .blocking_action("status", &NoState, actions::query_service)
            .blocking_action("start", &NoState, |_, cx, input: ServiceChangeInput| {
                change_state(cx, input, Running)
            })
            .blocking_action("stop", &NoState, |_, cx, input: ServiceChangeInput| {
                change_state(cx, input, Stopped)
            })
            .blocking_action("restart", &NoState, actions::restart_service)
            .build()
    }

    fn create_data_sources() -> Result<Vec<ValidatedDataSource>, DataSourceError> {
        Ok(vec![ValidatedDataSource::blocking(Self::NAME, &NoState, actions::find_service)?])
    }
}
