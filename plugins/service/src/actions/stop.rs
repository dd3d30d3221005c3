//! `stop`: stops a running service.

use muster_api::{ActionError, AgentAction, CallContext};

use crate::service::{NodeService, ServiceChangeOutput, ServiceNameInput, ServiceRunState};

pub(crate) struct ServiceStopAction;

impl AgentAction for ServiceStopAction {
    const NAME: &'static str = "stop";
    type Input = ServiceNameInput;
    type Output = ServiceChangeOutput;

    async fn run(
        &self,
        cx: &CallContext,
        input: ServiceNameInput,
    ) -> Result<ServiceChangeOutput, ActionError> {
        NodeService::run_blocking(cx, input, |service| {
            service.ensure_state(ServiceRunState::Stopped)
        })
        .await
    }
}
