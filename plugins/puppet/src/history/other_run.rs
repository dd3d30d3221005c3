//! Records the reports of runs that were started outside: by cron, by Puppet's own daemon, at the console.
//!
//! A run has one report, so which report was recorded last is all that is to be known. It is a file: the daemon may be restarted, and the runs of the agent itself
//! are recorded elsewhere.

use std::path::PathBuf;

use muster_api::HistoryRecorder;
use muster_api::system::{StateDir, System, SystemResult};
use muster_api::wire::history::{HistoryEvent, PUPPET_ENGINE, RunCause};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::{end_event, resource_events};
use crate::files::activity;
use crate::files::report::{PuppetRunReport, ReportIdentity};
use crate::paths::PuppetPaths;

/// The identity of the report that was recorded last.
const RECORDED_FILE: &str = "recorded-report.json";
const MAX_RECORDED_BYTES: u64 = 4096;
/// What a run begins with, of its report.
const START_VALUES: [&str; 4] = ["host", "time", "environment", "noop"];

/// Records reports, each once.
#[derive(Debug, Clone)]
pub(crate) struct OtherRunRecorder {
    history: HistoryRecorder,
    state_dir: PathBuf,
}

impl OtherRunRecorder {
    /// `state_dir`: that of the agent `puppet`.
    pub(crate) fn new(history: HistoryRecorder, state_dir: PathBuf) -> Self {
        Self { history, state_dir }
    }

    /// Records the newest report, unless it was recorded before. Blocks.
    pub(crate) fn record_report(
        &self,
        paths: &PuppetPaths,
        system: &dyn System,
    ) -> SystemResult<()> {
        let Some(report) = activity::read_report(system, paths)? else { return Ok(()) };
        if self.is_recorded(&report)? {
            return Ok(());
        }
        let transaction = report.text_field("transaction_uuid");
        // Puppet 2 and 3 give a run no id; their reports have a time.
        let run = transaction.and_then(|id| Uuid::try_parse(&id).ok()).unwrap_or_else(Uuid::now_v7);
        for (number, event) in (0..).zip(run_events(run, &report)) {
            self.history.record_numbered(number, event);
        }
        self.note_recorded(&report)
    }

    /// A damaged file costs a second record, which the history does not take.
    fn is_recorded(&self, report: &PuppetRunReport) -> SystemResult<bool> {
        let state = StateDir::open(&self.state_dir)?;
        let recorded = state.read_record::<ReportIdentity>(RECORDED_FILE, MAX_RECORDED_BYTES);
        Ok(recorded.ok().flatten() == Some(report.report_identity()))
    }

    /// Notes that this report is recorded. Blocks.
    pub(crate) fn note_recorded(&self, report: &PuppetRunReport) -> SystemResult<()> {
        let state = StateDir::open(&self.state_dir)?;
        state.replace_record(RECORDED_FILE, &report.report_identity())
    }

    /// Whether the fleet has a history.
    pub(crate) fn is_wanted(&self) -> bool {
        self.history.is_wanted()
    }
}

/// All events of a run that has ended, from its report.
fn run_events(run: Uuid, report: &PuppetRunReport) -> Vec<HistoryEvent> {
    let values = report.values();
    let value = |name: &&str| Some(((*name).to_owned(), values.get(*name)?.clone()));
    let start: Map<String, Value> = START_VALUES.iter().filter_map(value).collect();
    let cause = RunCause { engine: PUPPET_ENGINE.to_owned(), ..RunCause::default() };
    let mut events = vec![HistoryEvent::Start { run, cause, report: start }];
    let logs = values.get("logs").and_then(Value::as_array).into_iter().flatten();
    let log = |log: &Value| Some(HistoryEvent::Log { run, log: log.as_object()?.clone() });
    events.extend(logs.filter_map(log));
    events.extend(resource_events(run, report));
    events.push(end_event(run, values.clone()));
    events
}
