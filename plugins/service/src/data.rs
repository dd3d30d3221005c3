//! Data source `service("sshd")`: whether a service exists, runs, and starts at boot.

use muster_api::{ActionError, CallContext, DataSource};
use serde::Serialize;

use crate::service::{NodeService, ServiceNameInput};

pub(crate) struct ServiceDataSource;

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct ServiceDataOutput {
    pub(crate) present: bool,
    pub(crate) running: bool,
    pub(crate) status: String,
    pub(crate) enabled: Option<bool>,
}

impl DataSource for ServiceDataSource {
    const NAME: &'static str = "service";
    type Output = ServiceDataOutput;

    async fn query(
        &self,
        cx: &CallContext,
        query: Option<&str>,
    ) -> Result<ServiceDataOutput, ActionError> {
        let service = query.unwrap_or_default().to_owned();
        let found =
            NodeService::run_blocking(cx, ServiceNameInput { service }, NodeService::query_status)
                .await?;
        let status = match (&found.missing, found.running) {
            (Some(_), _) => "absent",
            (None, true) => "running",
            (None, false) => "stopped",
        };
        Ok(ServiceDataOutput {
            present: found.missing.is_none(),
            running: found.missing.is_none() && found.running,
            status: status.to_owned(),
            enabled: match found.enable.as_str() {
                _ if found.missing.is_some() => None,
                "true" => Some(true),
                "false" | "mask" => Some(false),
                _ => None,
            },
        })
    }
}
