//! `collective_info`: lists the collectives of the node.

use muster_api::{ActionError, AgentAction, CallContext};
use muster_contract::rpcutil::RpcutilCollectiveInfoOutput;

use super::EmptyInput;

pub(crate) struct RpcutilCollectiveInfoAction;

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
