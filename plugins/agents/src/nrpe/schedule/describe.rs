//! What others see of the checks: the rows of the actions, and the compact form of the node's record. Pure.

use muster_api::wire::Millis;
use muster_contract::nrpe::{
    CheckState, MaintenanceWindow, RecordedCheck, RecordedChecks, ScheduledCheckRow,
};

use super::check_record::CheckRecord;
use super::schedule_file::ScheduledCheck;

const MAX_RECORDED_CHECKS: usize = 200;
const MAX_RECORDED_OUTPUT_CHARS: usize = 120;
const MAX_ROW_OUTPUT_CHARS: usize = 1024;

#[derive(Debug, Clone, Copy)]
pub(crate) struct CheckView<'a> {
    pub(crate) schedule: &'a ScheduledCheck,
    pub(crate) record: &'a CheckRecord,
    pub(crate) node_maintenance: Option<&'a MaintenanceWindow>,
    pub(crate) timeout_millis: Millis,
    pub(crate) now: Millis,
}

impl<'a> CheckView<'a> {
    fn maintenance(&self) -> Option<&'a MaintenanceWindow> {
        let windows = [self.record.maintenance.as_ref(), self.node_maintenance];
        windows
            .into_iter()
            .flatten()
            .filter(|window| self.now < window.until)
            .max_by_key(|window| window.until)
    }

    fn is_overdue(&self) -> bool {
        self.record.is_overdue(self.timeout_millis, self.now)
    }

    pub(crate) fn to_row(self) -> ScheduledCheckRow {
        let (schedule, record) = (self.schedule, self.record);
        ScheduledCheckRow {
            check: schedule.name.clone(),
            command: schedule.command.clone(),
            state: record.hard,
            since: record.since,
            current: record.current,
            state_type: if record.is_soft() { "soft" } else { "hard" }.to_owned(),
            attempt: record.attempt,
            max_attempts: schedule.max_attempts,
            output: record.output.chars().take(MAX_ROW_OUTPUT_CHARS).collect(),
            perfdata: record.perfdata.chars().take(MAX_ROW_OUTPUT_CHARS).collect(),
            last_check: record.last_check,
            next_check: record.next_check,
            overdue: self.is_overdue(),
            flapping: record.flaps.is_flapping(),
            change_percent: (record.flaps.change_percent() * 10.0).round() / 10.0,
            acknowledgement: record.acknowledgement.clone(),
            maintenance: self.maintenance().cloned(),
            notes: schedule.notes.clone(),
        }
    }

    pub(super) fn to_recorded(self) -> RecordedCheck {
        let record = self.record;
        let output: String = record.hard_output.chars().take(MAX_RECORDED_OUTPUT_CHARS).collect();
        RecordedCheck {
            state: record.hard,
            since: record.since.map(|since| since / 1000),
            output,
            attempts: self.schedule.max_attempts,
            acknowledged: record.acknowledgement.is_some(),
            maintenance: self.maintenance().is_some(),
            flapping: record.flaps.is_flapping(),
            overdue: self.is_overdue(),
        }
    }
}

/// What the record says of these checks: all are counted, and the worst ones are described.
pub(crate) fn record_checks<'a>(views: impl Iterator<Item = CheckView<'a>>) -> RecordedChecks {
    let mut recorded = RecordedChecks::default();
    let mut views: Vec<CheckView<'_>> = views.collect();
    for view in &views {
        recorded.counts.add(view.record.hard);
    }
    views.sort_by_key(|view| match view.record.hard {
        Some(CheckState::Critical) => 0,
        Some(CheckState::Unknown) => 1,
        Some(CheckState::Warning) => 2,
        None => 3,
        Some(CheckState::Ok) => 4,
    });
    recorded.omitted = views.len().saturating_sub(MAX_RECORDED_CHECKS);
    views.truncate(MAX_RECORDED_CHECKS);
    let named = views.iter().map(|view| (view.schedule.name.clone(), view.to_recorded()));
    recorded.checks = named.collect();
    recorded
}
