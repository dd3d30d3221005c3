//! Records a run of Puppet: its log while it grows, then what its report says.
//!
//! Puppet writes the report at its end. Until then, what a resource changed is derived from the log; the status in the report replaces it. A daemon that resumes
//! the run reads the log from its beginning, so each event gets the number that it had before.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use muster_api::HistoryRecorder;
use muster_api::wire::history::{HistoryEvent, RunCause};
use muster_contract::write_values;
use muster_engine::report::{ResourceEvent, ResourceStatus, format_timestamp};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{end_event, resource_events};
use crate::files::report::PuppetRunReport;
use crate::wrapper::relations::CatalogRelations;
use crate::wrapper::trace::{TraceEvent, TraceLine};

/// Log lines before there is a catalog. A run that another one keeps from beginning has a few.
const MAX_WAITING_LINES: usize = 256;

/// The record of one run. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct PuppetRunRecorder(Arc<Mutex<RunRecord>>);

#[derive(Debug)]
struct RunRecord {
    history: HistoryRecorder,
    run: Uuid,
    cause: RunCause,
    /// The beginning of the report.
    start: Map<String, Value>,
    /// The lines before there was a catalog; `None` once the run has begun.
    waiting: Option<Vec<TraceLine>>,
    events: u64,
    evaluated: Option<EvaluatedResource>,
}

/// A resource whose evaluation has begun.
#[derive(Debug)]
struct EvaluatedResource {
    /// Its path in the log.
    source: String,
    status: ResourceStatus,
}

impl PuppetRunRecorder {
    /// `start`: what is known of the report when the run begins.
    pub(crate) fn new(
        history: HistoryRecorder,
        run: Uuid,
        cause: RunCause,
        start: Map<String, Value>,
    ) -> Self {
        let (waiting, evaluated) = (Some(Vec::new()), None);
        let record = RunRecord { history, run, cause, start, waiting, events: 0, evaluated };
        Self(Arc::new(Mutex::new(record)))
    }

    /// Records a line of the log.
    pub(crate) fn observe(&self, line: &TraceLine) {
        let mut record = self.lock();
        let Some(waiting) = &mut record.waiting else { return record.record_line(line) };
        waiting.push(line.clone());
        let has_catalog =
            matches!(line.classify_line(), TraceEvent::Applying | TraceEvent::Started);
        if has_catalog || waiting.len() > MAX_WAITING_LINES {
            record.begin();
        }
    }

    /// Ends the record with the report, or with the reason why there is none.
    pub(crate) fn finish(&self, report: Option<&PuppetRunReport>, problem: &str) {
        let mut record = self.lock();
        record.begin();
        record.end_evaluation();
        let run = record.run;
        let Some(report) = report else {
            return record.record(HistoryEvent::Aborted { run, reason: problem.to_owned() });
        };
        for event in resource_events(run, report) {
            record.record(event);
        }
        record.record(end_event(run, report.values().clone()));
    }

    fn lock(&self) -> MutexGuard<'_, RunRecord> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RunRecord {
    fn record(&mut self, event: HistoryEvent) {
        self.history.record_numbered(self.events, event);
        self.events += 1;
    }

    fn begin(&mut self) {
        let Some(waiting) = self.waiting.take() else { return };
        let (run, cause, report) = (self.run, self.cause.clone(), self.start.clone());
        self.record(HistoryEvent::Start { run, cause, report });
        for line in &waiting {
            self.record_line(line);
        }
    }

    fn record_line(&mut self, line: &TraceLine) {
        self.record(HistoryEvent::Log { run: self.run, log: write_values(line) });
        let event = line.classify_line();
        match event {
            TraceEvent::Started if line.source.starts_with('/') => {
                self.evaluated = Some(EvaluatedResource::begin(line));
            }
            TraceEvent::Evaluated => self.end_evaluation(),
            _ => {
                if let Some(evaluated) = &mut self.evaluated {
                    evaluated.note_line(line, &event);
                }
            }
        }
    }

    fn end_evaluation(&mut self) {
        let evaluated = self.evaluated.take().filter(|found| !found.status.events.is_empty());
        if let Some(EvaluatedResource { status, .. }) = evaluated {
            self.record(HistoryEvent::Resource { run: self.run, status: write_values(&status) });
        }
    }
}

impl EvaluatedResource {
    fn begin(line: &TraceLine) -> Self {
        let resource = CatalogRelations::default().resource_for_source(&line.source);
        let (type_name, title) = resource.split_once('[').unwrap_or_default();
        let status = ResourceStatus {
            title: title.trim_end_matches(']').to_owned(),
            resource_type: type_name.to_owned(),
            time: logged_at(line),
            resource,
            ..ResourceStatus::default()
        };
        Self { source: line.source.clone(), status }
    }

    /// Adds what the line says that was changed, or would have been.
    fn note_line(&mut self, line: &TraceLine, event: &TraceEvent) {
        let status = match event {
            TraceEvent::Changed | TraceEvent::Triggered => "success",
            TraceEvent::Noop | TraceEvent::WouldTrigger => "noop",
            TraceEvent::Failed | TraceEvent::RefreshFailed { .. } => "failure",
            _ => return,
        };
        let Some(rest) = line.source.strip_prefix(&self.source) else { return };
        let property = rest.strip_prefix('/').map(str::to_owned);
        let name = match (&property, status) {
            (_, "failure") => "resource_error".to_owned(),
            (Some(property), _) => format!("{property}_changed"),
            (None, _) => "restarted".to_owned(),
        };
        self.status.add_event(ResourceEvent {
            audited: false,
            property,
            previous_value: Value::Null,
            desired_value: Value::Null,
            historical_value: Value::Null,
            message: line.message.clone(),
            name,
            status,
            time: logged_at(line),
            redacted: None,
            corrective_change: false,
        });
    }
}

fn logged_at(line: &TraceLine) -> String {
    line.time.clone().unwrap_or_else(|| format_timestamp(SystemTime::now()))
}

/// What is known of the report when a run begins.
pub(crate) fn start_values(host: &str, is_noop: bool, time: SystemTime) -> Map<String, Value> {
    let start = json!({"host": host, "time": format_timestamp(time), "noop": is_noop});
    start.as_object().cloned().unwrap_or_default()
}
