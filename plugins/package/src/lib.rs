//! `package`: installs, updates and removes packages, and tells what is there and what is outdated.
//!
//! Which tool there is, and how it is spoken to, is the engine's knowledge. Changes on one node follow each other, as
//! the tool locks itself; who only looks waits for nobody. Upgrades of whole machines are not done here.

#![warn(missing_docs)]

mod actions;
mod data;
mod package;
mod queue;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use muster_api::{Agent, AgentError, Data, DataError, ddl};

/// The agent, with every action that its DDL declares.
pub fn agent() -> Result<Agent, AgentError> {
    let document = ddl::builtin("package").unwrap_or_default();
    let queue = Arc::new(queue::Queue::default());
    Agent::builder(document)?
        .action(actions::Install(Arc::clone(&queue)))
        .action(actions::Update(Arc::clone(&queue)))
        .action(actions::Uninstall(Arc::clone(&queue)))
        .action(actions::Purge(Arc::clone(&queue)))
        .action(actions::Status)
        .action(actions::Checkupdates)
        .action(actions::Refresh(queue))
        .build()
}

/// The data source `package`.
pub fn data_sources() -> Result<Vec<Data>, DataError> {
    Ok(vec![Data::builtin(data::PackageData)?])
}
