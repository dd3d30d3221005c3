//! `catalog` and `ledger`: apply whole catalogs to the node, and list the refreshes that are still owed.
//!
//! The engine does the work; this crate exposes it to callers. One run at a time, of the engine or of Puppet; a second one gets `busy`. An applied
//! catalog is kept, so that owed refreshes can be replayed later without sending the catalog again.

mod catalog_actions;
mod ledger_actions;
mod options;
pub(crate) mod runs;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use muster_api::{
    Agent, AgentError, DaemonContext, DataSourceError, NodePlugin, PluginResult, StateSource,
    ValidatedDataSource,
};
use muster_contract::catalog::{CatalogAgent, CatalogApply, CatalogLint, CatalogPlan};
use muster_contract::ledger::{LedgerAgent, LedgerDrop, LedgerList, LedgerReplay};

pub use options::Options;

use catalog_actions::{lint_catalog, run_catalog};
use ledger_actions::{LedgerStateSource, drop_owed, list_owed, replay_owed, summarise_owed};

/// The agents `catalog` and `ledger` and the data source `ledger`.
#[derive(Debug, Clone)]
pub struct CatalogPlugin(Arc<Options>);

impl CatalogPlugin {
    /// The options, with the state directory filled in.
    pub fn options(&self) -> &Arc<Options> {
        &self.0
    }
}

impl NodePlugin for CatalogPlugin {
    const NAME: &'static str = "catalog";
    type Options = Options;
    type Shared = ();

    fn configure(mut options: Options, daemon: &DaemonContext, (): ()) -> PluginResult<Self> {
        if options.state_dir.as_os_str().is_empty() {
            options.state_dir = daemon.state.join("engine");
        }
        Ok(Self(Arc::new(options)))
    }

    /// The agent `ledger`.
    fn build_agent(&self) -> Result<Agent, AgentError> {
        Agent::builder_for::<LedgerAgent>()?
            .blocking_action(LedgerList, &self.0, list_owed)
            .blocking_action(LedgerReplay, &self.0, replay_owed)
            .blocking_action(LedgerDrop, &self.0, drop_owed)
            .build()
    }

    /// The agents `ledger`, and `catalog` if the options enable it.
    fn agents(&self) -> Result<Vec<Agent>, AgentError> {
        let mut agents = vec![self.build_agent()?];
        if self.0.enabled {
            agents.push(build_catalog_agent(&self.0)?);
        }
        Ok(agents)
    }

    fn data_sources(&self) -> Result<Vec<ValidatedDataSource>, DataSourceError> {
        Ok(vec![ValidatedDataSource::blocking("ledger", &self.0, summarise_owed)?])
    }

    fn state_sources(&self) -> Vec<Arc<dyn StateSource>> {
        vec![Arc::new(LedgerStateSource(Arc::clone(&self.0)))]
    }
}

fn build_catalog_agent(options: &Arc<Options>) -> Result<Agent, AgentError> {
    Agent::builder_for::<CatalogAgent>()?
        .blocking_action(CatalogApply, options, |options, cx, input| {
            run_catalog(options, cx, input.run, input.noop == Some(true))
        })
        .blocking_action(CatalogPlan, options, |options, cx, input| {
            run_catalog(options, cx, input, true)
        })
        .blocking_action(CatalogLint, options, lint_catalog)
        .build()
}
