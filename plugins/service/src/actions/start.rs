//! `start`: lets a service run that does not.

use muster_api::{Action, ActionError, Context};

use crate::service::{Input, Report, Service, State};

pub(crate) struct Start;

impl Action for Start {
    const NAME: &'static str = "start";
    type Input = Input;
    type Output = Report;

    async fn run(&self, cx: &Context, input: Input) -> Result<Report, ActionError> {
        Service::with(cx, input, |service| service.bring(State::Running)).await
    }
}
