//! The live connection: publish, subscribe, drain and close.

use std::sync::Arc;
use std::time::Duration;

use async_nats::RequestErrorKind;
use bytes::Bytes;
use muster_wire::subject;
use tokio::sync::broadcast;
use tokio::time::timeout;

use crate::error::{BusError, Result};
use crate::event::{
    BusEvent, BusEventRecorder, ConnectionDisturbance, ConnectionMark, RefusalWatch,
};
use crate::relocation::{BusLink, LinkConnection, LinkTraffic};
use crate::subscription::{BusMessage, BusSubscription, SubscriptionHandover};

/// Timeout for a confirmation of the broker.
const BROKER_TIMEOUT: Duration = Duration::from_secs(10);

/// Poll interval of the connection state, in addition to events.
const CONNECTION_POLL_INTERVAL: Duration = Duration::from_millis(200);
/// More digits than nats-server parses; it then unsubscribes at once.
const UNPARSABLE_MESSAGE_COUNT: u64 = 10_000_000_000;
/// Retry interval of a confirmation request: a lost connection loses requests.
const CONFIRM_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum answers to one request of several servers.
const MAX_ANSWERS: usize = 1000;

/// A connection to the broker. Clones share it.
#[derive(Debug, Clone)]
pub struct Bus {
    link: Arc<BusLink>,
    /// Whether another owner closes the connection.
    is_lent: bool,
}

/// Traffic counters of a connection, across reconnections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BusTraffic {
    /// Payload bytes received, without protocol overhead.
    pub bytes_in: u64,
    /// Payload bytes sent, without protocol overhead.
    pub bytes_out: u64,
    /// Messages received.
    pub messages_in: u64,
    /// Messages sent.
    pub messages_out: u64,
    /// Number of connections made, including the first.
    pub connects: u64,
    /// Number of lost connections.
    pub disconnects: u64,
    /// Messages dropped because a buffer was full.
    pub dropped: u64,
}

impl Bus {
    pub(crate) fn new(link: Arc<BusLink>) -> Self {
        Self { link, is_lent: false }
    }

    /// A handle to the same connection for one of several users that share it, each signing messages with its own key. Closing
    /// the handle leaves the connection open. A real daemon has its own connection, whose credentials prevent impersonation; tens of
    /// thousands of simulated nodes in one process, as in benchmarks, would exceed the file descriptor limit.
    #[must_use]
    pub fn lend_connection(&self) -> Self {
        Self { is_lent: true, ..self.clone() }
    }

    /// The current connection. A holder keeps it open for some seconds if it is replaced meanwhile.
    pub(crate) fn connection(&self) -> Arc<LinkConnection> {
        self.link.current()
    }

    /// Subscribes to all the subjects, and returns after the broker registered them.
    pub async fn subscribe_all(&self, subjects: &[String]) -> Result<Vec<BusSubscription>> {
        let mut subscriptions = Vec::with_capacity(subjects.len());
        for subject in subjects {
            subscriptions.push(self.subscribe(subject).await?);
        }
        self.confirm_delivery().await?;
        Ok(subscriptions)
    }

    /// Subscribes to one subject without waiting. Messages published later on this connection are received.
    pub async fn subscribe(&self, subject: &str) -> Result<BusSubscription> {
        self.subscribe_as(SubscriptionHandover::new(subject, None)).await
    }

    /// Subscribes to one subject as a member of a group, of which one receives each message. When the connection moves to another server, a message that is
    /// on its way then may be lost; its sender gets no reply.
    pub async fn subscribe_in_group(
        &self,
        subject: &str,
        group: &'static str,
    ) -> Result<BusSubscription> {
        self.subscribe_as(SubscriptionHandover::new(subject, Some(group))).await
    }

