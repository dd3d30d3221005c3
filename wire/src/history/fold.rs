//! The report of a run from its events.

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{HistoryEvent, RunCause};

/// A run, as far as its events are known.
#[derive(Debug, Clone, PartialEq)]
pub struct FoldedRun {
    /// Id of the run.
    pub run: Uuid,
    /// Why it ran.
    pub cause: RunCause,
    /// The report in Puppet's format 12, JSON. Of a run without an end it has the events so far.
    pub report: Map<String, Value>,
    /// Whether the run ended by itself.
    pub is_complete: bool,
    /// Why it was cut off.
    pub aborted: Option<String>,
}

/// Folds the events of one run, in order. `None` without the start of a run.
pub fn fold_run<'a>(events: impl IntoIterator<Item = &'a HistoryEvent>) -> Option<FoldedRun> {
    let mut folded: Option<FoldedRun> = None;
    let (mut logs, mut statuses) = (Vec::new(), Map::new());
    for event in events {
        match event {
            HistoryEvent::Start { run, cause, report } => {
                let (run, cause, report) = (*run, cause.clone(), report.clone());
                folded = Some(FoldedRun { run, cause, report, is_complete: false, aborted: None });
            }
            HistoryEvent::Log { log, .. } => logs.push(Value::Object(log.clone())),
            HistoryEvent::Resource { status, .. } => {
                let name = status.get("resource").and_then(Value::as_str).unwrap_or_default();
                statuses.insert(name.to_owned(), Value::Object(status.clone()));
            }
            HistoryEvent::End { report, .. } => {
                if let Some(folded) = &mut folded {
                    folded.report.extend(report.clone());
                    folded.is_complete = true;
                }
            }
            HistoryEvent::Aborted { reason, .. } => {
                if let Some(folded) = &mut folded {
                    folded.aborted = Some(reason.clone());
                }
            }
            HistoryEvent::Audit { .. } | HistoryEvent::Unknown => {}
        }
    }
    let mut folded = folded?;
    if !folded.is_complete {
        let end = json!({"status": "failed", "transaction_completed": false});
        folded.report.extend(end.as_object().cloned().unwrap_or_default());
    }
    folded.report.insert("logs".to_owned(), Value::Array(logs));
    folded.report.insert("resource_statuses".to_owned(), Value::Object(statuses));
    Some(folded)
}
