//! `collective_info`: lists the collectives of the node.

use muster_api::{ActionError, AgentAction, CallContext};
use serde::Serialize;

use super::EmptyInput;

pub(crate) struct RpcutilCollectiveInfoAction;

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct RpcutilCollectiveInfoOutput {
    main_collective: Option<String>,
    collectives: Vec<String>,
}

impl AgentAction for RpcutilCollectiveInfoAction {
    const NAME: &'static str = "collective_info";
    const ANSWERS_IMMEDIATELY: bool = true;
    type Input = EmptyInput;
    type Output = RpcutilCollectiveInfoOutput;

    async fn run(
        &self,
        cx: &CallContext,
        _: EmptyInput,
    ) -> Result<RpcutilCollectiveInfoOutput, ActionError> {
        let collectives = super::collective_names(cx);
        Ok(RpcutilCollectiveInfoOutput {
            main_collective: collectives.first().cloned(),
            collectives,
        })
    }
}
