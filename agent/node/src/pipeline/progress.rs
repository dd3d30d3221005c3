//! Parallel to stage 7: sends the progress of the running action, signed, to the caller's own inbox, if the caller requested it.
//!
//! The number of messages stays below the broker's limit on responses, however long the action runs: events in between are batched. The reply
//! contains the number of messages, so that the caller detects a lost one.

use std::time::Duration;

use muster_api::progress::ProgressSource;
use muster_bus::Bus;
use muster_wire::identity::SubjectName;
use muster_wire::progress::{MAX_PROGRESS_MESSAGES, ProgressCounts, ProgressMessage};
use muster_wire::sign::{EnvelopeKind, sign_envelope};
use tokio::time::Instant;
use uuid::Uuid;

use crate::core::DaemonCore;

#[derive(Debug)]
pub(super) struct ProgressListener {
    /// The caller's own inbox.
    pub(super) inbox: String,
    pub(super) request: Uuid,
    pub(super) agent: SubjectName,
    pub(super) action: SubjectName,
}

/// Maximum size of events in one message, in bytes; with the envelope it stays below the limit that callers decode.
const MAX_BATCH_BYTES: usize = 48 * 1024;

/// Pause after the n-th message: short at first, then long enough that the message limit lasts for an hour.
fn pause_after(sent: u64) -> Duration {
    match sent {
        0..200 => Duration::from_millis(200),
        200..500 => Duration::from_secs(1),
        _ => Duration::from_secs(8),
    }
}

/// Sends the source's events until it is closed and empty; returns the number of messages.
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
            time: core.now(),
        };
        let sent = match sign_envelope(EnvelopeKind::Progress, &progress, &core.trust.signer) {
            Ok(payload) if messages < MAX_PROGRESS_MESSAGES => {
                bus.publish(&listener.inbox, payload.into()).await.is_ok()
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
    ProgressCounts { messages, dropped: source.dropped_events() }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use muster_wire::progress::MAX_PROGRESS_MESSAGES;

    use super::pause_after;

    #[test]
    fn one_hour_of_progress_stays_within_the_message_limit() {
        let all: Duration = (0..MAX_PROGRESS_MESSAGES).map(pause_after).sum();
        assert!(all > Duration::from_hours(1), "{all:?}");
        assert!(pause_after(0) < Duration::from_secs(1));
    }
}
