//! `rpcutil`: information about the node and its daemon, which every node offers, and the built-in data sources.
//!
//! No action of this agent changes the machine; `cancel` and `cancel_any` cancel other requests. Daemon data comes from
//! [`muster_api::NodeHandle`] and files are read through [`muster_api::system::System`]; the one exception is the daemon's own entry
//! in `/proc`.

mod actions;
mod data;
mod secret;
#[cfg(test)]
mod tests;

use std::future::ready;

use muster_api::{
    Agent, AgentError, DataSourceError, NoState, StatelessPlugin, ValidatedDataSource,
};
use muster_contract::rpcutil::{
    RpcutilAgent, RpcutilAgentInventory, RpcutilCancel, RpcutilCancelAny, RpcutilCollectiveInfo,
    RpcutilDaemonStats, RpcutilDdl, RpcutilDiagnose, RpcutilGetConfigItem, RpcutilGetData,
    RpcutilGetFact, RpcutilGetFacts, RpcutilInventory, RpcutilPing, RpcutilRunning,
};

use actions::{daemon, ddl, facts, get_data, inventory, requests};
use data::{fstat, memory};

/// The agent `rpcutil` and the data sources that every node offers.
#[derive(Debug, Default, Clone, Copy)]
pub struct RpcutilPlugin;

impl StatelessPlugin for RpcutilPlugin {
    const NAME: &'static str = "rpcutil";

    fn create_agent() -> Result<Agent, AgentError> {
        Agent::builder_for::<RpcutilAgent>()?
            .immediate_action(RpcutilPing, &NoState, daemon::answer_ping)
            .immediate_action(RpcutilInventory, &NoState, inventory::collect_inventory)
            .immediate_action(RpcutilGetFact, &NoState, facts::get_fact)
            .immediate_action(RpcutilGetFacts, &NoState, facts::get_facts)
            .blocking_action(RpcutilDaemonStats, &NoState, |_, cx, _| {
                Ok(daemon::measure_daemon(cx))
            })
            .immediate_action(RpcutilAgentInventory, &NoState, inventory::list_agents)
            .blocking_action(RpcutilDdl, &NoState, ddl::read_agent_ddl)
            .immediate_action(RpcutilCollectiveInfo, &NoState, inventory::list_collectives)
            .immediate_action(RpcutilGetConfigItem, &NoState, daemon::get_config_item)
            .action(RpcutilGetData, &NoState, get_data::get_data)
            .immediate_action(RpcutilRunning, &NoState, requests::list_running)
            .action(RpcutilCancel, &NoState, |_, cx, input| {
                ready(requests::cancel_request(&cx, &input, Some(&cx.owner())))
            })
            .action(RpcutilCancelAny, &NoState, |_, cx, input| {
                ready(requests::cancel_request(&cx, &input, None))
            })
            .blocking_action(RpcutilDiagnose, &NoState, |_, cx, _| Ok(daemon::diagnose_node(cx)))
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
