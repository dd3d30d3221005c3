//! `cancel` and `cancel_any`: take a request back that is at work on the node, or waits for its turn.
//!
//! `cancel` takes back the caller's own requests only; who may take back those of others is who the node's policy lets ask
//! for `cancel_any`. What the request had done before is told in its own reply.

use muster_api::wire::identity::Identity;
use muster_api::{Action, ActionError, Context};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

pub(crate) struct Cancel;
pub(crate) struct CancelAny;

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Input {
    id: String,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct Output {
    outcome: Outcome,
    caller: Option<String>,
    agent: Option<String>,
    action: Option<String>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Cancelled,
    NotRunning,
}

impl Action for Cancel {
    const NAME: &'static str = "cancel";
    type Input = Input;
    type Output = Output;

    async fn run(&self, cx: &Context, input: Input) -> Result<Output, ActionError> {
        take_back(cx, &input, Some(&cx.caller))
    }
}

impl Action for CancelAny {
    const NAME: &'static str = "cancel_any";
    type Input = Input;
    type Output = Output;

    async fn run(&self, cx: &Context, input: Input) -> Result<Output, ActionError> {
        take_back(cx, &input, None)
    }
}

fn take_back(cx: &Context, input: &Input, of: Option<&Identity>) -> Result<Output, ActionError> {
    let id = Uuid::parse_str(&input.id).map_err(|error| {
        ActionError::invalid(format!("`{}` is no request's id: {error}", input.id))
    })?;
    if id == cx.request {
        return Err(ActionError::invalid("a request cannot take itself back"));
    }
    let Some((request, done)) = cx.node.cancel(id, of) else {
        return Ok(Output {
            outcome: Outcome::NotRunning,
            caller: None,
            agent: None,
            action: None,
        });
    };
    if !done {
        let message = format!(
            "request {id} is of {}, and `cancel` takes back only {}'s own; `cancel_any` takes back any",
            request.caller, cx.caller
        );
        return Err(ActionError::denied(message, "rpcutil cancel"));
    }
    Ok(Output {
        outcome: Outcome::Cancelled,
        caller: Some(request.caller.to_string()),
        agent: Some(request.agent),
        action: Some(request.action),
    })
}
