//! `status`: tells whether a service runs. Changes nothing.

use muster_api::{Action, ActionError, Context};
use serde::Serialize;

use crate::service::{Input, Service, State};

pub(crate) struct Status;

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct Output {
    status: State,
}

impl Action for Status {
    const NAME: &'static str = "status";
    type Input = Input;
    type Output = Output;

    async fn run(&self, cx: &Context, input: Input) -> Result<Output, ActionError> {
        let status = Service::with(cx, input, Service::state).await?;
        Ok(Output { status })
    }
}
