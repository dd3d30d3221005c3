//! `catalog` and `ledger`: applies whole catalogs to the node, and shows the refreshes that are still owed.
//!
//! The engine does the work; here it is offered to callers. One run at a time, ours or Puppet's: who comes second is told `busy`.
//! A catalog that was applied is kept, so that what is owed can be paid later without being sent again.

#![warn(missing_docs)]

mod actions;
mod data;
mod options;
mod runs;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use muster_api::{Agent, AgentError, Data, DataError, ddl};

pub use options::Options;

/// The agents: `ledger`, and `catalog` where the options enable it.
pub fn agents(options: Options) -> Result<Vec<Agent>, AgentError> {
    let is_enabled = options.enabled;
    let options = Arc::new(options);
    let mut agents = vec![ledger(&options)?];
    if is_enabled {
        agents.push(catalog(&options)?);
    }
    Ok(agents)
}

fn catalog(options: &Arc<Options>) -> Result<Agent, AgentError> {
    Agent::builder(ddl::builtin("catalog").unwrap_or_default())?
        .action(actions::Apply(Arc::clone(options)))
        .action(actions::Plan(Arc::clone(options)))
        .action(actions::Lint)
        .build()
}

fn ledger(options: &Arc<Options>) -> Result<Agent, AgentError> {
    Agent::builder(ddl::builtin("ledger").unwrap_or_default())?
        .action(actions::List(Arc::clone(options)))
        .action(actions::Replay(Arc::clone(options)))
        .action(actions::Drop(Arc::clone(options)))
        .build()
}

/// The data source `ledger`.
pub fn data_sources(options: Options) -> Result<Vec<Data>, DataError> {
    Ok(vec![Data::builtin(data::LedgerData(Arc::new(options)))?])
}
