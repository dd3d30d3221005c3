//! Receives replies to requests that another process sent with `--reply-to`. Verifies them like the replies of a call.
//!
//! The broker stores no replies: the listener must subscribe before the request is sent.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use muster_bus::{
    BusMessage, BusSubscription, ConnectionDisturbance, ConnectionMark, unix_millis_now,
};
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::sign::{
    EnvelopeKind, ExpectedAnswer, MessageRefusal, OpenReply, open_progress, open_replies,
};
use muster_wire::subject::AnswerAddress;
use tokio::time::Instant;
use uuid::Uuid;

use crate::batch::MAX_BATCH_SIZE;
use crate::client::Client;
use crate::client_inner::ClientInner;
use crate::error::ClientError;
use crate::event::{CallEvent, ReceivedReply};
use crate::progress::ProgressTracker;

/// Selects the replies to receive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplySelector {
    /// The agent of the request.
    pub agent: SubjectName,
    /// The action of the request.
    pub action: SubjectName,
    /// The id of the request; any when absent.
    pub request: Option<Uuid>,
}

/// A subscription to replies at one address.
#[derive(Debug)]
pub struct ReplyListener {
    party: Arc<ClientInner>,
    awaited: ReplySelector,
    address: AnswerAddress,
    arriving: BusSubscription,
    mark: ConnectionMark,
    begun: Instant,
    /// Pairs of request and node that have already replied.
    answered: BTreeSet<(Uuid, Identity)>,
    telling: HashMap<Uuid, ProgressTracker>,
    /// Events that were received but not yet returned.
    events: VecDeque<CallEvent>,
}

impl Client {
    /// Returns the caller's own address with this name: 1 to 64 letters, digits, `-` and `_`. Also accepts a complete address of the caller.
    pub fn mailbox_address(&self, name: &str) -> Result<AnswerAddress, ClientError> {
        self.party.answer_address(name)
    }

    /// Subscribes to one of the caller's own addresses. Receives every reply that is sent there after this returns.
    pub async fn listen_for_replies(
        &self,
        address: &AnswerAddress,
        awaited: ReplySelector,
    ) -> Result<ReplyListener, ClientError> {
        let party = Arc::clone(&self.party);
        let own = party.answer_address(address.prefix())?;
        let mark = party.bus.mark_connection();
        let arriving = party.bus.subscribe(&own.subscription_pattern()).await?;
        party.bus.confirm_delivery().await?;
        Ok(ReplyListener {
            party,
            awaited,
            address: own,
            arriving,
            mark,
            begun: Instant::now(),
            answered: BTreeSet::new(),
            telling: HashMap::new(),
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
        self.party.bus.disturbed_since(self.mark)
    }

    /// Returns the next event: [`CallEvent::Reply`], [`CallEvent::Progress`], [`CallEvent::Unexpected`] for a second reply of a node to the same
    /// request, or [`CallEvent::Disbelieved`]. `None` when the connection is closed. Cancel-safe: no event is lost.
    pub async fn next(&mut self) -> Option<CallEvent> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            let mut messages = vec![self.arriving.next().await?];
            while messages.len() < MAX_BATCH_SIZE
                && let Some(message) = self.arriving.try_next()
            {
                messages.push(message);
            }
            self.open_messages(&messages);
        }
    }

    fn open_messages(&mut self, messages: &[BusMessage]) {
        let (told, replies): (Vec<_>, Vec<_>) = messages
            .iter()
            .map(BusMessage::payload)
            .partition(|bytes| EnvelopeKind::of_inbox_message(bytes) == EnvelopeKind::Progress);
        let ReplySelector {
            agent,
            action,
            request,
        } = &self.awaited;
        let expected = ExpectedAnswer {
            request: *request,
            agent,
            action,
        };
        let party = Arc::clone(&self.party);
        let trust = party.trust();
        let told = open_progress(&told, &expected, &trust, &party.tokens, unix_millis_now());
        let came = Instant::now();
        let replies = open_replies(
            &replies,
            &expected,
            &trust,
            &party.tokens,
            unix_millis_now(),
        );
        let count = u32::try_from(replies.len()).unwrap_or(u32::MAX).max(1);
        let verifying = came.elapsed() / count;
        for progress in told {
            let heard = match progress {
                Ok(progress) => {
                    let telling = self.telling.entry(progress.request).or_default();
                    telling
                        .record_progress(progress)
                        .map(Box::new)
                        .map(CallEvent::Progress)
                }
                Err(refusal) => Some(CallEvent::Disbelieved(refusal.reason_code())),
            };
            self.events.extend(heard);
        }
        let after = self.begun.elapsed();
        for reply in replies {
            match reply {
                Ok(OpenReply { reply, .. }) => self.queue_reply(ReceivedReply {
                    reply,
                    after,
                    verifying,
                }),
                Err(refusal) => self.queue_refusal(&refusal),
            }
        }
    }

    fn queue_reply(&mut self, answer: ReceivedReply) {
        let (request, node) = (answer.reply.request, answer.reply.sender.clone());
        if !self.answered.insert((request, node.clone())) {
            self.events
                .push_back(CallEvent::Unexpected(Box::new(answer)));
            return;
        }
        if let Some(said) = answer.reply.progress
            && let Some(telling) = self.telling.get_mut(&request)
            && let Some(tale) = telling.finish_node(&node, said)
        {
            self.events.push_back(CallEvent::Progress(Box::new(tale)));
        }
        self.events.push_back(CallEvent::Reply(Box::new(answer)));
    }

    fn queue_refusal(&mut self, refusal: &MessageRefusal) {
        self.events
            .push_back(CallEvent::Disbelieved(refusal.reason_code()));
    }
}
