//! Builds a report from the events of a run.

use super::{
    REPORT_FORMAT_VERSION, REPORTED_PUPPET_VERSION, ResourceStatus, RunEvent, RunLogEntry,
    RunMetrics, RunReport, RunStart,
};

#[derive(Debug, Default)]
pub struct RunReportBuilder {
    start: Option<RunStart>,
    logs: Vec<RunLogEntry>,
    statuses: Vec<ResourceStatus>,
    report: Option<RunReport>,
}

impl RunReportBuilder {
    pub fn add_event(&mut self, event: &RunEvent) {
        match event {
            RunEvent::Start(start) => self.start = Some(start.clone()),
            RunEvent::Log(log) => self.logs.push(log.clone()),
            RunEvent::Resource(status) => self.statuses.push((**status).clone()),
            RunEvent::End(end) => self.report = self.build_report(end),
        }
    }

    /// The report; `None` before the end event.
    pub fn into_report(self) -> Option<RunReport> {
        self.report
    }

    fn build_report(&mut self, end: &super::RunEnd) -> Option<RunReport> {
        let start = self.start.take()?;
        let statuses = std::mem::take(&mut self.statuses);
        let is_complete = end.transaction_completed && !end.failed_to_generate;
        let changed = statuses.iter().any(|status| status.change_count > 0);
        let status = if !is_complete || statuses.iter().any(ResourceStatus::has_failed) {
            "failed"
        } else if changed || !end.pending_refreshes.is_empty() {
            "changed"
        } else {
            "unchanged"
        };
        let mut noops = statuses.iter().flat_map(|status| &status.events);
        Some(RunReport {
            host: start.host,
            time: start.time,
            configuration_version: start.configuration_version,
            transaction_uuid: start.transaction_uuid,
            report_format: REPORT_FORMAT_VERSION,
            puppet_version: REPORTED_PUPPET_VERSION.to_owned(),
            status,
            transaction_completed: end.transaction_completed,
            noop: start.noop,
            noop_pending: noops.any(|event| event.status == "noop"),
            environment: start.environment,
            logs: std::mem::take(&mut self.logs),
            metrics: RunMetrics::from_statuses(&statuses, end),
            corrective_change: statuses.iter().any(|status| status.corrective_change),
            resource_statuses: statuses,
            catalog_uuid: start.catalog_uuid,
            code_id: start.code_id,
            pending_refreshes: end.pending_refreshes.clone(),
        })
    }
}
