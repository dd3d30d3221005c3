//! Folds what a run tells into a report.

use super::{FORMAT, Log, Metrics, Report, RunEvent, Start, Status, VERSION};

/// A report that is not finished.
#[derive(Debug, Default)]
pub struct Builder {
    start: Option<Start>,
    logs: Vec<Log>,
    statuses: Vec<Status>,
    report: Option<Report>,
}

impl Builder {
    /// Takes in what happened next.
    pub fn take(&mut self, event: &RunEvent) {
        match event {
            RunEvent::Start(start) => self.start = Some(start.clone()),
            RunEvent::Log(log) => self.logs.push(log.clone()),
            RunEvent::Resource(status) => self.statuses.push((**status).clone()),
            RunEvent::End(end) => self.report = self.finish(end),
        }
    }

    /// The report, once the end was told.
    pub fn report(self) -> Option<Report> {
        self.report
    }

    fn finish(&mut self, end: &super::End) -> Option<Report> {
        let start = self.start.take()?;
        let statuses = std::mem::take(&mut self.statuses);
        let failed = |status: &Status| status.failed || status.failed_to_restart;
        let changed = |status: &Status| status.change_count > 0;
        let status = if end.failed_to_generate
            || !end.transaction_completed
            || statuses.iter().any(failed)
        {
            "failed"
        } else if statuses.iter().any(changed) || !end.pending_refreshes.is_empty() {
            "changed"
        } else {
            "unchanged"
        };
        let mut noops = statuses.iter().flat_map(|status| &status.events);
        Some(Report {
            host: start.host,
            time: start.time,
            configuration_version: start.configuration_version,
            transaction_uuid: start.transaction_uuid,
            report_format: FORMAT,
            puppet_version: VERSION.to_owned(),
            status,
            transaction_completed: end.transaction_completed,
            noop: start.noop,
            noop_pending: noops.any(|event| event.status == "noop"),
            environment: start.environment,
            logs: std::mem::take(&mut self.logs),
            metrics: Metrics::of(&statuses, end),
            corrective_change: statuses.iter().any(|status| status.corrective_change),
            resource_statuses: statuses,
            catalog_uuid: start.catalog_uuid,
            code_id: start.code_id,
            pending_refreshes: end.pending_refreshes.clone(),
        })
    }
}
