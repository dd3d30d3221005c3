//! What was sent, was refused and waits, for the metrics.

use std::sync::atomic::{AtomicU64, Ordering};

use super::command::CommandKind;

/// The counts of a sink.
#[derive(Debug, Default)]
pub struct SinkCounts {
    kinds: [KindCounter; CommandKind::ALL.len()],
    last_sent: AtomicU64,
    failing_since: AtomicU64,
}

#[derive(Debug, Default)]
struct KindCounter {
    sent: AtomicU64,
    failed: AtomicU64,
    waiting: AtomicU64,
}

/// The counts of one kind of command.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KindCounts {
    /// Commands that were accepted.
    pub sent: u64,
    /// Commands that went to the dead letters.
    pub failed: u64,
    /// What is known to wait.
    pub waiting: u64,
}

impl SinkCounts {
    pub fn of(&self, kind: CommandKind) -> KindCounts {
        let counter = self.counter(kind);
        let read = |number: &AtomicU64| number.load(Ordering::Relaxed);
        KindCounts {
            sent: read(&counter.sent),
            failed: read(&counter.failed),
            waiting: read(&counter.waiting),
        }
    }

    /// When the last command was accepted, in milliseconds since the epoch; `None` before the first.
    pub fn last_sent(&self) -> Option<u64> {
        Some(self.last_sent.load(Ordering::Relaxed)).filter(|time| *time > 0)
    }

    /// Since when `PuppetDB` does not accept commands; `None` while it does.
    pub fn failing_since(&self) -> Option<u64> {
        Some(self.failing_since.load(Ordering::Relaxed)).filter(|time| *time > 0)
    }

    pub(super) fn add_sent(&self, kind: CommandKind, now: u64) {
        self.counter(kind).sent.fetch_add(1, Ordering::Relaxed);
        self.last_sent.store(now, Ordering::Relaxed);
        self.failing_since.store(0, Ordering::Relaxed);
    }

    pub(super) fn add_failed(&self, kind: CommandKind) {
        self.counter(kind).failed.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn note_failing(&self, now: u64) {
        let order = Ordering::Relaxed;
        let _ = self.failing_since.compare_exchange(0, now, order, order);
    }

    pub(super) fn set_waiting(&self, kind: CommandKind, count: usize) {
        self.counter(kind).waiting.store(count as u64, Ordering::Relaxed);
    }

    fn counter(&self, kind: CommandKind) -> &KindCounter {
        let [facts, catalog, inputs, report] = &self.kinds;
        match kind {
            CommandKind::Facts => facts,
            CommandKind::Catalog => catalog,
            CommandKind::Inputs => inputs,
            CommandKind::Report => report,
        }
    }
}
