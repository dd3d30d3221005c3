//! A node of a rollout with a request and no outcome so far, and the messages about it.

use std::time::Duration;

use muster_wire::identity::Identity;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::event::{CallEvent, CallEventStream, ReceivedReply};

/// A node that waits this long for another run of its own no longer counts against the limit.
const MAX_LOCK_WAIT: Duration = Duration::from_secs(2);
/// A node that takes longer from its request to its wait for a permit no longer delays the requests beyond the limit.
const MAX_QUEUE_WAIT: Duration = Duration::from_secs(2);

/// A message about one node, from its call or a state poll.
#[derive(Debug)]
pub(super) enum NodeUpdate {
    /// From the call of the run.
    Run(Identity, CallEvent),
    /// From a state poll.
    State(Box<ReceivedReply>),
    /// The broker reports no subscriber for the state poll.
    Absent(Identity),
}

/// A node with a request and no outcome so far.
#[derive(Debug)]
pub(super) struct InFlightRun {
    /// Time of the first request.
    pub(super) requested_at: Instant,
    /// Time of the last message of the node.
    last_message: Instant,
    /// The broker reports no subscriber.
    pub(super) absent: bool,
    /// It waits for its permit, or a later stage.
    pub(super) has_queued: bool,
    /// Since when it waits for another run of its own.
    pub(super) lock_wait_started: Option<Instant>,
    /// Time of the next retry.
    pub(super) next_retry: Option<Instant>,
    /// Number of consecutive replies in which the run was unknown.
    pub(super) unknown_replies: u32,
    /// The tasks of its calls, which end when this is dropped.
    pub(super) calls: JoinSet<()>,
}

impl InFlightRun {
    pub(super) fn new() -> Self {
        Self {
            requested_at: Instant::now(),
            last_message: Instant::now(),
            absent: false,
            has_queued: false,
            lock_wait_started: None,
            next_retry: None,
            unknown_replies: 0,
            calls: JoinSet::new(),
        }
    }

    pub(super) fn mark_heard(&mut self) {
        self.last_message = Instant::now();
        self.absent = false;
    }

    /// Whether the requests beyond the limit wait for this node, so that no later one takes its permit.
    pub(super) fn is_expected_to_queue(&self) -> bool {
        !self.has_queued && !self.absent && self.requested_at.elapsed() < MAX_QUEUE_WAIT
    }

    /// Whether no message arrived for a duration.
    pub(super) fn is_silent_for(&self, silence: Duration) -> bool {
        self.last_message.elapsed() >= silence
    }

    /// Whether the node must not block others: it is absent, or silent for half the maximum, or waits for another run. Its
    /// outcome is still awaited.
    pub(super) fn is_aside(&self, max_silence: Duration) -> bool {
        let is_locked = |since: Instant| since.elapsed() >= MAX_LOCK_WAIT;
        self.absent
            || self.is_silent_for(max_silence / 2)
            || self.lock_wait_started.is_some_and(is_locked)
    }
}

/// Forwards the events of a call that concern the rollout. Ends with the call, or with the rollout.
pub(super) async fn forward_events(
    mut events: CallEventStream,
    updates: mpsc::Sender<NodeUpdate>,
    to_update: impl Fn(CallEvent) -> Option<NodeUpdate>,
) {
    while let Some(event) = events.next().await {
        if let Some(update) = to_update(event)
            && updates.send(update).await.is_err()
        {
            return;
        }
    }
}
