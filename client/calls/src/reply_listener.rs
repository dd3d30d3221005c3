//! Receives replies to requests that another process sent with `--reply-to`. Verifies them like the replies of a call.
//!
//! The broker stores no replies: the listener must subscribe before the request is sent.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use muster_base::unix_millis_now;
use muster_bus::{BusMessage, BusSubscription, ConnectionDisturbance, ConnectionMark};
use muster_wire::identity::Identity;
use muster_wire::sign::{EnvelopeKind, OpenReply, open_progress, open_replies};
use muster_wire::subject::AnswerAddress;
use tokio::time::Instant;
use uuid::Uuid;

use crate::batch::MAX_BATCH_SIZE;
use crate::call::ReplySelector;
use crate::client::Client;
use crate::client_inner::ClientInner;
use crate::error::Result;
use crate::event::{CallEvent, ReceivedReply};
use crate::progress::ProgressTracker;

/// A subscription to replies at one address.
#[derive(Debug)]
pub struct ReplyListener {
    client: Arc<ClientInner>,
    awaited: ReplySelector,
    address: AnswerAddress,
    messages: BusSubscription,
    connection_mark: ConnectionMark,
    started_at: Instant,
    /// Pairs of request and node that have already replied.
    answered: BTreeSet<(Uuid, Identity)>,
    progress_trackers: HashMap<Uuid, ProgressTracker>,
    /// Events that were received but not yet returned.
    events: VecDeque<CallEvent>,
}

impl Client {
    /// Returns the caller's own address with this name: 1 to 64 letters, digits, `-` and `_`. Also accepts a complete address of the caller.
    pub fn mailbox_address(&self, name: &str) -> Result<AnswerAddress> {
        self.inner.answer_address(name)
    }

    /// Subscribes to one of the caller's own addresses. Receives every reply that is sent there after this returns.
    pub async fn listen_for_replies(
        &self,
        address: &AnswerAddress,
        awaited: ReplySelector,
    ) -> Result<ReplyListener> {
        let client = Arc::clone(&self.inner);
        let own_address = client.answer_address(address.prefix())?;
        let connection_mark = client.bus.mark_connection();
        let messages = client.bus.subscribe(&own_address.subscription_pattern()).await?;
        client.bus.confirm_delivery().await?;
        Ok(ReplyListener {
            client,
            awaited,
            address: own_address,
            messages,
            connection_mark,
            started_at: Instant::now(),
            answered: BTreeSet::new(),
            progress_trackers: HashMap::new(),
            events: VecDeque::new(),
        })
    }
}

impl ReplyListener {
    /// The subject of the subscription.
    pub fn subject(&self) -> &str {
        self.address.prefix()
    }

    /// Whether replies may have been lost since the subscription began.
    pub fn disturbance(&self) -> Option<ConnectionDisturbance> {
        self.client.bus.disturbed_since(self.connection_mark)
    }

    /// Returns the next event: [`CallEvent::Reply`], [`CallEvent::Progress`], [`CallEvent::Unexpected`] for a second reply of a node to the same
    /// request, or [`CallEvent::Rejected`]. `None` when the connection is closed. Cancel-safe: no event is lost.
    pub async fn next(&mut self) -> Option<CallEvent> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            let mut messages = vec![self.messages.next().await?];
            while messages.len() < MAX_BATCH_SIZE
                && let Some(message) = self.messages.try_next()
            {
                messages.push(message);
            }
            self.open_messages(&messages);
        }
    }

    fn open_messages(&mut self, messages: &[BusMessage]) {
        let (progress_messages, replies): (Vec<_>, Vec<_>) = messages
            .iter()
            .map(BusMessage::payload)
            .partition(|bytes| EnvelopeKind::of_inbox_message(bytes) == EnvelopeKind::Progress);
        let expected = self.awaited.as_expected();
        let (trust, tokens) = (self.client.trust(), &self.client.tokens);
        let progress_messages =
            open_progress(&progress_messages, &expected, &trust, tokens, unix_millis_now());
        let received_at = Instant::now();
        let replies = open_replies(&replies, &expected, &trust, tokens, unix_millis_now());
        let count = u32::try_from(replies.len()).unwrap_or(u32::MAX).max(1);
        let verifying = received_at.elapsed() / count;
        for progress in progress_messages {
            let event = match progress {
                Ok(progress) => {
                    let tracker = self.progress_trackers.entry(progress.request).or_default();
                    tracker.record_progress(progress).map(Box::new).map(CallEvent::Progress)
                }
                Err(refusal) => Some(CallEvent::Rejected(refusal.reason_code())),
            };
            self.events.extend(event);
        }
        let after = self.started_at.elapsed();
        for reply in replies {
            match reply {
                Ok(OpenReply { reply, sender }) => {
                    let arrived = unix_millis_now();
                    self.queue_reply(ReceivedReply {
                        reply,
                        rights: sender.rights(),
                        after,
                        arrived,
                        verifying,
                    });
                }
                Err(refusal) => self.events.push_back(CallEvent::Rejected(refusal.reason_code())),
            }
        }
    }

    fn queue_reply(&mut self, received: ReceivedReply) {
        let (request, node) = (received.reply.request, received.reply.sender.clone());
        if !self.answered.insert((request, node.clone())) {
            self.events.push_back(CallEvent::Unexpected(Box::new(received)));
            return;
        }
        if let Some(counts) = received.reply.progress
            && let Some(tracker) = self.progress_trackers.get_mut(&request)
            && let Some(update) = tracker.finish_node(&node, counts)
        {
            self.events.push_back(CallEvent::Progress(Box::new(update)));
        }
        self.events.push_back(CallEvent::Reply(Box::new(received)));
    }
}
