//! `ping`: answers, to show that the node is there.

use std::time::UNIX_EPOCH;

use muster_api::{Action, ActionError, Context};
use serde::Serialize;

use super::Nothing;

pub(crate) struct Ping;

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct Output {
    /// The node's clock, in seconds since 1970; 0 when it is set to a time before.
    pong: u64,
}

impl Action for Ping {
    const NAME: &'static str = "ping";
    const AT_ONCE: bool = true;
    type Input = Nothing;
    type Output = Output;

    async fn run(&self, cx: &Context, _: Nothing) -> Result<Output, ActionError> {
        let since = cx.system.now().duration_since(UNIX_EPOCH);
        Ok(Output {
            pong: since.unwrap_or_default().as_secs(),
        })
    }
}
