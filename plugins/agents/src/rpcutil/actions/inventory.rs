//! `inventory`, `collective_info` and `agent_inventory`: what the node offers and belongs to.

use muster_api::ddl::{AgentDdl, DdlMetadata};
use muster_api::{AgentProblem, CallContext, EmptyInput, NoState};
use muster_contract::rpcutil::{
    AgentInventoryRow, AgentProblemRow, RpcutilAgentInventoryOutput, RpcutilCollectiveInfoOutput,
    RpcutilInventoryOutput,
};

/// Returns agents, facts, classes, collectives and other node data in one reply.
pub(crate) fn collect_inventory(
    _: &NoState,
    cx: &CallContext,
    _: EmptyInput,
) -> RpcutilInventoryOutput {
    let collectives = collective_names(cx);
    let sources = cx.node.data_sources().iter();
    RpcutilInventoryOutput {
        agents: agent_names(cx),
        facts: cx.node.facts().as_map().clone(),
        classes: cx.node.classes().to_vec(),
        state: cx.node.state().map(|state| state.as_map().clone()),
        version: super::VERSION.to_owned(),
        main_collective: collectives.first().cloned(),
        collectives,
        agent_problems: list_agent_problems(cx),
        data_plugins: sources.map(|source| source.name().to_owned()).collect(),
    }
}

pub(crate) fn list_collectives(
    _: &NoState,
    cx: &CallContext,
    _: EmptyInput,
) -> RpcutilCollectiveInfoOutput {
    let collectives = collective_names(cx);
    RpcutilCollectiveInfoOutput { main_collective: collectives.first().cloned(), collectives }
}

/// Returns the metadata of every agent.
pub(crate) fn list_agents(
    _: &NoState,
    cx: &CallContext,
    _: EmptyInput,
) -> RpcutilAgentInventoryOutput {
    let mut ddls = cx.node.agent_ddls();
    ddls.sort_unstable_by(|one, other| one.name().cmp(other.name()));
    RpcutilAgentInventoryOutput {
        agents: ddls.iter().map(|ddl| agent_row(ddl)).collect(),
        problems: list_agent_problems(cx),
    }
}

fn agent_row(ddl: &AgentDdl) -> AgentInventoryRow {
    let DdlMetadata { name, description, author, license, version, url, timeout, .. } =
        ddl.metadata().clone();
    let (agent, provider) = (name.clone(), ddl.provider().to_owned());
    AgentInventoryRow { name, agent, description, author, license, version, url, timeout, provider }
}

/// The names of the agents that the node offers, sorted.
pub(super) fn agent_names(cx: &CallContext) -> Vec<String> {
    let ddls = cx.node.agent_ddls();
    let mut names: Vec<String> = ddls.iter().map(|ddl| ddl.name().to_owned()).collect();
    names.sort_unstable();
    names
}

/// The node's collectives, the main one first.
fn collective_names(cx: &CallContext) -> Vec<String> {
    cx.node.collectives().iter().map(ToString::to_string).collect()
}

/// Agents of the node that could not be loaded.
fn list_agent_problems(cx: &CallContext) -> Vec<AgentProblemRow> {
    let row = |AgentProblem { agent, path, problem }| AgentProblemRow {
        agent,
        path: path.into(),
        problem: problem.into(),
    };
    cx.node.agent_problems().into_iter().map(row).collect()
}
