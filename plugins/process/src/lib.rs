//! `process`: what runs on the machine, as `/proc` tells it. A data source, and an agent.
//!
//! Reads, and signals whom the agent's `kill` is asked to; never process 1, nor the daemon itself.

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

/// The agent, with every action that its DDL declares.
pub fn build_agent() -> Result<Agent, AgentError> {
    let document = ddl::builtin_agent("process").unwrap_or_default();
    Agent::builder(document)?
        .with_action(actions::ProcessListAction)
        .with_action(actions::ProcessSummaryAction)
        .with_action(actions::ProcessKillAction)
        .build()
}