    async fn subscribe_as(&self, handover: SubscriptionHandover) -> Result<BusSubscription> {
        let handover = Arc::new(handover);
        let connection = self.link.register(&handover);
        let subscriber = handover.subscribe_on(&connection.client).await;
        let subscriber = subscriber.map_err(BusError::closed)?;
        Ok(BusSubscription::new(subscriber, handover))
    }

    /// Queues a message on the connection. Delivery is not guaranteed: see [`Self::flush`].
    pub async fn publish(&self, subject: &str, payload: Bytes) -> Result<()> {
        self.check_size(&payload)?;
        let connection = self.connection();
        let sent = connection.client.publish(subject.to_owned(), payload);
        within_timeout("accept a message", sent).await
    }

    /// Queues a message with a reply subject.
    pub async fn publish_with_reply(
        &self,
        subject: &str,
        reply_to: &str,
        payload: Bytes,
    ) -> Result<()> {
        self.check_size(&payload)?;
        let connection = self.connection();
        let sent =
            connection.client.publish_with_reply(subject.to_owned(), reply_to.to_owned(), payload);
        within_timeout("accept a message", sent).await
    }

    /// Sends one request and waits for one answer, as the broker's own services use.
    pub async fn request(&self, subject: &str, payload: Bytes) -> Result<BusMessage> {
        self.check_size(&payload)?;
        let connection = self.connection();
        let mut refusals = self.watch_refusals(subject);
        let answer = connection.client.request(subject.to_owned(), payload);
        tokio::select! {
            answer = within_timeout("answer", answer) => answer.map(BusMessage),
            refusal = refusals.refused() => Err(refusal),
        }
    }

    /// Sends one request that several servers answer, to this reply subject. Returns the answers when they are complete, when none has arrived for
    /// `quiet`, or when there are 1,000.
    pub async fn request_until(
        &self,
        subject: &str,
        reply_to: &str,
        payload: Bytes,
        quiet: Duration,
        is_complete: impl Fn(&[BusMessage]) -> bool,
    ) -> Result<Vec<BusMessage>> {
        let mut refusals = self.watch_refusals(subject);
        let mut subscription = self.subscribe(reply_to).await?;
        self.publish_with_reply(subject, reply_to, payload).await?;
        let mut answers = Vec::new();
        while answers.len() < MAX_ANSWERS && !is_complete(&answers) {
            tokio::select! {
                answer = timeout(quiet, subscription.next()) => match answer {
                    Ok(Some(answer)) => answers.push(answer),
                    _ => break,
                },
                refusal = refusals.refused() => return Err(refusal),
            }
        }
        Ok(answers)
    }

    /// Watches for refusals of subjects that begin so, from now on.
    pub fn watch_refusals(&self, subject: &str) -> RefusalWatch {
        RefusalWatch::new(self.link.recorder(), subject.to_owned())
    }

    /// Unsubscribes, and returns when every message that the broker sent before is buffered, to be read with
    /// [`BusSubscription::next`]. No message is lost.
    ///
    /// The client library's own drain removes the subscription at the next packet from the broker, and drops messages in transit.
    /// So the unsubscribe is sent first in a way that keeps the library's subscription open: with a message count after which to
    /// unsubscribe. The broker cannot parse a count of this many digits and ends the subscription at once. If a later broker can
    /// parse it, the behaviour is that of the library's drain.
    ///
    /// Fails at once without a connection: the broker has dropped the subscription, and only what is buffered is left, to be read with
    /// [`BusSubscription::try_next`].
    pub async fn drain_subscription(&self, subscription: &mut BusSubscription) -> Result<()> {
        tokio::select! {
            drained = self.drain_connected(subscription) => drained,
            // What is sent without a connection waits in the library's queue, and when that is full, until the broker is back.
            () = self.wait_disconnected() => Err(BusError::Disconnected),
        }
    }

