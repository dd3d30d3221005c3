//! Records a run of the engine as it happens.

use muster_api::HistoryRecorder;
use muster_api::base::error_chain;
use muster_api::wire::history::{HistoryEvent, RunCause};
use muster_contract::write_values;
use muster_engine::report::{RunEvent, RunReport};
use muster_engine::run::CatalogRunError;
use uuid::Uuid;

use super::end_event;

/// The record of one run.
#[derive(Debug)]
pub struct EngineRunRecorder {
    history: HistoryRecorder,
    run: Uuid,
    cause: RunCause,
    /// Events so far; without one, the run has not begun.
    events: u64,
}

impl EngineRunRecorder {
    /// `run`: the id of the run, which is that of its transaction.
    pub fn new(history: HistoryRecorder, run: Uuid, cause: RunCause) -> Self {
        Self { history, run, cause, events: 0 }
    }

    /// The id of the run.
    pub fn run(&self) -> Uuid {
        self.run
    }

    /// Records an event of the run.
    pub fn observe(&mut self, event: &RunEvent) {
        let run = self.run;
        let event = match event {
            RunEvent::Start(start) => {
                HistoryEvent::Start { run, cause: self.cause.clone(), report: write_values(start) }
            }
            RunEvent::Log(log) => HistoryEvent::Log { run, log: write_values(log) },
            RunEvent::Resource(status) => {
                HistoryEvent::Resource { run, status: write_values(status) }
            }
            // The report has what it says, and the counters.
            RunEvent::End(_) => return,
        };
        self.record(event);
    }

    /// Ends the record. A run that has not begun has none.
    pub fn finish(mut self, ended: Result<&RunReport, &CatalogRunError>) {
        if self.events == 0 {
            return;
        }
        let run = self.run;
        self.record(match ended {
            Ok(report) => end_event(run, write_values(report)),
            Err(error) => HistoryEvent::Aborted { run, reason: error_chain(error) },
        });
    }

    fn record(&mut self, event: HistoryEvent) {
        self.history.record_numbered(self.events, event);
        self.events += 1;
    }
}
