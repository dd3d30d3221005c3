//! Records a run of the engine in the fleet's history, as it happens.

use std::sync::Arc;

use muster_api::NodeHandle;
use muster_api::base::error_chain;
use muster_contract::write_values;
use muster_engine::report::{RunEvent, RunReport};
use muster_engine::run::CatalogRunError;
use muster_wire::history::{HistoryEvent, RunCause};
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
                HistoryEvent::Start { run, cause: self.cause.clone(), report: write_values(start) }
            }
            RunEvent::Log(log) => HistoryEvent::Log { run, log: write_values(log) },
            RunEvent::Resource(status) => {
                HistoryEvent::Resource { run, status: write_values(status) }
            }
            // The report has what it says, and the counters.
            RunEvent::End(_) => return,
        };
        self.node.record_history(event);
    }

    /// Ends the record. A run that has not begun has none.
    pub(crate) fn finish(self, ended: Result<&RunReport, &CatalogRunError>) {
        if !self.has_begun {
            return;
        }
        let run = self.run;
        self.node.record_history(match ended {
            Ok(report) => {
                let mut report = write_values(report);
                report.retain(|name, _| !SEPARATE_VALUES.contains(&name.as_str()));
                HistoryEvent::End { run, report }
            }
            Err(error) => HistoryEvent::Aborted { run, reason: error_chain(error) },
        });
    }
}
