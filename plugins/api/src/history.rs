//! Records in the fleet's history what happens on the node.

use std::fmt;
use std::sync::Arc;

use muster_wire::history::HistoryEvent;

/// What keeps the records until the fleet's history has them.
pub trait HistorySink: fmt::Debug + Send + Sync {
    /// Whether the fleet has a history.
    fn is_wanted(&self) -> bool;
    /// Writes a record. Blocks for the time of a write to the page cache. `number`: that of the event in its run, if it has one.
    fn record(&self, number: Option<u64>, event: HistoryEvent);
}

/// Records what happens. Without a sink it does nothing. Clones share the sink.
#[derive(Debug, Clone, Default)]
pub struct HistoryRecorder(Option<Arc<dyn HistorySink>>);

impl HistoryRecorder {
    /// Records into this sink.
    pub fn new(sink: Arc<dyn HistorySink>) -> Self {
        Self(Some(sink))
    }

    /// Whether records are kept. If not, the work of making them can be saved.
    pub fn is_wanted(&self) -> bool {
        self.0.as_ref().is_some_and(|sink| sink.is_wanted())
    }

    /// Records something that belongs to no run.
    pub fn record(&self, event: HistoryEvent) {
        if let Some(sink) = &self.0 {
            sink.record(None, event);
        }
    }

    /// Records an event of a run. The history takes each number of a run once.
    pub fn record_numbered(&self, number: u64, event: HistoryEvent) {
        if let Some(sink) = &self.0 {
            sink.record(Some(number), event);
        }
    }
}
