//! `rpcutil`: information about the node and its daemon, which every node offers, and the built-in data sources.
//!
//! No action of this agent changes the machine; `cancel` and `cancel_any` cancel other requests. Daemon data comes from
//! [`muster_api::NodeHandle`] and files are read through [`muster_api::system::System`]; the one exception is the daemon's own entry
//! in `/proc`.

#![warn(missing_docs)]

mod actions;
mod data;
mod secret;
#[cfg(test)]
mod tests;

use muster_api::{
    Agent, AgentError, DaemonContext, DataSourceError, NoOptions, NodePlugin, PluginError,
    ValidatedDataSource, ddl,
};

/// Builds the agent with every action that its DDL declares.
pub fn build_agent() -> Result<Agent, AgentError> {
    let document = ddl::builtin_agent("rpcutil").unwrap_or_default();
    Agent::builder(document)?
        .with_action(actions::RpcutilPingAction)
        .with_action(actions::RpcutilInventoryAction)
        .with_action(actions::RpcutilGetFactAction)
        .with_action(actions::RpcutilGetFactsAction)
        .with_action(actions::RpcutilDaemonStatsAction)
        .with_action(actions::RpcutilAgentInventoryAction)
        .with_action(actions::RpcutilDdlAction)
        .with_action(actions::RpcutilCollectiveInfoAction)
        .with_action(actions::RpcutilGetConfigItemAction)
        .with_action(actions::RpcutilGetDataAction)
        .with_action(actions::RpcutilRunningAction)
        .with_action(actions::RpcutilCancelAction)
        .with_action(actions::RpcutilCancelAnyAction)
        .with_action(actions::RpcutilDiagnoseAction)
        .build()
}

/// The data sources that every node offers, sorted by name.
pub fn data_sources() -> Result<Vec<ValidatedDataSource>, DataSourceError> {
    Ok(vec![
        ValidatedDataSource::with_builtin_ddl(data::AgentDataSource)?,
        ValidatedDataSource::with_builtin_ddl(data::ClassDataSource)?,
        ValidatedDataSource::with_builtin_ddl(data::CollectiveDataSource)?,
        ValidatedDataSource::with_builtin_ddl(data::ConfigItemDataSource)?,
        ValidatedDataSource::with_builtin_ddl(data::FactDataSource)?,
        ValidatedDataSource::with_builtin_ddl(data::FstatDataSource)?,
    ])
}

/// The agent `rpcutil` and the data sources that every node offers.
#[derive(Debug, Clone, Copy)]
pub struct RpcutilPlugin;

impl NodePlugin for RpcutilPlugin {
    const NAME: &'static str = "rpcutil";
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
