//! `service`: starts, stops and restarts what runs in the background, and tells whether it runs.
//!
//! Which init system there is, and how it is spoken to, is the engine's knowledge. Nothing here says what happens at boot:
//! that is a state to be kept, and a resource for `puppetral`. A service that the machine does not know is a failure.

#![warn(missing_docs)]

mod actions;
mod data;
mod service;
#[cfg(test)]
mod tests;

use muster_api::{Agent, AgentError, DataSourceError, ValidatedDataSource, ddl};

/// The agent, with every action that its DDL declares.
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
    Ok(vec![ValidatedDataSource::with_builtin_ddl(
        data::ServiceDataSource,
    )?])
}
