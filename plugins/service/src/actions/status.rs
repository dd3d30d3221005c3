//! `status`: shows whether a service runs. Changes nothing.

use muster_api::{ActionError, AgentAction, CallContext};
use serde::Serialize;

use crate::service::{NodeService, ServiceNameInput, ServiceRunState};

pub(crate) struct ServiceStatusAction;

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct ServiceStatusOutput {
    status: ServiceRunState,
}

impl AgentAction for ServiceStatusAction {
    const NAME: &'static str = "status";
    type Input = ServiceNameInput;
    type Output = ServiceStatusOutput;

    async fn run(
        &self,
        cx: &CallContext,
        input: ServiceNameInput,
    ) -> Result<ServiceStatusOutput, ActionError> {
        let status = NodeService::run_blocking(cx, input, NodeService::query_state).await?;
        Ok(ServiceStatusOutput { status })
    }
}