    async fn drain_connected(&self, subscription: &mut BusSubscription) -> Result<()> {
        let unsubscribe = async |subscriber: &mut async_nats::Subscriber| {
            let sent = subscriber.unsubscribe_after(UNPARSABLE_MESSAGE_COUNT);
            within_timeout("unsubscribe", async { sent.await.map_err(BusError::closed) }).await
        };
        subscription.end_each(unsubscribe).await?;
        if let Some(former) = self.link.former() {
            // If this connection is lost, the current one receives everything.
            let confirmed = confirm_delivery(&former.client, self.link.recorder());
            let _ = timeout(CONFIRM_TIMEOUT, confirmed).await;
        }
        self.confirm_delivery().await?;
        let drain = async |subscriber: &mut async_nats::Subscriber| {
            let sent = subscriber.drain();
            within_timeout("drain", async { sent.await.map_err(BusError::closed) }).await
        };
        subscription.end_each(drain).await
    }

    /// Waits until the broker has received and processed everything that was queued before.
    ///
    /// The client library's own flush returns when the bytes are in the socket, so messages of another connection may overtake them.
    /// This function publishes to a subject without subscribers, with a reply subject in its own inbox. The broker works in order, and
    /// answers "no responders" after everything else. If an operator tool subscribes to every subject, that answer is missing; then the
    /// function publishes to a forbidden subject, and the permission error arrives in order too.
    pub async fn confirm_delivery(&self) -> Result<()> {
        confirm_delivery(&self.connection().client, self.link.recorder()).await
    }

    /// Waits until everything that was queued before was written to the socket.
    pub async fn flush(&self) -> Result<()> {
        within_timeout("confirm delivery", self.connection().client.flush()).await
    }

    /// Largest payload that the broker accepts, in bytes.
    pub fn max_payload(&self) -> usize {
        self.connection().client.max_payload()
    }

    /// Whether the connection is up.
    pub fn is_connected(&self) -> bool {
        self.connection().client.connection_state() == async_nats::connection::State::Connected
    }

    /// Traffic and reconnection counters since creation.
    pub fn traffic(&self) -> BusTraffic {
        let LinkTraffic { bytes_in, bytes_out, messages_in, messages_out } = self.link.traffic();
        let counts = self.link.recorder().mark_connection();
        BusTraffic {
            bytes_in,
            bytes_out,
            messages_in,
            messages_out,
            connects: counts.connects,
            disconnects: counts.disconnects,
            dropped: counts.dropped,
        }
    }

    /// Whether the connected server has `JetStream`; other servers of its cluster may differ.
    pub fn has_jetstream(&self) -> bool {
        self.connection().client.server_info().jetstream
    }

    /// Name of the connected server.
    pub fn server_name(&self) -> String {
        self.connection().client.server_info().server_name
    }

    /// Whether the connection is moving to another server, as the current one asked. Nothing is lost meanwhile.
    pub fn is_moving(&self) -> bool {
        self.link.is_moving()
    }

    /// Version of the connected broker.
    pub fn server_version(&self) -> String {
        self.connection().client.server_info().version
    }

    /// Receives all events from now on.
    pub fn subscribe_events(&self) -> broadcast::Receiver<BusEvent> {
        self.link.recorder().subscribe_events()
    }

    /// Marks this point in time for [`Self::disturbed_since`].
    pub fn mark_connection(&self) -> ConnectionMark {
        self.link.recorder().mark_connection()
    }

    /// Whether messages may have been lost since the mark.
    pub fn disturbed_since(&self, mark: ConnectionMark) -> Option<ConnectionDisturbance> {
        self.link.recorder().disturbed_since(mark)
    }

    /// Waits until the connection is up. Reconnection runs in the background without limit.
    pub async fn wait_connected(&self) {
        let mut events = self.subscribe_events();
        while !self.is_connected() {
            // An event can arrive between the check and the subscription; the next poll then detects it.
            let _ = timeout(CONNECTION_POLL_INTERVAL, events.recv()).await;
        }
    }

