//! `last_run_report`: the report of the last run.

use std::sync::Arc;

use muster_api::{ActionError, BlockingContext};
use muster_contract::puppet::{LastRunReportInput, LastRunReportOutput};

use super::status::read_agent_activity;
use crate::classification;
use crate::files::report::PuppetRunReport;
use crate::runs::PuppetRunManager;

fn build_output(report: &PuppetRunReport, logs: bool) -> LastRunReportOutput {
    LastRunReportOutput {
        status: report.text_field("status").unwrap_or_default(),
        class: classification::class_by_report(report).as_str().to_owned(),
        transaction_uuid: report.text_field("transaction_uuid"),
        transaction_completed: report.flag_field("transaction_completed"),
        time: report.text_field("time"),
        environment: report.text_field("environment"),
        config_version: report.text_field("configuration_version"),
        noop: report.flag_field("noop"),
        noop_pending: report.flag_field("noop_pending"),
        cached_catalog_status: report.text_field("cached_catalog_status"),
        puppet_version: report.text_field("puppet_version"),
        events: report.resource_events(),
        failed: report.resources_with(&["failed", "failed_to_restart"]),
        skipped: report.resources_with(&["skipped"]),
        metrics: report.all_metrics(),
        logs: if logs { report.log_lines(&[]) } else { Vec::new() },
    }
}

pub(crate) fn report_last_run(
    runs: &Arc<PuppetRunManager>,
    cx: &BlockingContext,
    LastRunReportInput { logs }: LastRunReportInput,
) -> Result<LastRunReportOutput, ActionError> {
    let activity = read_agent_activity(runs, &*cx.system)?;
    let report = activity.last_run.and_then(|run| run.read_report(&*cx.system));
    let report =
        report.ok_or_else(|| ActionError::failed("no readable report of a Puppet run found"))?;
    Ok(build_output(&report, logs))
}
