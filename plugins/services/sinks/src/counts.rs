//! What a sink has delivered, has given up and has before it, for the metrics.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The counts of one sink.
#[derive(Debug, Default)]
pub struct EventSinkCounts {
    delivered: AtomicU64,
    dead: AtomicU64,
    waiting: AtomicU64,
    failing_since: AtomicU64,
}

/// A sink with its counts.
#[derive(Debug, Clone)]
pub struct SinkStatus {
    pub name: String,
    pub counts: Arc<EventSinkCounts>,
}

impl EventSinkCounts {
    /// Events that the target has taken.
    pub fn delivered(&self) -> u64 {
        self.delivered.load(Ordering::Relaxed)
    }

    /// Events that went to the dead letters.
    pub fn dead_letters(&self) -> u64 {
        self.dead.load(Ordering::Relaxed)
    }

    /// Events that were not read yet, before the filter of the sink.
    pub fn waiting(&self) -> u64 {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Since when the target takes nothing, in milliseconds since the epoch; `None` while it does.
    pub fn failing_since(&self) -> Option<u64> {
        Some(self.failing_since.load(Ordering::Relaxed)).filter(|time| *time > 0)
    }

    pub(crate) fn add_delivered(&self, events: usize) {
        self.delivered.fetch_add(events as u64, Ordering::Relaxed);
    }

    pub(crate) fn add_dead_letter(&self) {
        self.dead.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn set_waiting(&self, events: u64) {
        self.waiting.store(events, Ordering::Relaxed);
    }

    pub(crate) fn note_failing(&self, now: u64) {
        let order = Ordering::Relaxed;
        let _ = self.failing_since.compare_exchange(0, now, order, order);
    }

    pub(crate) fn note_answer(&self) {
        self.failing_since.store(0, Ordering::Relaxed);
    }
}
