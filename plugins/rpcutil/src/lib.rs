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

use std::future::ready;

use muster_api::{
    Agent, AgentError, CallContext, DataSourceError, EmptyInput, NoState, StatelessPlugin,
    ValidatedDataSource,
};

use actions::requests::RpcutilCancelInput;
use actions::{daemon, ddl, facts, get_data, inventory, requests};
use data::{fstat, memory};

/// The agent `rpcutil` and the data sources that every node offers.
#[derive(Debug, Default, Clone, Copy)]
pub struct RpcutilPlugin;

impl StatelessPlugin for RpcutilPlugin {
    const NAME: &'static str = "rpcutil";

    fn create_agent() -> Result<Agent, AgentError> {
        Agent::builtin(Self::NAME)?
            .immediate_action("ping", &NoState, daemon::answer_ping)
            .immediate_action("inventory", &NoState, inventory::collect_inventory)
            .immediate_action("get_fact", &NoState, facts::get_fact)
            .immediate_action("get_facts", &NoState, facts::get_facts)
            .blocking_action("daemon_stats", &NoState, |_, cx, _: EmptyInput| {
                Ok(daemon::measure_daemon(cx))
            })
            .immediate_action("agent_inventory", &NoState, inventory::list_agents)
            .blocking_action("ddl", &NoState, ddl::read_agent_ddl)
            .immediate_action("collective_info", &NoState, inventory::list_collectives)
            .immediate_action("get_config_item", &NoState, daemon::get_config_item)
            .action("get_data", &NoState, get_data::get_data)
            .immediate_action("running", &NoState, requests::list_running)
            .action("cancel", &NoState, |_, cx: CallContext, input: RpcutilCancelInput| {
                ready(requests::cancel_request(&cx, &input, Some(&cx.owner())))
            })
            .action("cancel_any", &NoState, |_, cx: CallContext, input: RpcutilCancelInput| {
                ready(requests::cancel_request(&cx, &input, None))
            })
            .blocking_action("diagnose", &NoState, |_, cx, _: EmptyInput| {
                Ok(daemon::diagnose_node(cx))
            })
            .build()
    }

    /// The data sources that every node offers, sorted by name.
    fn create_data_sources() -> Result<Vec<ValidatedDataSource>, DataSourceError> {
        Ok(vec![
            ValidatedDataSource::immediate("agent", memory::find_agent)?,
            ValidatedDataSource::immediate("class", memory::find_class)?,
            ValidatedDataSource::immediate("collective", memory::find_collective)?,
            ValidatedDataSource::immediate("config_item", memory::find_config_item)?,
            ValidatedDataSource::immediate("fact", memory::find_fact)?,
            ValidatedDataSource::blocking("fstat", &NoState, fstat::describe_path)?,
        ])
    }
}
