//! The actions of `rpcutil`, one module each.

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

pub(crate) use agent_inventory::RpcutilAgentInventoryAction;
pub(crate) use cancel::{RpcutilCancelAction, RpcutilCancelAnyAction};
pub(crate) use collective_info::RpcutilCollectiveInfoAction;
pub(crate) use daemon_stats::RpcutilDaemonStatsAction;
pub(crate) use ddl::RpcutilDdlAction;
pub(crate) use diagnose::RpcutilDiagnoseAction;
pub(crate) use get_config_item::RpcutilGetConfigItemAction;
pub(crate) use get_data::RpcutilGetDataAction;
pub(crate) use get_fact::RpcutilGetFactAction;
pub(crate) use get_facts::RpcutilGetFactsAction;
pub(crate) use inventory::RpcutilInventoryAction;
pub(crate) use ping::RpcutilPingAction;
pub(crate) use running::RpcutilRunningAction;

use muster_api::CallContext;
use serde::Deserialize;

/// The version of the daemon. All crates of the workspace share it.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The input of an action that takes none.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct EmptyInput {}

/// The names of the agents that the node offers, sorted.
fn agent_names(cx: &CallContext) -> Vec<String> {
    let mut names: Vec<String> = cx.node.agent_infos().into_iter().map(|info| info.agent).collect();
    names.sort_unstable();
    names
}

/// The node's collectives, the main one first.
fn collective_names(cx: &CallContext) -> Vec<String> {
    let names = cx.node.collectives().iter();
    names.map(|name| name.as_str().to_owned()).collect()
}
