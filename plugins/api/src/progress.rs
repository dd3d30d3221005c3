//! What an action tells while it runs: a bounded buffer between the action, which never waits, and whoever sends it on.
//!
//! What does not fit is given up and counted, never silently. How fast it travels is the daemon's business.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Most events that wait to be sent.
const EVENTS: usize = 4096;
/// Most bytes of events that wait to be sent, as JSON.
const BYTES: usize = 256 * 1024;
/// Largest event, as JSON, in bytes.
pub const EVENT_BYTES: usize = 16 * 1024;

/// Where an action puts its events. Clones are the same place. Where nobody listens, events go nowhere and cost nothing.
#[derive(Clone, Default)]
pub struct Sink(Option<Arc<Shared>>);

/// Where the daemon takes them from.
pub struct Source(Arc<Shared>);

#[derive(Default)]
struct Shared {
    buffer: Mutex<Buffer>,
    added: Notify,
    closed: CancellationToken,
}

#[derive(Default)]
struct Buffer {
    events: VecDeque<(usize, Value)>,
    bytes: usize,
    dropped: u64,
}

/// A sink and its source, empty.
pub fn channel() -> (Sink, Source) {
    let shared = Arc::new(Shared::default());
    (Sink(Some(Arc::clone(&shared))), Source(shared))
}

impl Sink {
    /// Whether somebody wants to hear of progress. An action may leave out work that only serves its telling.
    pub fn is_wanted(&self) -> bool {
        self.0.is_some()
    }

    /// Tells of an event; tells back whether it will be sent. Never waits. An event that is larger than [`EVENT_BYTES`], or
    /// comes faster than events are sent, is given up and counted. Sensitive values must not be in it.
    pub fn emit(&self, event: Value) -> bool {
        let Some(shared) = &self.0 else { return false };
        let size = serde_json::to_vec(&event).map_or(usize::MAX, |json| json.len());
        let mut buffer = shared.lock();
        let room = buffer.events.len() < EVENTS && buffer.bytes.saturating_add(size) <= BYTES;
        if shared.closed.is_cancelled() || size > EVENT_BYTES || !room {
            buffer.dropped = buffer.dropped.saturating_add(1);
            return false;
        }
        buffer.bytes += size;
        buffer.events.push_back((size, event));
        drop(buffer);
        shared.added.notify_one();
        true
    }
}

impl Source {
    /// Waits for events, and takes those that fit into so many bytes of JSON, at least one. `None` after the last one, once
    /// the source is closed.
    pub async fn take(&self, bytes: usize) -> Option<Vec<Value>> {
        loop {
            {
                let mut buffer = self.0.lock();
                if !buffer.events.is_empty() {
                    return Some(buffer.take(bytes));
                }
                if self.0.closed.is_cancelled() {
                    return None;
                }
            }
            tokio::select! {
                () = self.0.added.notified() => {}
                () = self.0.closed.cancelled() => {}
            }
        }
    }

    /// The action is over: what it still says is given up.
    pub fn close(&self) {
        // Under the lock: whoever emits has done it before, or sees it.
        let _buffer = self.0.lock();
        self.0.closed.cancel();
    }

    /// Returns when the source is closed.
    pub async fn closed(&self) {
        self.0.closed.cancelled().await;
    }

    /// How many events were given up so far.
    pub fn dropped(&self) -> u64 {
        self.0.lock().dropped
    }

    /// Gives up what was taken and cannot be sent, and all that waits.
    pub fn give_up(&self, taken: usize) {
        let mut buffer = self.0.lock();
        let lost = taken.saturating_add(buffer.events.len());
        buffer.dropped = buffer
            .dropped
            .saturating_add(u64::try_from(lost).unwrap_or(u64::MAX));
        buffer.events.clear();
        buffer.bytes = 0;
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Buffer> {
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Buffer {
    fn take(&mut self, bytes: usize) -> Vec<Value> {
        let (mut taken, mut used) = (Vec::new(), 0_usize);
        while let Some((size, _)) = self.events.front() {
            used = used.saturating_add(*size);
            if used > bytes && !taken.is_empty() {
                break;
            }
            if let Some((size, event)) = self.events.pop_front() {
                self.bytes -= size;
                taken.push(event);
            }
        }
        taken
    }
}

impl fmt::Debug for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sink")
            .field("wanted", &self.is_wanted())
            .finish()
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{EVENT_BYTES, EVENTS, Sink, channel};

    #[tokio::test]
    async fn events_come_in_order_and_in_portions() {
        let (sink, source) = channel();
        for number in 0..10 {
            assert!(sink.emit(json!(number)));
        }
        assert_eq!(source.take(3).await.unwrap(), [0, 1, 2].map(|n| json!(n)));
        source.close();
        assert!(!sink.emit(json!("late")));
        assert_eq!(source.take(1000).await.unwrap().len(), 7);
        assert_eq!(source.take(1000).await, None);
        assert_eq!(source.dropped(), 1);
    }

    #[tokio::test]
    async fn a_flood_is_counted_and_never_waits() {
        let (sink, source) = channel();
        assert!(!sink.emit(json!("x".repeat(EVENT_BYTES))));
        let kept = (0..EVENTS + 5).filter(|n| sink.emit(json!(n))).count();
        assert_eq!((kept, source.dropped()), (EVENTS, 6));
        source.give_up(1);
        assert_eq!(source.dropped(), 6 + 1 + EVENTS as u64);
        assert!(sink.emit(json!("again")));
    }

    #[test]
    fn nobody_listens_to_a_sink_of_its_own() {
        let sink = Sink::default();
        assert!(!sink.is_wanted() && !sink.emit(json!("x")));
    }

    #[tokio::test]
    async fn both_the_taker_and_the_one_who_waits_for_the_end_are_woken() {
        let (sink, source) = channel();
        let (taken, (), ()) = tokio::join!(source.take(10), source.closed(), async {
            tokio::task::yield_now().await;
            source.close();
        });
        assert_eq!(taken, None);
        drop(sink);
    }
}
