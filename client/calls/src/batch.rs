//! Receives the replies to a call: stamps each with its arrival time and collects them into batches. Verification of a batch costs about a third per
//! signature of single verification, and less the larger the batch. So the first reply waits at most 10 ms for others, unless all awaited replies
//! are in. Verifies nothing itself.

use std::collections::VecDeque;
use std::pin::pin;
use std::time::Duration;

use muster_bus::{BusMessage, BusSubscription};
use tokio::time::{Instant, timeout_at};

/// Maximum replies per batch: large enough for batch verification to pay, small enough for regular screen updates.
pub(crate) const MAX_BATCH_SIZE: usize = 2048;

/// A batch of this size does not wait for more replies.
const SUFFICIENT_BATCH_SIZE: usize = 256;

/// Maximum wait after the first reply of a batch: imperceptible to a user, but enough for many replies of a large fleet.
const BATCH_WINDOW: Duration = Duration::from_millis(10);

/// A message with its arrival time. The time does not include the wait for other replies of the batch, nor their verification.
#[derive(Debug)]
pub(crate) struct ArrivedMessage {
    pub(crate) message: BusMessage,
    pub(crate) arrived_at: Instant,
}

impl ArrivedMessage {
    fn now(message: BusMessage) -> Self {
        Self { message, arrived_at: Instant::now() }
    }
}

/// The replies of a subscription, in the order of their arrival.
#[derive(Debug)]
pub(crate) struct ReplyInbox {
    subscription: BusSubscription,
    /// Messages that arrived while the previous batch was verified; at most `MAX_BATCH_SIZE`.
    waiting: VecDeque<ArrivedMessage>,
}

impl ReplyInbox {
    pub(crate) fn new(subscription: BusSubscription) -> Self {
        Self { subscription, waiting: VecDeque::new() }
    }

    /// Returns the next message; `None` when the connection is closed. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Option<ArrivedMessage> {
        match self.waiting.pop_front() {
            Some(message) => Some(message),
            None => self.subscription.next().await.map(ArrivedMessage::now),
        }
    }

    fn try_next(&mut self) -> Option<ArrivedMessage> {
        self.waiting.pop_front().or_else(|| self.subscription.try_next().map(ArrivedMessage::now))
    }

    /// Returns the first reply and those that arrive within `BATCH_WINDOW`. Stops early when `outstanding` replies are in.
    pub(crate) async fn collect_batch(
        &mut self,
        first: ArrivedMessage,
        outstanding: usize,
    ) -> Vec<ArrivedMessage> {
        let deadline = Instant::now() + BATCH_WINDOW;
        let enough = outstanding.min(SUFFICIENT_BATCH_SIZE);
        let mut messages = vec![first];
        loop {
            while messages.len() < MAX_BATCH_SIZE
                && let Some(message) = self.try_next()
            {
                messages.push(message);
            }
            if messages.len() >= enough {
                return messages;
            }
            match timeout_at(deadline, self.next()).await {
                Ok(Some(message)) => messages.push(message),
                Ok(None) | Err(_) => return messages,
            }
        }
    }

    /// Awaits this work, and meanwhile receives messages, so that their arrival times are exact.
    pub(crate) async fn receive_during<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        while self.waiting.len() < MAX_BATCH_SIZE {
            tokio::select! {
                biased;
                result = &mut work => return result,
                message = self.subscription.next() => match message {
                    Some(message) => self.waiting.push_back(ArrivedMessage::now(message)),
                    None => break,
                },
            }
        }
        work.await
    }
}
