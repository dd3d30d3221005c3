//! `ping`: replies to show that the node is reachable.

use muster_api::base::since_epoch;

use muster_api::{ActionError, AgentAction, CallContext};
use serde::Serialize;

use super::EmptyInput;

pub(crate) struct RpcutilPingAction;

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct RpcutilPingOutput {
    /// The node's clock, in seconds since 1970; 0 when it is set to a time before.
    pong: u64,
}

impl AgentAction for RpcutilPingAction {
    const NAME: &'static str = "ping";
    const ANSWERS_IMMEDIATELY: bool = true;
    type Input = EmptyInput;
    type Output = RpcutilPingOutput;

    async fn run(&self, cx: &CallContext, _: EmptyInput) -> Result<RpcutilPingOutput, ActionError> {
        Ok(RpcutilPingOutput { pong: since_epoch(cx.system.now()).as_secs() })
    }
}
