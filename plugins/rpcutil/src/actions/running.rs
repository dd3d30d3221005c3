//! `running`: lists the requests that run or wait on the node, without the calling request.

use muster_api::{ActionError, AgentAction, CallContext};
use muster_contract::rpcutil::{RpcutilRunningOutput, RunningRequestRow};

use super::EmptyInput;

pub(crate) struct RpcutilRunningAction;

impl AgentAction for RpcutilRunningAction {
    const NAME: &'static str = "running";
    const ANSWERS_IMMEDIATELY: bool = true;
    type Input = EmptyInput;
    type Output = RpcutilRunningOutput;

    async fn run(
        &self,
        cx: &CallContext,
        _: EmptyInput,
    ) -> Result<RpcutilRunningOutput, ActionError> {
        let mut running = cx.node.running_requests();
        running.retain(|request| request.id != cx.request);
        let requests: Vec<RunningRequestRow> = running
            .into_iter()
            .map(|request| RunningRequestRow {
                id: request.id.to_string(),
                caller: request.caller.to_string(),
                agent: request.agent,
                action: request.action,
                since: request.since,
            })
            .collect();
        Ok(RpcutilRunningOutput { count: requests.len(), requests })
    }
}
