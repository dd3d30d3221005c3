//! `rpcutil`: what every node can tell about itself and its daemon, and the data sources that come with it.
//!
//! No action of this agent changes the machine; `cancel` and `cancel_any` take requests back that others do. What the daemon knows comes from [`muster_api::Node`], files come
//! through [`muster_api::system::System`]; the one exception is the daemon's own entry in `/proc`.

#![warn(missing_docs)]

mod actions;
mod data;
mod secret;
#[cfg(test)]
mod tests;

use muster_api::{Agent, AgentError, Data, DataError, ddl};

/// The agent, with every action that its DDL declares.
pub fn agent() -> Result<Agent, AgentError> {
    let document = ddl::builtin("rpcutil").unwrap_or_default();
    Agent::builder(document)?
        .action(actions::Ping)
        .action(actions::Inventory)
        .action(actions::GetFact)
        .action(actions::GetFacts)
        .action(actions::DaemonStats)
        .action(actions::AgentInventory)
        .action(actions::Ddl)
        .action(actions::CollectiveInfo)
        .action(actions::GetConfigItem)
        .action(actions::GetData)
        .action(actions::Running)
        .action(actions::Cancel)
        .action(actions::CancelAny)
        .action(actions::Diagnose)
        .build()
}

/// The data sources that every node offers, sorted by name.
pub fn data_sources() -> Result<Vec<Data>, DataError> {
    Ok(vec![
        Data::builtin(data::Agent)?,
        Data::builtin(data::Class)?,
        Data::builtin(data::Collective)?,
        Data::builtin(data::ConfigItem)?,
        Data::builtin(data::Fact)?,
        Data::builtin(data::Fstat)?,
    ])
}
