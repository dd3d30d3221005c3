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

use muster_api::{Agent, AgentError, Data, DataError, ddl};

/// The data source `process`.
pub fn data_sources() -> Result<Vec<Data>, DataError> {
    Ok(vec![Data::builtin(data::ProcessData)?])
}

/// The agent, with every action that its DDL declares.
pub fn agent() -> Result<Agent, AgentError> {
    let document = ddl::builtin("process").unwrap_or_default();
    Agent::builder(document)?
        .action(actions::List)
        .action(actions::Summary)
        .action(actions::Kill)
        .build()
}
