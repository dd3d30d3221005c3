//! `agent('puppetral')`: whether the node offers the agent, and its metadata.

use muster_api::{Answer, Context, DataSource};
use serde_json::json;

use super::{needed, values};

pub(crate) struct Agent;

impl DataSource for Agent {
    fn name(&self) -> &'static str {
        "agent"
    }

    fn description(&self) -> &'static str {
        "Whether the node offers an agent, and the agent's metadata"
    }

    fn query<'a>(&'a self, cx: &'a Context, query: Option<&'a str>) -> Answer<'a> {
        Box::pin(async move {
            let name = needed("agent", "the name of an agent", query)?;
            let Some(found) = cx.node.agents().into_iter().find(|info| info.agent == name) else {
                return Ok(values([("exists", json!(false)), ("agent", json!(name))]));
            };
            Ok(values([
                ("exists", json!(true)),
                ("agent", json!(found.agent)),
                ("description", json!(found.description)),
                ("author", json!(found.author)),
                ("license", json!(found.license)),
                ("version", json!(found.version)),
                ("url", json!(found.url)),
                ("timeout", json!(found.timeout)),
            ]))
        })
    }
}
