//! `puppet()`: activity of Puppet's agent and results of its last run, as values for filters.

use muster_api::base::since_epoch;
use std::sync::Arc;

use muster_api::{ActionError, BlockingContext};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::actions::status::read_agent_activity;
use crate::files::summary::PuppetRunSummary;
use crate::runs::PuppetRunManager;

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "MCollective's outputs, each of which is filtered by"
)]
pub(crate) struct PuppetDataOutput {
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

pub(crate) fn query_puppet(
    runs: &Arc<PuppetRunManager>,
    cx: &BlockingContext,
    _: &str,
) -> Result<PuppetDataOutput, ActionError> {
    let system = &*cx.system;
    let activity = read_agent_activity(runs, system)?;
    let now = since_epoch(system.now());
    let summary = activity.summary();
    let lastrun = summary.and_then(PuppetRunSummary::last_run);
    let count = |name: &str| summary.and_then(|summary| summary.resource_count(name));
    Ok(PuppetDataOutput {
        enabled: activity.disabled.is_none(),
        disable_message: activity.disabled.clone(),
        applying: activity.run.is_held(),
        daemon_present: activity.daemon_present,
        idling: activity.is_idling(),
        status: activity.status_name().to_owned(),
        lastrun,
        since_lastrun: lastrun.map(|then| now.as_secs().saturating_sub(then)),
        failed: summary.map(PuppetRunSummary::has_failures),
        total_resources: count("total"),
        failed_resources: count("failed"),
        changed_resources: count("changed"),
        out_of_sync_resources: count("out_of_sync"),
        corrected_resources: count("corrective_change"),
        config_version: summary.and_then(PuppetRunSummary::config_version),
        total_time: summary.and_then(|summary| summary.time_value("total")),
    })
}
