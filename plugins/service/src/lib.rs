//! `service`: starts, stops and restarts services, and shows whether they run.
//!
//! The engine detects the init system and controls it. The agent does not change whether a service starts at boot; a `puppetral` resource
//! does. An unknown service is a failure.

#![warn(missing_docs)]

mod actions;
mod data;
mod service;
#[cfg(test)]
mod tests;

use muster_api::{
    Agent, AgentError, DaemonContext, DataSourceError, NoOptions, NodePlugin, PluginError,
    ValidatedDataSource, ddl,
};

/// Builds the agent with every action that its DDL declares.
pub fn build_agent() -> Result<Agent, AgentError> {
    let document = ddl::builtin_agent("service").unwrap_or_default();
    Agent::builder(document)?
        .with_action(actions::ServiceStatusAction)
        .with_action(actions::ServiceStartAction)
        .with_action(actions::ServiceStopAction)
        .with_action(actions::ServiceRestartAction)
        .build()
}

/// The data source `service`.
pub fn data_sources() -> Result<Vec<ValidatedDataSource>, DataSourceError> {
    Ok(vec![ValidatedDataSource::with_builtin_ddl(data::ServiceDataSource)?])
}

/// The agent and the data source `service`.
#[derive(Debug, Clone, Copy)]
pub struct ServicePlugin;

impl NodePlugin for ServicePlugin {
    const NAME: &'static str = "service";
    type Options = NoOptions;
    type Shared = ();

    fn configure(_: NoOptions, _: &DaemonContext, (): ()) -> Result<Self, PluginError> {
        Ok(Self)
    }

    fn agents(&self) -> Result<Vec<Agent>, AgentError> {
        Ok(vec![build_agent()?])
    }

    fn data_sources(&self) -> Result<Vec<ValidatedDataSource>, DataSourceError> {
        data_sources()
    }
}