    /// Waits until the connection is down.
    pub async fn wait_disconnected(&self) {
        let mut events = self.subscribe_events();
        while self.is_connected() {
            match events.recv().await {
                Ok(BusEvent::Disconnected | BusEvent::Closed)
                | Err(broadcast::error::RecvError::Closed) => return,
                _ => {}
            }
        }
    }

    /// Sends queued messages, then closes. Drain subscriptions and finish their work before, because messages published later are not
    /// sent. Without a connection there is nothing to flush.
    pub async fn close(&self) -> Result<()> {
        if self.is_lent {
            return self.confirm_delivery().await;
        }
        self.link.close();
        let mut events = self.subscribe_events();
        let drain_and_close = async {
            self.confirm_delivery().await?;
            self.connection().client.drain().await.map_err(BusError::closed)?;
            loop {
                match events.recv().await {
                    Ok(BusEvent::Closed) | Err(broadcast::error::RecvError::Closed) => {
                        return Ok::<(), BusError>(());
                    }
                    _ => {}
                }
            }
        };
        tokio::select! {
            result = within_timeout("close the connection", drain_and_close) => result,
            () = self.wait_disconnected() => Ok(()),
        }
    }

    fn check_size(&self, payload: &Bytes) -> Result<()> {
        let limit = self.connection().client.max_payload();
        if payload.len() > limit {
            return Err(BusError::TooLarge { size: payload.len(), limit });
        }
        Ok(())
    }
}

/// Waits until the server of this connection has processed everything that was queued before: see [`Bus::confirm_delivery`].
pub(crate) async fn confirm_delivery(
    client: &async_nats::Client,
    recorder: &BusEventRecorder,
) -> Result<()> {
    let mut events = recorder.subscribe_events();
    let round_trip = async {
        let mut needs_refusal = false;
        loop {
            if needs_refusal {
                let refused = client.publish(subject::CONFIRM_REFUSED_SUBJECT, Bytes::new());
                refused.await.map_err(BusError::closed)?;
            }
            let request = async_nats::Request::new().timeout(Some(CONFIRM_TIMEOUT));
            let pending_reply = Box::pin(client.send_request(subject::CONFIRM_SUBJECT, request));
            tokio::select! {
                reply = pending_reply => match reply {
                    Err(error) if error.kind() != RequestErrorKind::TimedOut => {
                        return match error.kind() {
                            RequestErrorKind::NoResponders => Ok(()),
                            _ => Err(BusError::closed(error)),
                        };
                    }
                    // An answer from a subscriber is a confirmation too: the message was delivered in order.
                    Ok(_) => return Ok(()),
                    Err(_) => needs_refusal = true,
                },
                () = wait_refused(&mut events, subject::CONFIRM_SUBJECT) => return Ok(()),
            }
        }
    };
    within_timeout("confirm delivery", round_trip).await
}

/// Waits until the broker refuses an operation on this subject.
pub(crate) async fn wait_refused(events: &mut broadcast::Receiver<BusEvent>, subject: &str) {
    loop {
        match events.recv().await {
            Ok(BusEvent::Refused(reason)) if reason.contains(subject) => return,
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
            _ => {}
        }
    }
}

/// Waits until the connection is lost: the broker answers no request that was sent before.
pub(crate) async fn wait_lost(events: &mut broadcast::Receiver<BusEvent>) {
    loop {
        match events.recv().await {
            Ok(BusEvent::Disconnected | BusEvent::Closed) => return,
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
            _ => {}
        }
    }
}

/// Waits for the broker, at most [`BROKER_TIMEOUT`].
async fn within_timeout<T, E: Into<BusError>>(
    operation: &'static str,
    result: impl Future<Output = Result<T, E>>,
) -> Result<T> {
    let elapsed = |_| BusError::Timeout { operation, timeout: BROKER_TIMEOUT };
    timeout(BROKER_TIMEOUT, result).await.map_err(elapsed)?.map_err(Into::into)
}
