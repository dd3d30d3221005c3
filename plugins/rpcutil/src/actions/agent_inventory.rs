//! `agent_inventory`: the metadata of every agent.

use muster_api::{Action, ActionError, AgentInfo, Context};
use serde::Serialize;

use super::Nothing;

pub(crate) struct AgentInventory;

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct Output {
    agents: Vec<Entry>,
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
        }
    }
}

impl Action for AgentInventory {
    const NAME: &'static str = "agent_inventory";
    type Input = Nothing;
    type Output = Output;

    async fn run(&self, cx: &Context, _: Nothing) -> Result<Output, ActionError> {
        let mut agents: Vec<Entry> = cx.node.agents().into_iter().map(Entry::from).collect();
        agents.sort_unstable_by(|one, other| one.agent.cmp(&other.agent));
        Ok(Output { agents })
    }
}
