//! `process`: the processes of the machine as read from `/proc`, as a data source and an agent.
//!
//! Reads only, except for the action `kill`, which never signals process 1 or the daemon itself.

#![warn(missing_docs)]

mod actions;
#[cfg(test)]
mod agent_tests;
mod data;
mod table;
#[cfg(test)]
mod tests;

use muster_api::{
    Agent, AgentError, DaemonContext, DataSourceError, NoOptions, NodePlugin, PluginError,
    ValidatedDataSource, ddl,
};

/// The data source `process`.
pub fn data_sources() -> Result<Vec<ValidatedDataSource>, DataSourceError> {
    Ok(vec![ValidatedDataSource::with_builtin_ddl(data::ProcessDataSource)?])
}

/// Builds the agent with every action that its DDL declares.
pub fn build_agent() -> Result<Agent, AgentError> {
    let document = ddl::builtin_agent("process").unwrap_or_default();
    Agent::builder(document)?
        .with_action(actions::ProcessListAction)
        .with_action(actions::ProcessSummaryAction)
        .with_action(actions::ProcessKillAction)
        .build()
}

/// The agent and the data source `process`.
#[derive(Debug, Clone, Copy)]
pub struct ProcessPlugin;

impl NodePlugin for ProcessPlugin {
    const NAME: &'static str = "process";
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
