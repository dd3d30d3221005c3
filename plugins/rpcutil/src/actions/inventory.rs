//! `inventory`: returns agents, facts, classes, collectives and other node data in one reply.

use muster_api::{ActionError, AgentAction, CallContext};
use serde::Serialize;
use serde_json::{Map, Value};

use super::EmptyInput;
use super::agent_inventory::AgentProblemRow;

pub(crate) struct RpcutilInventoryAction;

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct RpcutilInventoryOutput {
    agents: Vec<String>,
    facts: Map<String, Value>,
    classes: Vec<String>,
    version: String,
    main_collective: Option<String>,
    collectives: Vec<String>,
    data_plugins: Vec<String>,
    agent_problems: Vec<AgentProblemRow>,
}

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
            agent_problems: cx
                .node
                .agent_problems()
                .into_iter()
                .map(AgentProblemRow::from)
                .collect(),
            data_plugins: sources.map(|source| source.name().to_owned()).collect(),
        })
    }
}
