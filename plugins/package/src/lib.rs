//! `package`: installs, updates and removes packages, and lists installed and outdated ones.
//!
//! The engine selects the package tool and runs it. Changes on one node run one after the other, because the tool locks itself; queries run
//! concurrently. Upgrades of whole machines are not supported.

#![warn(missing_docs)]

mod actions;
mod data;
mod package;
mod queue;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use muster_api::{
    Agent, AgentError, DaemonContext, DataSourceError, NoOptions, NodePlugin, PluginError,
    ValidatedDataSource, ddl,
};

/// Builds the agent with every action that its DDL declares.
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
    Ok(vec![ValidatedDataSource::with_builtin_ddl(data::PackageDataSource)?])
}

/// The agent and the data source `package`.
#[derive(Debug, Clone, Copy)]
pub struct PackagePlugin;

impl NodePlugin for PackagePlugin {
    const NAME: &'static str = "package";
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
