//! `stop`: ends a service that runs.

use muster_api::{Action, ActionError, Context};

use crate::service::{Input, Report, Service, State};

pub(crate) struct Stop;

impl Action for Stop {
    const NAME: &'static str = "stop";
    type Input = Input;
    type Output = Report;

    async fn run(&self, cx: &Context, input: Input) -> Result<Report, ActionError> {
        Service::with(cx, input, |service| service.bring(State::Stopped)).await
    }
}
