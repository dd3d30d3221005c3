//! Beside stage 7: what the running action tells, signed, to the caller's own inbox, if the caller wants to hear it.
//!
//! Never more messages than the broker lets a node answer, however long the action runs: what comes meanwhile travels
//! together. The reply that follows says how many messages there were, so that a lost one is missed.

use std::time::Duration;

use muster_api::progress::ProgressSource;
use muster_bus::Bus;
use muster_wire::identity::SubjectName;
use muster_wire::progress::{MAX_PROGRESS_MESSAGES, ProgressCounts, ProgressMessage};
use muster_wire::sign::{EnvelopeKind, sign_envelope};
use tokio::time::Instant;
use uuid::Uuid;

use crate::core::DaemonCore;

/// Who wants to hear of what.
#[derive(Debug)]
pub(super) struct ProgressListener {
    /// The caller's own inbox.
    pub(super) to: String,
    /// The request.
    pub(super) request: Uuid,
    /// The agent that was asked.
    pub(super) agent: SubjectName,
    /// The action that was asked.
    pub(super) action: SubjectName,
}

/// Most bytes of events in one message; with the envelope it stays below what callers decode.
const MAX_BATCH_BYTES: usize = 48 * 1024;

/// How long to wait after the n-th message before the next one: quick at first, then so that an hour does not use them up.
fn pause_after(sent: u64) -> Duration {
    match sent {
        0..200 => Duration::from_millis(200),
        200..500 => Duration::from_secs(1),
        _ => Duration::from_secs(8),
    }
}

/// Sends what the source gives until it is closed and empty, and answers how much that was.
pub(super) async fn send_progress(
    core: &DaemonCore,
    listener: &ProgressListener,
    bus: &Bus,
    source: &ProgressSource,
) -> ProgressCounts {
    let mut messages = 0;
    while let Some(events) = source.take_events(MAX_BATCH_BYTES).await {
        let count = events.len();
        let progress = ProgressMessage {
            request: listener.request,
            sender: core.identity().clone(),
            agent: listener.agent.clone(),
            action: listener.action.clone(),
            seq: messages + 1,
            events,
            dropped: source.dropped_events(),
            time: core.clock.now(),
        };
        let sent = match sign_envelope(EnvelopeKind::Progress, &progress, &core.signer) {
            Ok(payload) if messages < MAX_PROGRESS_MESSAGES => {
                bus.publish(&listener.to, payload.into()).await.is_ok()
            }
            _ => false,
        };
        if sent {
            messages += 1;
        } else {
            source.discard_pending(count);
        }
        let next = Instant::now() + pause_after(messages);
        tokio::select! {
            () = tokio::time::sleep_until(next) => {}
            () = source.wait_closed() => {}
        }
    }
    ProgressCounts {
        messages,
        dropped: source.dropped_events(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use muster_wire::progress::MAX_PROGRESS_MESSAGES;

    use super::pause_after;

    #[test]
    fn an_hour_of_talk_fits_into_what_the_broker_allows() {
        let all: Duration = (0..MAX_PROGRESS_MESSAGES).map(pause_after).sum();
        assert!(all > Duration::from_hours(1), "{all:?}");
        assert!(pause_after(0) < Duration::from_secs(1));
    }
}
