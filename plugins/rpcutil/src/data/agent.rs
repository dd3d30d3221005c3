//! `agent("puppetral")`: whether the node offers the agent, and its metadata.

use muster_api::{ActionError, AgentInfo, Context, DataSource};
use serde::Serialize;

pub(crate) struct Agent;

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct Output {
    exists: bool,
    agent: String,
    description: Option<String>,
    author: Option<String>,
    license: Option<String>,
    version: Option<String>,
    url: Option<String>,
    timeout: Option<u64>,
}

impl DataSource for Agent {
    const NAME: &'static str = "agent";
    type Output = Output;

    async fn query(&self, cx: &Context, query: Option<&str>) -> Result<Output, ActionError> {
        let name = query.unwrap_or_default();
        let mut agents = cx.node.agents().into_iter();
        Ok(match agents.find(|info| info.agent == name) {
            Some(found) => Output::from(found),
            None => Output {
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

impl From<AgentInfo> for Output {
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
