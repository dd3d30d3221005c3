//! Sends events until the target has taken or refused them.

use std::slice;
use std::sync::Arc;
use std::time::{Duration, Instant};

use muster_api::LogThrottle;
use muster_base::{error_chain, format_rfc3339, unix_millis_now};
use serde::Serialize;
use serde_json::Value;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::counts::EventSinkCounts;
use crate::dead_letters::{DeadLetters, cut_reason};
use crate::delivery_error::SinkDeliveryError;
use crate::event::SinkEvent;
use crate::target::SinkTarget;

/// Pause after a failure; doubled up to the longest one.
const RETRY_DELAY: Duration = Duration::from_secs(1);
const MAX_RETRY_DELAY: Duration = Duration::from_mins(5);
/// Shortest time between two warnings.
const WARNING_INTERVAL: Duration = Duration::from_mins(10);

/// Sends to one target.
#[derive(Debug)]
pub(crate) struct EventDelivery {
    name: String,
    target: SinkTarget,
    letters: Arc<DeadLetters>,
    counts: Arc<EventSinkCounts>,
    warnings: LogThrottle,
}

/// What the file of a refused event has.
#[derive(Serialize)]
struct EventLetter<'a> {
    refused_at: String,
    reason: &'a str,
    event: &'a Value,
}

impl EventDelivery {
    pub(crate) fn new(
        name: String,
        target: SinkTarget,
        letters: DeadLetters,
        counts: Arc<EventSinkCounts>,
    ) -> Self {
        let warnings = LogThrottle::new(WARNING_INTERVAL);
        Self { name, target, letters: Arc::new(letters), counts, warnings }
    }

    /// Returns when the target has taken each event, or it is among the dead letters. Of a batch that is refused, each event is sent alone.
    pub(crate) async fn deliver(&self, events: &[SinkEvent]) {
        let Err(refusal) = self.send_until_answered(events).await else { return };
        if let [event] = events {
            return self.discard(event, &refusal).await;
        }
        for event in events {
            if let Err(refusal) = self.send_until_answered(slice::from_ref(event)).await {
                self.discard(event, &refusal).await;
            }
        }
    }

    /// The error is a refusal.
    async fn send_until_answered(&self, events: &[SinkEvent]) -> Result<(), SinkDeliveryError> {
        let mut delay = RETRY_DELAY;
        loop {
            let sent = self.target.send(events).await;
            match sent {
                Err(error) if !error.is_refusal() => self.note_failure(&error),
                answer => {
                    self.counts.note_answer();
                    self.counts.add_delivered(answer.as_ref().map_or(0, |()| events.len()));
                    return answer;
                }
            }
            sleep(delay).await;
            delay = (delay * 2).min(MAX_RETRY_DELAY);
        }
    }

    /// Returns when the event is stored: a full disk holds up what comes after it.
    async fn discard(&self, event: &SinkEvent, refusal: &SinkDeliveryError) {
        let reason = error_chain(refusal);
        loop {
            let (letters, event, reason) =
                (Arc::clone(&self.letters), event.clone(), reason.clone());
            let stored = spawn_blocking(move || {
                let now = unix_millis_now();
                let refused_at = format_rfc3339(now);
                let (reason, event) = (cut_reason(&reason), &event);
                let letter = EventLetter { refused_at, reason, event: &event.document };
                letters.store(&format!("{}-{}", event.kind.as_str(), event.node), &letter, now)
            });
            match stored.await.map_err(SinkDeliveryError::from).and_then(|stored| Ok(stored?)) {
                Ok(path) => {
                    break tracing::error!(sink = self.name, path = %path.display(), "the target of a sink refused an event; it is among the dead letters");
                }
                Err(error) => self.note_failure(&error),
            }
            sleep(RETRY_DELAY).await;
        }
        self.counts.add_dead_letter();
    }

    fn note_failure(&self, error: &SinkDeliveryError) {
        self.counts.note_failing(unix_millis_now());
        if let Some(more) = self.warnings.admit(Instant::now()) {
            let (sink, problem) = (&self.name, error_chain(error));
            tracing::warn!(sink, problem, more, "a sink cannot deliver events; trying again");
        }
    }
}
