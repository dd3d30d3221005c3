//! `agent_inventory`: returns the metadata of every agent.

use muster_api::{ActionError, AgentAction, AgentInfo, AgentProblem, CallContext};
use muster_contract::rpcutil::AgentProblemRow;
use serde::Serialize;

use super::EmptyInput;

pub(crate) struct RpcutilAgentInventoryAction;

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct RpcutilAgentInventoryOutput {
    agents: Vec<AgentInventoryRow>,
    /// Agents that cannot be loaded because of their files.
    problems: Vec<AgentProblemRow>,
}

/// Agents of the node that could not be loaded.
pub(super) fn list_agent_problems(cx: &CallContext) -> Vec<AgentProblemRow> {
    let row = |problem: AgentProblem| AgentProblemRow {
        agent: problem.agent,
        path: problem.path,
        problem: problem.problem,
    };
    cx.node.agent_problems().into_iter().map(row).collect()
}

/// One agent. `name` repeats `agent`, because `MCollective` answers both.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct AgentInventoryRow {
    agent: String,
    name: String,
    description: String,
    author: String,
    license: String,
    version: String,
    url: String,
    /// In seconds.
    timeout: u64,
    provider: String,
}

impl From<AgentInfo> for AgentInventoryRow {
    fn from(info: AgentInfo) -> Self {
        Self {
            name: info.agent.clone(),
            agent: info.agent,
            description: info.description,
            author: info.author,
            license: info.license,
            version: info.version,
            url: info.url,
            timeout: info.timeout,
            provider: info.provider,
        }
    }
}

impl AgentAction for RpcutilAgentInventoryAction {
    const NAME: &'static str = "agent_inventory";
    const ANSWERS_IMMEDIATELY: bool = true;
    type Input = EmptyInput;
    type Output = RpcutilAgentInventoryOutput;

    async fn run(
        &self,
        cx: &CallContext,
        _: EmptyInput,
    ) -> Result<RpcutilAgentInventoryOutput, ActionError> {
        let mut agents: Vec<AgentInventoryRow> =
            cx.node.agent_infos().into_iter().map(AgentInventoryRow::from).collect();
        agents.sort_unstable_by(|one, other| one.agent.cmp(&other.agent));
        Ok(RpcutilAgentInventoryOutput { agents, problems: list_agent_problems(cx) })
    }
}
