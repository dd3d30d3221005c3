//! Records a run of the engine in the fleet's history, as it happens.

use std::sync::Arc;

use muster_api::NodeHandle;
use muster_engine::report::{RunEvent, RunReport};
use muster_wire::history::{HistoryEvent, RunCause};
use serde::Serialize;
use serde_json::{Map, Value};
use uuid::Uuid;

/// Values of a report that have events of their own.
const SEPARATE_VALUES: [&str; 2] = ["logs", "resource_statuses"];

/// The record of one run.
#[derive(Debug)]
pub(crate) struct RunRecorder {
    node: Arc<dyn NodeHandle>,
    run: Uuid,
    cause: RunCause,
    has_begun: bool,
}

impl RunRecorder {
    pub(crate) fn new(node: Arc<dyn NodeHandle>, run: Uuid, cause: RunCause) -> Self {
        Self { node, run, cause, has_begun: false }
    }

    pub(crate) fn observe(&mut self, event: &RunEvent) {
        let run = self.run;
        let event = match event {
            RunEvent::Start(start) => {
                self.has_begun = true;
                HistoryEvent::Start { run, cause: self.cause.clone(), report: to_map(start) }
            }
            RunEvent::Log(log) => HistoryEvent::Log { run, log: to_map(log) },
            RunEvent::Resource(status) => HistoryEvent::Resource { run, status: to_map(status) },
            // The report has what it says, and the counters.
            RunEvent::End(_) => return,
        };
        self.node.record_history(event);
    }

    /// Ends the record. A run that has not begun has none.
    pub(crate) fn finish<E: std::fmt::Display>(self, ended: Result<&RunReport, &E>) {
        if !self.has_begun {
            return;
        }
        let run = self.run;
        self.node.record_history(match ended {
            Ok(report) => {
                let mut report = to_map(report);
                report.retain(|name, _| !SEPARATE_VALUES.contains(&name.as_str()));
                HistoryEvent::End { run, report }
            }
            Err(error) => HistoryEvent::Aborted { run, reason: error.to_string() },
        });
    }
}

fn to_map(value: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(value) {
        Ok(Value::Object(map)) => map,
        Ok(_) | Err(_) => Map::new(),
    }
}
