//! `catalog` and `ledger`: apply whole catalogs to the node, and list the refreshes that are still owed.
//!
//! The engine does the work; this crate exposes it to callers. One run at a time, of the engine or of Puppet; a second one gets `busy`. An applied
//! catalog is kept, so that owed refreshes can be replayed later without sending the catalog again.

#![warn(missing_docs)]

mod actions;
mod data;
mod options;
mod runs;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use muster_api::{
    Agent, AgentError, DaemonContext, DataSourceError, NodePlugin, PluginError,
    ValidatedDataSource, ddl,
};

pub use options::Options;

/// Builds the agents: `ledger`, and `catalog` if the options enable it.
pub fn build_agents(options: Options) -> Result<Vec<Agent>, AgentError> {
    let is_enabled = options.enabled;
    let options = Arc::new(options);
    let mut agents = vec![build_ledger_agent(&options)?];
    if is_enabled {
        agents.push(build_catalog_agent(&options)?);
    }
    Ok(agents)
}

fn build_catalog_agent(options: &Arc<Options>) -> Result<Agent, AgentError> {
    Agent::builder(ddl::builtin_agent("catalog").unwrap_or_default())?
        .with_action(actions::CatalogApplyAction(Arc::clone(options)))
        .with_action(actions::CatalogPlanAction(Arc::clone(options)))
        .with_action(actions::CatalogLintAction)
        .build()
}

fn build_ledger_agent(options: &Arc<Options>) -> Result<Agent, AgentError> {
    Agent::builder(ddl::builtin_agent("ledger").unwrap_or_default())?
        .with_action(actions::LedgerListAction(Arc::clone(options)))
        .with_action(actions::LedgerReplayAction(Arc::clone(options)))
        .with_action(actions::LedgerDropAction(Arc::clone(options)))
        .build()
}

/// The data source `ledger`.
pub fn data_sources(options: Options) -> Result<Vec<ValidatedDataSource>, DataSourceError> {
    Ok(vec![ValidatedDataSource::with_builtin_ddl(data::LedgerDataSource(Arc::new(options)))?])
}

/// The agents `catalog` and `ledger` and the data source `ledger`.
#[derive(Debug, Clone)]
pub struct CatalogPlugin(Options);

impl CatalogPlugin {
    /// The options, with the state directory filled in.
    pub fn options(&self) -> &Options {
        &self.0
    }
}

impl NodePlugin for CatalogPlugin {
    const NAME: &'static str = "catalog";
    type Options = Options;
    type Shared = ();

    fn configure(
        mut options: Options,
        daemon: &DaemonContext,
        (): (),
    ) -> Result<Self, PluginError> {
        if options.state_dir.as_os_str().is_empty() {
            options.state_dir = daemon.state.join("engine");
        }
        Ok(Self(options))
    }

    fn agents(&self) -> Result<Vec<Agent>, AgentError> {
        build_agents(self.0.clone())
    }

    fn data_sources(&self) -> Result<Vec<ValidatedDataSource>, DataSourceError> {
        data_sources(self.0.clone())
    }
}
