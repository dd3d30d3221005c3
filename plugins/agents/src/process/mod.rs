//! `process`: the processes of the machine as read from `/proc`, as a data source and an agent.
//!
//! Reads only, except for the action `kill`, which never signals process 1 or the daemon itself.

mod actions;
mod data;
mod table;
#[cfg(test)]
mod tests;

use muster_api::{
    Agent, AgentError, DataSourceError, NoState, StatelessPlugin, ValidatedDataSource,
};
use muster_contract::process::{ProcessAgent, ProcessKill, ProcessList, ProcessSummary};

use actions::{kill, list, summary};

/// The agent and the data source `process`.
#[derive(Debug, Default, Clone, Copy)]
pub struct ProcessPlugin;

impl StatelessPlugin for ProcessPlugin {
    const NAME: &'static str = "process";

    fn create_agent() -> Result<Agent, AgentError> {
        Agent::builder_for::<ProcessAgent>()?
            .blocking_action(ProcessList, &NoState, list::list_processes)
            .blocking_action(ProcessSummary, &NoState, summary::summarise_processes)
            .blocking_action(ProcessKill, &NoState, kill::signal_processes)
            .build()
    }

    fn create_data_sources() -> Result<Vec<ValidatedDataSource>, DataSourceError> {
        Ok(vec![ValidatedDataSource::blocking(Self::NAME, &NoState, data::count_processes)?])
    }
}
