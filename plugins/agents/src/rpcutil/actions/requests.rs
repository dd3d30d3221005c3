//! `running`, `cancel` and `cancel_any`: the requests that run or wait on the node.
//!
//! `cancel` cancels the caller's own requests only. `cancel_any` cancels requests of all callers, so the node's policy must allow it
//! separately. The cancelled request reports in its own reply what it had done before. With `waiting_only` work that has begun goes on.

use muster_api::{
    ActionError, CallContext, CancelScope, EmptyInput, NoState, RequestOwner, RunningRequest,
};
use muster_contract::rpcutil::{
    CancelOutcome, RpcutilCancelInput, RpcutilCancelOutput, RpcutilRunningOutput, RunningRequestRow,
};
use uuid::Uuid;

/// Lists the requests without the calling one.
pub(crate) fn list_running(_: &NoState, cx: &CallContext, _: EmptyInput) -> RpcutilRunningOutput {
    let row = |request: RunningRequest| RunningRequestRow {
        id: request.id.to_string(),
        caller: request.owner.name.to_string(),
        agent: request.agent,
        action: request.action,
        since: request.since,
    };
    let running = cx.node.running_requests().into_iter();
    let requests: Vec<_> = running.filter(|request| request.id != cx.request).map(row).collect();
    RpcutilRunningOutput { count: requests.len(), requests }
}

/// Cancels a request; with `owner`, only if it belongs to that user.
pub(crate) fn cancel_request(
    cx: &CallContext,
    input: &RpcutilCancelInput,
    owner: Option<&RequestOwner>,
) -> Result<RpcutilCancelOutput, ActionError> {
    let id = Uuid::parse_str(&input.id).map_err(|error| {
        ActionError::invalid_input(format!("`{}` is not a request ID: {error}", input.id))
    })?;
    if id == cx.request {
        return Err(ActionError::invalid_input("the request cannot cancel itself"));
    }
    let (scope, outcome) = match input.waiting_only {
        Some(true) => (CancelScope::Waiting, CancelOutcome::Withdrawn),
        _ => (CancelScope::All, CancelOutcome::Cancelled),
    };
    let Some((request, is_cancelled)) = cx.node.cancel_request(id, owner, scope) else {
        return Ok(RpcutilCancelOutput {
            outcome: CancelOutcome::NotRunning,
            ..RpcutilCancelOutput::default()
        });
    };
    if !is_cancelled {
        let message = format!(
            "request {id} belongs to the {} {}; {} can cancel it only with `cancel_any`",
            request.owner.role, request.owner.name, cx.caller
        );
        return Err(ActionError::denied_by_rule(message, "rpcutil cancel"));
    }
    Ok(RpcutilCancelOutput {
        outcome,
        caller: Some(request.owner.name.to_string()),
        agent: Some(request.agent),
        action: Some(request.action),
    })
}
