//! `cancel` and `cancel_any`: cancel a request that is running or queued on the node.
//!
//! `cancel` cancels the caller's own requests only. `cancel_any` cancels requests of all callers, so the node's policy must allow it
//! separately. The cancelled request reports in its own reply what it had done before.

use muster_api::wire::identity::Identity;
use muster_api::{ActionError, AgentAction, CallContext};
use muster_contract::rpcutil::{CancelOutcome, RpcutilCancelOutput};
use serde::Deserialize;
use uuid::Uuid;

pub(crate) struct RpcutilCancelAction;
pub(crate) struct RpcutilCancelAnyAction;

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct RpcutilCancelInput {
    id: String,
}

impl AgentAction for RpcutilCancelAction {
    const NAME: &'static str = "cancel";
    type Input = RpcutilCancelInput;
    type Output = RpcutilCancelOutput;

    async fn run(
        &self,
        cx: &CallContext,
        input: RpcutilCancelInput,
    ) -> Result<RpcutilCancelOutput, ActionError> {
        cancel_request(cx, &input, Some(&cx.caller))
    }
}

impl AgentAction for RpcutilCancelAnyAction {
    const NAME: &'static str = "cancel_any";
    type Input = RpcutilCancelInput;
    type Output = RpcutilCancelOutput;

    async fn run(
        &self,
        cx: &CallContext,
        input: RpcutilCancelInput,
    ) -> Result<RpcutilCancelOutput, ActionError> {
        cancel_request(cx, &input, None)
    }
}

fn cancel_request(
    cx: &CallContext,
    input: &RpcutilCancelInput,
    caller: Option<&Identity>,
) -> Result<RpcutilCancelOutput, ActionError> {
    let id = Uuid::parse_str(&input.id).map_err(|error| {
        ActionError::invalid_input(format!("`{}` is not a request ID: {error}", input.id))
    })?;
    if id == cx.request {
        return Err(ActionError::invalid_input("the request cannot cancel itself"));
    }
    let Some((request, is_cancelled)) = cx.node.cancel_request(id, caller) else {
        return Ok(RpcutilCancelOutput {
            outcome: CancelOutcome::NotRunning,
            ..RpcutilCancelOutput::default()
        });
    };
    if !is_cancelled {
        let message = format!(
            "request {id} belongs to {}; {} can cancel it only with `cancel_any`",
            request.caller, cx.caller
        );
        return Err(ActionError::denied_by_rule(message, "rpcutil cancel"));
    }
    Ok(RpcutilCancelOutput {
        outcome: CancelOutcome::Cancelled,
        caller: Some(request.caller.to_string()),
        agent: Some(request.agent),
        action: Some(request.action),
    })
}
