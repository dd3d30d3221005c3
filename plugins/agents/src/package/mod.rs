//! `package`: installs, updates and removes packages, and lists installed and outdated ones.
//!
//! The engine selects the package tool and runs it. Changes on one node run one after the other, because the tool locks itself, each in a process
//! that outlives the daemon (`worker`); queries run concurrently. Upgrades of whole machines are not supported.

mod actions;
mod node_packages;
#[cfg(test)]
mod tests;
mod work;
pub mod worker;

use std::sync::Arc;

use muster_api::{
    Agent, AgentError, DaemonContext, DataSourceError, NoOptions, NoState, NodePlugin,
    PluginResult, ValidatedDataSource,
};
use muster_contract::package::{
    PackageAgent, PackageCheckupdates, PackageInstall, PackagePurge, PackageRefresh, PackageStatus,
    PackageUninstall, PackageUpdate,
};

use actions::{PackageChanges, remove_package};
pub use worker::PackageWorkers;

/// The agent and the data source `package`.
#[derive(Debug, Clone)]
pub struct PackagePlugin(Arc<PackageWorkers>);

impl PackagePlugin {
    /// An agent that changes packages in this process, for machines that are simulated.
    pub fn create_agent() -> Result<Agent, AgentError> {
        build_agent(&PackageChanges::default())
    }

    fn create_data_sources() -> Result<Vec<ValidatedDataSource>, DataSourceError> {
        Ok(vec![ValidatedDataSource::blocking(Self::NAME, &NoState, actions::find_package)?])
    }
}

impl NodePlugin for PackagePlugin {
    const NAME: &'static str = "package";
    type Options = NoOptions;
    type Shared = Arc<PackageWorkers>;

    fn configure(_: NoOptions, _: &DaemonContext, workers: Self::Shared) -> PluginResult<Self> {
        Ok(Self(workers))
    }

    fn build_agent(&self) -> Result<Agent, AgentError> {
        build_agent(&PackageChanges::in_workers(Arc::clone(&self.0)))
    }

    fn data_sources(&self) -> Result<Vec<ValidatedDataSource>, DataSourceError> {
        Self::create_data_sources()
    }
}

fn build_agent(changes: &PackageChanges) -> Result<Agent, AgentError> {
    Agent::builder_for::<PackageAgent>()?
        .action(PackageInstall, changes, actions::install_package)
        .action(PackageUpdate, changes, actions::update_package)
        .action(PackageUninstall, changes, |changes, cx, input| {
            remove_package(changes, cx, input, "absent")
        })
        .action(PackagePurge, changes, |changes, cx, input| {
            remove_package(changes, cx, input, "purged")
        })
        .blocking_action(PackageStatus, &NoState, actions::query_package)
        .blocking_action(PackageCheckupdates, &NoState, actions::list_updates)
        .action(PackageRefresh, changes, actions::refresh_lists)
        .build()
}
