//! `package`: installs, updates and removes packages, and lists installed and outdated ones.
//!
//! The engine selects the package tool and runs it. Changes on one node run one after the other, because the tool locks itself; queries run
//! concurrently. Upgrades of whole machines are not supported.

#![warn(missing_docs)]

mod actions;
mod package;
#[cfg(test)]
mod tests;

use muster_api::{
    Agent, AgentError, DataSourceError, NoState, StatelessPlugin, ValidatedDataSource,
};

use actions::{PackageQueue, remove_package};

/// The agent and the data source `package`.
#[derive(Debug, Default, Clone, Copy)]
pub struct PackagePlugin;

impl StatelessPlugin for PackagePlugin {
    const NAME: &'static str = "package";

    fn create_agent() -> Result<Agent, AgentError> {
        let queue = PackageQueue::default();
        Agent::builtin(Self::NAME)?
            .action("install", &queue, actions::install_package)
            .action("update", &queue, actions::update_package)
            .action("uninstall", &queue, |queue, cx, input| {
                remove_package(queue, cx, input, "absent")
            })
            .action("purge", &queue, |queue, cx, input| remove_package(queue, cx, input, "purged"))
            .blocking_action("status", &NoState, actions::query_package)
            .blocking_action("checkupdates", &NoState, actions::list_updates)
            .action("refresh", &queue, actions::refresh_lists)
            .build()
    }

    fn create_data_sources() -> Result<Vec<ValidatedDataSource>, DataSourceError> {
        Ok(vec![ValidatedDataSource::blocking(Self::NAME, &NoState, actions::find_package)?])
    }
}
