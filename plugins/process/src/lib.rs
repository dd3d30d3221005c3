//! `process`: the processes of the machine as read from `/proc`, as a data source and an agent.
//!
//! Reads only, except for the action `kill`, which never signals process 1 or the daemon itself.

#![warn(missing_docs)]

mod actions;
#[cfg(test)]
mod agent_tests;
mod data;
mod table;
#[cfg(test)]
mod tests;

use muster_api::{Agent, AgentError, DataSourceError, ValidatedDataSource, ddl};

/// The data source `process`.
pub fn data_sources() -> Result<Vec<ValidatedDataSource>, DataSourceError> {
    Ok(vec![ValidatedDataSource::with_builtin_ddl(
        data::ProcessDataSource,
    )?])
}

/// Builds the agent with every action that its DDL declares.
pub fn build_agent() -> Result<Agent, AgentError> {
    let document = ddl::builtin_agent("process").unwrap_or_default();
    Agent::builder(document)?
        .with_action(actions::ProcessListAction)
        .with_action(actions::ProcessSummaryAction)
        .with_action(actions::ProcessKillAction)
        .build()
}
