//! The daemon's counters. Counting never waits.

use std::sync::atomic::{AtomicU64, Ordering};

use muster_api::CounterSnapshot;
use muster_wire::Millis;

#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn increment(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counters of one daemon; see [`CounterSnapshot`] for their meaning.
#[derive(Debug, Default)]
pub struct MessageCounters {
    pub total: Counter,
    pub validated: Counter,
    pub unvalidated: Counter,
    pub passed: Counter,
    pub filtered: Counter,
    pub ttlexpired: Counter,
    pub replayed: Counter,
    pub denied: Counter,
    pub replies: Counter,
}

impl MessageCounters {
    pub fn to_snapshot(&self, started: Millis) -> CounterSnapshot {
        CounterSnapshot {
            total: self.total.get(),
            validated: self.validated.get(),
            unvalidated: self.unvalidated.get(),
            passed: self.passed.get(),
            filtered: self.filtered.get(),
            ttlexpired: self.ttlexpired.get(),
            replayed: self.replayed.get(),
            denied: self.denied.get(),
            replies: self.replies.get(),
            starttime: started / 1000,
        }
    }
}
