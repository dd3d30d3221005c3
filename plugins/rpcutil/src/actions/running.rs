//! `running`: which requests are at work on the node, or wait for their turn; without the one that asks.

use muster_api::{Action, ActionError, Context};
use serde::Serialize;

use super::Nothing;

pub(crate) struct Running;

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct Output {
    count: usize,
    requests: Vec<Request>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct Request {
    id: String,
    caller: String,
    agent: String,
    action: String,
    /// When it was accepted, by the node's clock, in milliseconds since 1970.
    since: u64,
}

impl Action for Running {
    const NAME: &'static str = "running";
    const AT_ONCE: bool = true;
    type Input = Nothing;
    type Output = Output;

    async fn run(&self, cx: &Context, _: Nothing) -> Result<Output, ActionError> {
        let mut running = cx.node.running();
        running.retain(|request| request.id != cx.request);
        let requests: Vec<Request> = running
            .into_iter()
            .map(|request| Request {
                id: request.id.to_string(),
                caller: request.caller.to_string(),
                agent: request.agent,
                action: request.action,
                since: request.since,
            })
            .collect();
        Ok(Output {
            count: requests.len(),
            requests,
        })
    }
}
