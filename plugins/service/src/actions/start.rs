//! `start`: starts a stopped service.

use muster_api::{ActionError, AgentAction, CallContext};

use crate::service::{NodeService, ServiceChangeOutput, ServiceNameInput, ServiceRunState};

pub(crate) struct ServiceStartAction;

impl AgentAction for ServiceStartAction {
    const NAME: &'static str = "start";
    type Input = ServiceNameInput;
    type Output = ServiceChangeOutput;

    async fn run(
        &self,
        cx: &CallContext,
        input: ServiceNameInput,
    ) -> Result<ServiceChangeOutput, ActionError> {
        NodeService::run_blocking(cx, input, |service| {
            service.ensure_state(ServiceRunState::Running)
        })
        .await
    }
}
