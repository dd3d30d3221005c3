//! Messages and subscriptions. A subscription continues when its connection moves to another server: see [`crate::relocation`].

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_nats::Subscriber;
use bytes::Bytes;
use futures_util::StreamExt;
use tokio::time::Instant;

use crate::error::Result;

/// How long a message of the former connection may arrive again on the current one.
const REPEAT_TIMEOUT: Duration = Duration::from_secs(10);

/// A received message.
#[derive(Debug)]
pub struct BusMessage(pub(crate) async_nats::Message);

impl BusMessage {
    /// The subject.
    pub fn subject(&self) -> &str {
        &self.0.subject
    }

    /// The reply subject.
    pub fn reply_to(&self) -> Option<&str> {
        self.0.reply.as_deref()
    }

    /// The payload.
    pub fn payload(&self) -> &Bytes {
        &self.0.payload
    }

    pub(crate) fn nats_message(&self) -> &async_nats::Message {
        &self.0
    }

    /// Whether this is the broker's "no responders" status for a request.
    pub fn is_no_responders(&self) -> bool {
        self.0.status == Some(async_nats::StatusCode::NO_RESPONDERS)
    }
}

/// A subscription.
#[derive(Debug)]
pub struct BusSubscription {
    current: Subscriber,
    handover: Arc<SubscriptionHandover>,
    repeats: RepeatFilter,
}

impl BusSubscription {
    pub(crate) fn new(current: Subscriber, handover: Arc<SubscriptionHandover>) -> Self {
        Self { current, handover, repeats: RepeatFilter::default() }
    }

    /// The next message; `None` after the end of the subscription, when its buffer is empty.
    pub async fn next(&mut self) -> Option<BusMessage> {
        loop {
            match self.current.next().await {
                Some(message) if self.repeats.is_repeat(&message, &self.handover) => {}
                Some(message) => return Some(BusMessage(message)),
                // The former connection is closed and its buffer is empty.
                None => self.current = self.handover.take_successor()?,
            }
        }
    }

    /// The next buffered message, if any.
    pub fn try_next(&mut self) -> Option<BusMessage> {
        futures_util::FutureExt::now_or_never(self.next()).flatten()
    }

    /// Calls a function on the subscription of each connection, and prevents further moves to other connections. A former connection may be
    /// closed, so only the result for the last one counts.
    pub(crate) async fn end_each(
        &mut self,
        mut end: impl AsyncFnMut(&mut Subscriber) -> Result<()>,
    ) -> Result<()> {
        let mut successors = self.handover.end();
        let mut result = end(&mut self.current).await;
        for successor in &mut successors {
            result = end(successor).await;
        }
        self.handover.lock_state().successors = successors;
        result
    }
}

/// Moves a subscription from one connection to the next. Shared by the subscription and its link.
#[derive(Debug)]
pub(crate) struct SubscriptionHandover {
    subject: Box<str>,
    queue_group: Option<&'static str>,
    /// Whether messages of the current connection may arrive on the next one too.
    is_overlapping: AtomicBool,
    state: Mutex<HandoverState>,
}

#[derive(Debug, Default)]
struct HandoverState {
    /// The same subscription on the next connection, and on the one after that if the reader is slow.
    successors: VecDeque<Subscriber>,
    /// The subscription is being drained and gets no further successor.
    is_ended: bool,
}

impl SubscriptionHandover {
    pub(crate) fn new(subject: &str, queue_group: Option<&'static str>) -> Self {
        Self {
            subject: subject.into(),
            queue_group,
            is_overlapping: AtomicBool::new(false),
            state: Mutex::default(),
        }
    }

    /// Subscribes on the next connection. The subscription reads on from the current one until that is closed.
    pub(crate) async fn subscribe_next(&self, next: &async_nats::Client) {
        if self.lock_state().is_ended {
            return;
        }
        self.is_overlapping.store(true, Ordering::Release);
        let Ok(successor) = self.subscribe_on(next).await else { return };
        let mut state = self.lock_state();
        if !state.is_ended {
            state.successors.push_back(successor);
        }
    }

    /// Subscribes on this connection.
    pub(crate) async fn subscribe_on(
        &self,
        client: &async_nats::Client,
    ) -> std::result::Result<Subscriber, async_nats::SubscribeError> {
        let subject = self.subject.to_string();
        match self.queue_group {
            Some(group) => client.queue_subscribe(subject, group.to_owned()).await,
            None => client.subscribe(subject).await,
        }
    }

    fn take_successor(&self) -> Option<Subscriber> {
        let mut state = self.lock_state();
        let successor = state.successors.pop_front();
        self.is_overlapping.store(!state.successors.is_empty(), Ordering::Release);
        successor
    }

    fn end(&self) -> VecDeque<Subscriber> {
        let mut state = self.lock_state();
        state.is_ended = true;
        std::mem::take(&mut state.successors)
    }

    fn lock_state(&self) -> MutexGuard<'_, HandoverState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Drops messages that arrived on the former connection already.
///
/// While two connections have the same subscription, the broker sends each message to both. All those that were read from the former one
/// are remembered by their hash.
#[derive(Debug, Default)]
struct RepeatFilter {
    hasher: RandomState,
    delivered: HashSet<u64>,
    expires: Option<Instant>,
}

impl RepeatFilter {
    fn is_repeat(
        &mut self,
        message: &async_nats::Message,
        handover: &SubscriptionHandover,
    ) -> bool {
        let is_overlapping = handover.is_overlapping.load(Ordering::Acquire);
        if self.delivered.is_empty() && !is_overlapping {
            return false;
        }
        let hash = self.hash(message);
        let is_repeat = self.delivered.remove(&hash);
        if is_overlapping {
            self.delivered.insert(hash);
            self.expires = None;
        } else if Instant::now()
            > *self.expires.get_or_insert_with(|| Instant::now() + REPEAT_TIMEOUT)
        {
            self.delivered = HashSet::new();
            return false;
        }
        is_repeat
    }

    fn hash(&self, message: &async_nats::Message) -> u64 {
        self.hasher.hash_one((message.subject.as_str(), message.reply.as_deref(), &message.payload))
    }
}
