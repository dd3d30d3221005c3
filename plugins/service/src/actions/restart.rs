//! `restart`: stops and starts a service.

use muster_api::{ActionError, AgentAction, CallContext};
use serde::Serialize;

use crate::service::{NodeService, ServiceNameInput, ServiceRunState};

pub(crate) struct ServiceRestartAction;

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct ServiceRestartOutput {
    status: ServiceRunState,
}

impl AgentAction for ServiceRestartAction {
    const NAME: &'static str = "restart";
    type Input = ServiceNameInput;
    type Output = ServiceRestartOutput;

    async fn run(
        &self,
        cx: &CallContext,
        input: ServiceNameInput,
    ) -> Result<ServiceRestartOutput, ActionError> {
        let status = NodeService::run_blocking(cx, input, NodeService::restart).await?;
        Ok(ServiceRestartOutput { status })
    }
}
