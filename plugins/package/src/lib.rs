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

use muster_api::{Agent, AgentError, DataSourceError, ValidatedDataSource, ddl};

/// The agent, with every action that its DDL declares.
pub fn build_agent() -> Result<Agent, AgentError> {
    let document = ddl::builtin_agent("package").unwrap_or_default();
    let queue = Arc::new(queue::PackageQueue::default());
    Agent::builder(document)?
        .with_action(actions::PackageInstallAction(Arc::clone(&queue)))
        .with_action(actions::PackageUpdateAction(Arc::clone(&queue)))
        .with_action(actions::PackageUninstallAction(Arc::clone(&queue)))
        .with_action(actions::PackagePurgeAction(Arc::clone(&queue)))
        .with_action(actions::PackageStatusAction)
        .with_action(actions::PackageCheckupdatesAction)
        .with_action(actions::PackageRefreshAction(queue))
        .build()
}

/// The data source `package`.
pub fn data_sources() -> Result<Vec<ValidatedDataSource>, DataSourceError> {
    Ok(vec![ValidatedDataSource::with_builtin_ddl(
        data::PackageDataSource,
    )?])
}
