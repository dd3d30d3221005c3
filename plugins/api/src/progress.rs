//! Progress of a running action: a bounded buffer between the action, which never waits, and the task that sends the events.
//!
//! Events that do not fit are dropped and counted. The daemon controls the send rate.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Maximum number of queued events.
const MAX_QUEUED_EVENTS: usize = 4096;
/// Maximum size of the queued events, in bytes of JSON.
const MAX_QUEUED_BYTES: usize = 256 * 1024;
/// Maximum size of one event, in bytes of JSON.
pub const MAX_EVENT_BYTES: usize = 16 * 1024;

/// Accepts an action's events. Clones share one buffer. Without a subscriber, events are discarded at no cost.
#[derive(Clone, Default)]
pub struct ProgressSink(Option<Arc<ProgressChannel>>);

/// The daemon's end of the buffer.
pub struct ProgressSource(Arc<ProgressChannel>);

#[derive(Default)]
struct ProgressChannel {
    buffer: Mutex<EventBuffer>,
    added: Notify,
    closed: CancellationToken,
}

#[derive(Default)]
struct EventBuffer {
    events: VecDeque<(usize, Value)>,
    bytes: usize,
    dropped: u64,
}

/// Creates an empty sink and its source.
pub fn progress_channel() -> (ProgressSink, ProgressSource) {
    let shared = Arc::new(ProgressChannel::default());
    (ProgressSink(Some(Arc::clone(&shared))), ProgressSource(shared))
}

impl ProgressSink {
    /// Whether the caller requested progress. An action may skip work that only produces progress events.
    pub fn is_wanted(&self) -> bool {
        self.0.is_some()
    }

    /// Emits an event; returns whether it is queued. Never waits. An event larger than [`MAX_EVENT_BYTES`], or one that arrives while the queue is
    /// full, is dropped and counted. Events must not contain sensitive values.
    pub fn emit_event(&self, event: Value) -> bool {
        let Some(shared) = &self.0 else { return false };
        let size = serde_json::to_vec(&event).map_or(usize::MAX, |json| json.len());
        let mut buffer = shared.lock_buffer();
        let fits = buffer.events.len() < MAX_QUEUED_EVENTS
            && buffer.bytes.saturating_add(size) <= MAX_QUEUED_BYTES;
        if shared.closed.is_cancelled() || size > MAX_EVENT_BYTES || !fits {
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

impl ProgressSource {
    /// Waits for events and takes as many as fit into `bytes` of JSON, at least one. Returns `None` after the last event, once the source is
    /// closed.
    pub async fn take_events(&self, bytes: usize) -> Option<Vec<Value>> {
        loop {
            {
                let mut buffer = self.0.lock_buffer();
                if !buffer.events.is_empty() {
                    return Some(buffer.take_events(bytes));
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

    /// Marks the action as ended; later events are dropped.
    pub fn close(&self) {
        // Holds the lock: a concurrent emit either completed before, or observes the closed state.
        let _buffer = self.0.lock_buffer();
        self.0.closed.cancel();
    }

    /// Returns when the source is closed.
    pub async fn wait_closed(&self) {
        self.0.closed.cancelled().await;
    }

    /// The number of events dropped so far.
    pub fn dropped_events(&self) -> u64 {
        self.0.lock_buffer().dropped
    }

    /// Drops `taken` events that could not be sent, and all queued events.
    pub fn discard_pending(&self, taken: usize) {
        let mut buffer = self.0.lock_buffer();
        let lost = taken.saturating_add(buffer.events.len());
        buffer.dropped = buffer.dropped.saturating_add(u64::try_from(lost).unwrap_or(u64::MAX));
        buffer.events.clear();
        buffer.bytes = 0;
    }
}

impl ProgressChannel {
    fn lock_buffer(&self) -> MutexGuard<'_, EventBuffer> {
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventBuffer {
    fn take_events(&mut self, bytes: usize) -> Vec<Value> {
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

impl fmt::Debug for ProgressSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sink").field("wanted", &self.is_wanted()).finish()
    }
}

impl fmt::Debug for ProgressSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{MAX_EVENT_BYTES, MAX_QUEUED_EVENTS, ProgressSink, progress_channel};

    #[tokio::test]
    async fn events_are_taken_in_order_and_in_batches() {
        let (sink, source) = progress_channel();
        for number in 0..10 {
            assert!(sink.emit_event(json!(number)));
        }
        assert_eq!(source.take_events(3).await.unwrap(), [0, 1, 2].map(|n| json!(n)));
        source.close();
        assert!(!sink.emit_event(json!("late")));
        assert_eq!(source.take_events(1000).await.unwrap().len(), 7);
        assert_eq!(source.take_events(1000).await, None);
        assert_eq!(source.dropped_events(), 1);
    }

    #[tokio::test]
    async fn excess_events_are_dropped_and_counted_without_waiting() {
        let (sink, source) = progress_channel();
        assert!(!sink.emit_event(json!("x".repeat(MAX_EVENT_BYTES))));
        let kept = (0..MAX_QUEUED_EVENTS + 5).filter(|n| sink.emit_event(json!(n))).count();
        assert_eq!((kept, source.dropped_events()), (MAX_QUEUED_EVENTS, 6));
        source.discard_pending(1);
        assert_eq!(source.dropped_events(), 6 + 1 + MAX_QUEUED_EVENTS as u64);
        assert!(sink.emit_event(json!("again")));
    }

    #[test]
    fn default_sink_discards_events() {
        let sink = ProgressSink::default();
        assert!(!sink.is_wanted() && !sink.emit_event(json!("x")));
    }

    #[tokio::test]
    async fn close_wakes_both_waiting_tasks() {
        let (sink, source) = progress_channel();
        let (taken, (), ()) = tokio::join!(source.take_events(10), source.wait_closed(), async {
            tokio::task::yield_now().await;
            source.close();
        });
        assert_eq!(taken, None);
        drop(sink);
    }
}
