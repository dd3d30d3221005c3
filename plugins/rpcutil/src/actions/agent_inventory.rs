//! `agent_inventory`: the metadata of every agent.

use muster_api::{Action, ActionError, AgentInfo, AgentProblem, Context};
use serde::Serialize;

use super::Nothing;

pub(crate) struct AgentInventory;

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct Output {
    agents: Vec<Entry>,
    /// Agents that cannot be offered as their files are.
    problems: Vec<Trouble>,
}

/// What is wrong with the files of one agent.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct Trouble {
    agent: String,
    path: String,
    problem: String,
}

impl From<AgentProblem> for Trouble {
    fn from(found: AgentProblem) -> Self {
        Self {
            agent: found.agent,
            path: found.path,
            problem: found.problem,
        }
    }
}

/// One agent. `name` repeats `agent`, because `MCollective` answers both.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct Entry {
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

impl From<AgentInfo> for Entry {
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

impl Action for AgentInventory {
    const NAME: &'static str = "agent_inventory";
    const AT_ONCE: bool = true;
    type Input = Nothing;
    type Output = Output;

    async fn run(&self, cx: &Context, _: Nothing) -> Result<Output, ActionError> {
        let mut agents: Vec<Entry> = cx.node.agents().into_iter().map(Entry::from).collect();
        agents.sort_unstable_by(|one, other| one.agent.cmp(&other.agent));
        let problems = cx.node.agent_problems().into_iter().map(Trouble::from);
        Ok(Output {
            agents,
            problems: problems.collect(),
        })
    }
}
