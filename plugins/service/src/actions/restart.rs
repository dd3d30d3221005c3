//! `restart`: stops and starts a service.

use muster_api::{Action, ActionError, Context};
use serde::Serialize;

use crate::service::{Input, Service, State};

pub(crate) struct Restart;

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct Output {
    status: State,
}

impl Action for Restart {
    const NAME: &'static str = "restart";
    type Input = Input;
    type Output = Output;

    async fn run(&self, cx: &Context, input: Input) -> Result<Output, ActionError> {
        let status = Service::with(cx, input, Service::restart).await?;
        Ok(Output { status })
    }
}
