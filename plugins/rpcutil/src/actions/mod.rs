//! One file per action.

mod agent_inventory;
mod cancel;
mod collective_info;
mod daemon_stats;
mod ddl;
mod diagnose;
mod get_config_item;
mod get_data;
mod get_fact;
mod get_facts;
mod inventory;
mod ping;
mod running;

pub(crate) use agent_inventory::AgentInventory;
pub(crate) use cancel::{Cancel, CancelAny};
pub(crate) use collective_info::CollectiveInfo;
pub(crate) use daemon_stats::DaemonStats;
pub(crate) use ddl::Ddl;
pub(crate) use diagnose::Diagnose;
pub(crate) use get_config_item::GetConfigItem;
pub(crate) use get_data::GetData;
pub(crate) use get_fact::GetFact;
pub(crate) use get_facts::GetFacts;
pub(crate) use inventory::Inventory;
pub(crate) use ping::Ping;
pub(crate) use running::Running;

use muster_api::Context;
use serde::Deserialize;

/// The version of the daemon: all crates of the workspace share one.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The input of an action that takes none.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Nothing {}

/// The names of the agents that the node offers, sorted.
fn agents(cx: &Context) -> Vec<String> {
    let mut names: Vec<String> = cx
        .node
        .agents()
        .into_iter()
        .map(|info| info.agent)
        .collect();
    names.sort_unstable();
    names
}

/// The node's collectives, the main one first.
fn collectives(cx: &Context) -> Vec<String> {
    let names = cx.node.collectives().iter();
    names.map(|name| name.as_str().to_owned()).collect()
}
