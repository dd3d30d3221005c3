//! `puppet()`: what Puppet's agent is doing, and how its last run went, as values to filter by.

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use muster_api::system::System;
use muster_api::{ActionError, Context, DataSource};
use serde::Serialize;

use crate::files::look::look;
use crate::files::summary::Summary;
use crate::options::Options;
use crate::places::Places;

pub(crate) struct Puppet(pub(crate) Arc<Options>);

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
#[expect(
    clippy::struct_excessive_bools,
    reason = "MCollective's outputs, each of which is filtered by"
)]
pub(crate) struct Output {
    enabled: bool,
    disable_message: Option<String>,
    applying: bool,
    daemon_present: bool,
    idling: bool,
    status: String,
    lastrun: Option<u64>,
    since_lastrun: Option<u64>,
    failed: Option<bool>,
    total_resources: Option<u64>,
    failed_resources: Option<u64>,
    changed_resources: Option<u64>,
    out_of_sync_resources: Option<u64>,
    corrected_resources: Option<u64>,
    config_version: Option<String>,
    total_time: Option<f64>,
}

impl DataSource for Puppet {
    const NAME: &'static str = "puppet";
    type Output = Output;

    async fn query(&self, cx: &Context, _: Option<&str>) -> Result<Output, ActionError> {
        let (options, system) = (Arc::clone(&self.0), Arc::clone(&cx.system));
        cx.blocking(move |_| values(&options, &*system)).await?
    }
}

fn values(options: &Options, system: &dyn System) -> Result<Output, ActionError> {
    let places =
        Places::find(options, system).map_err(|error| ActionError::failed(error.to_string()))?;
    let doing = look(system, &places).map_err(|error| ActionError::failed(error.to_string()))?;
    let now = system.now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let summary = doing.summary.as_ref();
    let lastrun = summary.and_then(Summary::last_run);
    let counted = |name: &str| summary.and_then(|summary| summary.resources(name));
    Ok(Output {
        enabled: doing.disabled.is_none(),
        disable_message: doing.disabled.clone(),
        applying: doing.run.is_held(),
        daemon_present: doing.daemon_present,
        idling: doing.idling(),
        status: doing.status().to_owned(),
        lastrun,
        since_lastrun: lastrun.map(|then| now.as_secs().saturating_sub(then)),
        failed: summary.map(Summary::failed),
        total_resources: counted("total"),
        failed_resources: counted("failed"),
        changed_resources: counted("changed"),
        out_of_sync_resources: counted("out_of_sync"),
        corrected_resources: counted("corrective_change"),
        config_version: summary.and_then(Summary::config_version),
        total_time: summary.and_then(|summary| summary.time("total")),
    })
}
