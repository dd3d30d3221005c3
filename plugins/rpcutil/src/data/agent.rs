//! Data source `agent("puppetral")`: whether the node offers the agent, and its metadata.

use muster_api::{ActionError, AgentInfo, CallContext, DataSource};
use serde::Serialize;

pub(crate) struct AgentDataSource;

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct AgentDataOutput {
    exists: bool,
    agent: String,
    description: Option<String>,
    author: Option<String>,
    license: Option<String>,
    version: Option<String>,
    url: Option<String>,
    timeout: Option<u64>,
}

impl DataSource for AgentDataSource {
    const NAME: &'static str = "agent";
    type Output = AgentDataOutput;

    async fn query(
        &self,
        cx: &CallContext,
        query: Option<&str>,
    ) -> Result<AgentDataOutput, ActionError> {
        let name = query.unwrap_or_default();
        let mut agents = cx.node.agent_infos().into_iter();
        Ok(match agents.find(|info| info.agent == name) {
            Some(found) => AgentDataOutput::from(found),
            None => AgentDataOutput {
                exists: false,
                agent: name.to_owned(),
                description: None,
                author: None,
                license: None,
                version: None,
                url: None,
                timeout: None,
            },
        })
    }
}

impl From<AgentInfo> for AgentDataOutput {
    fn from(info: AgentInfo) -> Self {
        Self {
            exists: true,
            agent: info.agent,
            description: Some(info.description),
            author: Some(info.author),
            license: Some(info.license),
            version: Some(info.version),
            url: Some(info.url),
            timeout: Some(info.timeout),
        }
    }
}
