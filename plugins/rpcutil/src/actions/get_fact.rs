//! `get_fact`: returns one fact by its dotted path.

use muster_api::{ActionError, AgentAction, CallContext};
use muster_contract::rpcutil::RpcutilGetFactOutput;
use serde::Deserialize;

pub(crate) struct RpcutilGetFactAction;

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct RpcutilGetFactInput {
    fact: String,
}

impl AgentAction for RpcutilGetFactAction {
    const NAME: &'static str = "get_fact";
    const ANSWERS_IMMEDIATELY: bool = true;
    type Input = RpcutilGetFactInput;
    type Output = RpcutilGetFactOutput;

    async fn run(
        &self,
        cx: &CallContext,
        RpcutilGetFactInput { fact }: RpcutilGetFactInput,
    ) -> Result<RpcutilGetFactOutput, ActionError> {
        let value = cx.node.facts().get(&fact).cloned().unwrap_or_default();
        Ok(RpcutilGetFactOutput { fact, value })
    }
}
