//! `service("sshd")`: whether the machine knows a service, whether it runs, and whether it starts at boot.

use muster_api::{ActionError, Context, DataSource};
use serde::Serialize;

use crate::service::{Input, Service};

pub(crate) struct ServiceData;

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct Output {
    pub(crate) present: bool,
    pub(crate) running: bool,
    pub(crate) status: String,
    pub(crate) enabled: Option<bool>,
}

impl DataSource for ServiceData {
    const NAME: &'static str = "service";
    type Output = Output;

    async fn query(&self, cx: &Context, query: Option<&str>) -> Result<Output, ActionError> {
        let service = query.unwrap_or_default().to_owned();
        let found = Service::with(cx, Input { service }, Service::look).await?;
        let status = match (&found.missing, found.running) {
            (Some(_), _) => "absent",
            (None, true) => "running",
            (None, false) => "stopped",
        };
        Ok(Output {
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
