//! `inventory`: returns agents, facts, classes, collectives and other node data in one reply.

use muster_api::{ActionError, AgentAction, CallContext};
use muster_contract::rpcutil::RpcutilInventoryOutput;

use super::EmptyInput;
use super::agent_inventory::list_agent_problems;

pub(crate) struct RpcutilInventoryAction;

impl AgentAction for RpcutilInventoryAction {
    const NAME: &'static str = "inventory";
    const ANSWERS_IMMEDIATELY: bool = true;
    type Input = EmptyInput;
    type Output = RpcutilInventoryOutput;

    async fn run(
        &self,
        cx: &CallContext,
        _: EmptyInput,
    ) -> Result<RpcutilInventoryOutput, ActionError> {
        let collectives = super::collective_names(cx);
        let sources = cx.node.data_sources().iter();
        Ok(RpcutilInventoryOutput {
            agents: super::agent_names(cx),
            facts: cx.node.facts().as_map().clone(),
            classes: cx.node.classes().to_vec(),
            version: super::VERSION.to_owned(),
            main_collective: collectives.first().cloned(),
            collectives,
            agent_problems: list_agent_problems(cx),
            data_plugins: sources.map(|source| source.name().to_owned()).collect(),
        })
    }
}
