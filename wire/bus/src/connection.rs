//! A live connection: publish, subscribe, and leave in the right order.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_nats::RequestErrorKind;
use bytes::Bytes;
use futures_util::StreamExt;
use muster_wire::subject;
use tokio::sync::broadcast;
use tokio::time::timeout;

use crate::error::BusError;
use crate::event::{BusEvent, BusEventRecorder, ConnectionDisturbance, ConnectionMark};

/// How long the broker may take to confirm something before we say so.
const BROKER_TIMEOUT: Duration = Duration::from_secs(10);

/// How often it is looked whether there is a connection, beside the events that tell.
const CONNECTION_POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Longer than a number that the broker reads.
const UNPARSABLE_MESSAGE_COUNT: u64 = 10_000_000_000;
/// How long a confirmation may take before it is asked for again: with a connection, questions are lost.
const CONFIRM_TIMEOUT: Duration = Duration::from_secs(1);

/// A connection to the broker. Clones share it.
#[derive(Debug, Clone)]
pub struct Bus {
    client: async_nats::Client,
    journal: Arc<BusEventRecorder>,
    /// Whether the connection is somebody else's to close.
    lent: bool,
}

/// What a connection has carried, over all its lives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BusTraffic {
    /// Bytes of messages that came, without the protocol's own.
    pub bytes_in: u64,
    /// Bytes of messages that were sent, without the protocol's own.
    pub bytes_out: u64,
    /// Messages that came.
    pub messages_in: u64,
    /// Messages that were sent.
    pub messages_out: u64,
    /// How often the connection was made; the first time counts.
    pub connects: u64,
    /// How often it was lost.
    pub disconnects: u64,
    /// Messages that came faster than they were taken, and were dropped.
    pub dropped: u64,
}

/// One message as it came.
#[derive(Debug)]
pub struct BusMessage(async_nats::Message);

impl BusMessage {
    /// Where it was published.
    pub fn subject(&self) -> &str {
        &self.0.subject
    }

    /// Where an answer is wanted.
    pub fn reply_to(&self) -> Option<&str> {
        self.0.reply.as_deref()
    }

    /// The bytes.
    pub fn payload(&self) -> &Bytes {
        &self.0.payload
    }

    pub(crate) fn nats_message(&self) -> &async_nats::Message {
        &self.0
    }

    /// Whether this is the broker's word that nobody listens on the subject that was asked.
    pub fn is_no_responders(&self) -> bool {
        self.0.status == Some(async_nats::StatusCode::NO_RESPONDERS)
    }
}

/// A subscription that the broker has confirmed.
#[derive(Debug)]
pub struct BusSubscription(async_nats::Subscriber);

impl BusSubscription {
    /// The next message; `None` when the subscription is over and everything was taken.
    pub async fn next(&mut self) -> Option<BusMessage> {
        self.0.next().await.map(BusMessage)
    }

    /// A message that is already here.
    pub fn try_next(&mut self) -> Option<BusMessage> {
        futures_util::FutureExt::now_or_never(self.0.next())
            .flatten()
            .map(BusMessage)
    }

    /// Asks the broker for nothing more, without waiting for what is under way.
    async fn end_subscription(&mut self) -> Result<(), BusError> {
        let ended = self.0.drain().await;
        ended.map_err(|error| BusError::Closed(error.to_string()))
    }
}

impl Bus {
    pub(crate) fn new(client: async_nats::Client, journal: Arc<BusEventRecorder>) -> Self {
        Self {
            client,
            journal,
            lent: false,
        }
    }

    /// The same connection for one of several parties that speak over it, each with messages signed by its own key: a party that closes
    /// it has left, and the others stay. A real daemon has a connection of its own, whose credentials let nobody speak for another;
    /// tens of thousands of nodes in one process, as in measurements, would not have files enough.
    #[must_use]
    pub fn lend_connection(&self) -> Self {
        Self {
            lent: true,
            ..self.clone()
        }
    }

    pub(crate) fn nats_client(&self) -> &async_nats::Client {
        &self.client
    }

    /// Subscribes to all the subjects, and returns when the broker knows them: "ready" is then true.
    pub async fn subscribe_all(
        &self,
        subjects: &[String],
    ) -> Result<Vec<BusSubscription>, BusError> {
        let mut subscriptions = Vec::with_capacity(subjects.len());
        for subject in subjects {
            let subscriber = self
                .client
                .subscribe(subject.clone())
                .await
                .map_err(|error| BusError::Closed(error.to_string()))?;
            subscriptions.push(BusSubscription(subscriber));
        }
        self.confirm_delivery().await?;
        Ok(subscriptions)
    }

    /// Subscribes to one subject without waiting: what is published after it on this connection arrives after it.
    pub async fn subscribe(&self, subject: &str) -> Result<BusSubscription, BusError> {
        let subscriber = self
            .client
            .subscribe(subject.to_owned())
            .await
            .map_err(|error| BusError::Closed(error.to_string()))?;
        Ok(BusSubscription(subscriber))
    }

    /// Hands a message to the connection. Not a promise of delivery: see [`Self::flush`].
    pub async fn publish(&self, subject: &str, payload: Bytes) -> Result<(), BusError> {
        self.check_size(&payload)?;
        let sent = timeout(
            BROKER_TIMEOUT,
            self.client.publish(subject.to_owned(), payload),
        )
        .await;
        publish_result(sent)
    }

    /// Hands over a message that wants its answers on `reply_to`.
    pub async fn publish_with_reply(
        &self,
        subject: &str,
        reply_to: &str,
        payload: Bytes,
    ) -> Result<(), BusError> {
        self.check_size(&payload)?;
        let send = self
            .client
            .publish_with_reply(subject.to_owned(), reply_to.to_owned(), payload);
        publish_result(timeout(BROKER_TIMEOUT, send).await)
    }

    /// One question with one answer, as the broker's own services speak.
    pub async fn request(&self, subject: &str, payload: Bytes) -> Result<BusMessage, BusError> {
        self.check_size(&payload)?;
        match timeout(
            BROKER_TIMEOUT,
            self.client.request(subject.to_owned(), payload),
        )
        .await
        {
            Ok(Ok(message)) => Ok(BusMessage(message)),
            Ok(Err(error)) => Err(BusError::Closed(error.to_string())),
            Err(_) => Err(BusError::Slow {
                what: "answer",
                within: BROKER_TIMEOUT,
            }),
        }
    }

    /// Asks the broker for no more messages of a subscription, and returns when everything that it had sent before is here, to be
    /// taken with [`BusSubscription::next`]: between them, no message is lost.
    ///
    /// The client library's own drain forgets the subscription at the next sign of life of the broker, and drops what was still
    /// under way. So the broker is told first, in a way that leaves the library's subscription open: to end it after more messages
    /// than there are. A number of ten digits is none to the broker, which ends the subscription at once; if a later one can read
    /// it, the library's drain does what it always did.
    pub async fn drain_subscription(
        &self,
        subscription: &mut BusSubscription,
    ) -> Result<(), BusError> {
        let told = subscription
            .0
            .unsubscribe_after(UNPARSABLE_MESSAGE_COUNT)
            .await;
        told.map_err(|error| BusError::Closed(error.to_string()))?;
        tokio::select! {
            confirmed = self.confirm_delivery() => confirmed?,
            // Then it has forgotten the subscription, and sends nothing more.
            () = self.wait_disconnected() => {}
        }
        subscription.end_subscription().await
    }

    /// Waits until the broker has taken and worked through everything that was handed over before.
    ///
    /// The client library's own flush ends when the bytes are in the socket, and another connection's message may overtake them. So we
    /// publish where no role may subscribe, with a reply subject in our own inbox: the broker works in order, and answers "no responders"
    /// after everything else. Where a tool subscribes to every subject, that answer does not come; then we publish where we may not, and
    /// the refusal comes in order too.
    pub async fn confirm_delivery(&self) -> Result<(), BusError> {
        let mut events = self.subscribe_events();
        let round_trip = async {
            let mut is_refusal_wanted = false;
            loop {
                if is_refusal_wanted {
                    self.publish(subject::CONFIRM_REFUSED_SUBJECT, Bytes::new())
                        .await?;
                }
                let request = async_nats::Request::new().timeout(Some(CONFIRM_TIMEOUT));
                let asked = Box::pin(self.client.send_request(subject::CONFIRM_SUBJECT, request));
                tokio::select! {
                    answer = asked => match answer {
                        Err(error) if error.kind() != RequestErrorKind::TimedOut => {
                            return match error.kind() {
                                RequestErrorKind::NoResponders => Ok(()),
                                _ => Err(BusError::Closed(error.to_string())),
                            };
                        }
                        // A subscriber that answers has confirmed as well: it got the message in order.
                        Ok(_) => return Ok(()),
                        Err(_) => is_refusal_wanted = true,
                    },
                    () = wait_refused(&mut events, subject::CONFIRM_SUBJECT) => return Ok(()),
                }
            }
        };
        timeout(BROKER_TIMEOUT, round_trip)
            .await
            .map_err(|_| BusError::Slow {
                what: "confirm",
                within: BROKER_TIMEOUT,
            })?
    }

    /// Waits until everything that was handed over before has left the process.
    pub async fn flush(&self) -> Result<(), BusError> {
        match timeout(BROKER_TIMEOUT, self.client.flush()).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(BusError::Closed(error.to_string())),
            Err(_) => Err(BusError::Slow {
                what: "confirm",
                within: BROKER_TIMEOUT,
            }),
        }
    }

    /// Largest payload that the broker takes, in bytes.
    pub fn max_payload(&self) -> usize {
        self.client.max_payload()
    }

    /// Whether there is a connection right now.
    pub fn is_connected(&self) -> bool {
        self.client.connection_state() == async_nats::connection::State::Connected
    }

    /// What went over the connection since it was made, and how often it was made again.
    pub fn traffic(&self) -> BusTraffic {
        let counted = self.client.statistics();
        let journal = self.journal.connection_counts();
        BusTraffic {
            bytes_in: counted.in_bytes.load(Ordering::Relaxed),
            bytes_out: counted.out_bytes.load(Ordering::Relaxed),
            messages_in: counted.in_messages.load(Ordering::Relaxed),
            messages_out: counted.out_messages.load(Ordering::Relaxed),
            connects: journal.connects,
            disconnects: journal.disconnects,
            dropped: journal.dropped,
        }
    }

    /// Version of the broker we are connected to.
    pub fn server_version(&self) -> String {
        self.client.server_info().version
    }

    /// What happens from now on.
    pub fn subscribe_events(&self) -> broadcast::Receiver<BusEvent> {
        self.journal.subscribe_events()
    }

    /// Remembers now, for [`Self::disturbed_since`].
    pub fn mark_connection(&self) -> ConnectionMark {
        self.journal.mark_connection()
    }

    /// Whether messages may have been lost since then.
    pub fn disturbed_since(&self, mark: ConnectionMark) -> Option<ConnectionDisturbance> {
        self.journal.disturbed_since(mark)
    }

    /// Returns when there is a connection; it is tried in the background without end.
    pub async fn wait_connected(&self) {
        let mut events = self.subscribe_events();
        while !self.is_connected() {
            // An event can come between the question and the listening; then the next look finds out.
            let _ = timeout(CONNECTION_POLL_INTERVAL, events.recv()).await;
        }
    }

    /// Returns when there is no connection.
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

    /// Leaves: sends what is waiting, then closes. Subscriptions must have been drained and their work finished before, because
    /// nothing that is published after this goes out. Without a broker there is nobody to say goodbye to.
    pub async fn close(&self) -> Result<(), BusError> {
        if self.lent {
            return self.confirm_delivery().await;
        }
        let mut events = self.subscribe_events();
        let goodbye = async {
            self.confirm_delivery().await?;
            self.client
                .drain()
                .await
                .map_err(|error| BusError::Closed(error.to_string()))?;
            loop {
                match events.recv().await {
                    Ok(BusEvent::Closed) | Err(broadcast::error::RecvError::Closed) => {
                        return Ok(());
                    }
                    _ => {}
                }
            }
        };
        tokio::select! {
            ended = timeout(BROKER_TIMEOUT, goodbye) => {
                ended.map_err(|_| BusError::Slow { what: "close", within: BROKER_TIMEOUT })?
            }
            () = self.wait_disconnected() => Ok(()),
        }
    }

    fn check_size(&self, payload: &Bytes) -> Result<(), BusError> {
        let limit = self.client.max_payload();
        if payload.len() > limit {
            return Err(BusError::TooLarge {
                size: payload.len(),
                limit,
            });
        }
        Ok(())
    }
}

/// Returns when the broker has refused something on this subject.
pub(crate) async fn wait_refused(events: &mut broadcast::Receiver<BusEvent>, subject: &str) {
    loop {
        match events.recv().await {
            Ok(BusEvent::Refused(why)) if why.contains(subject) => return,
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
            _ => {}
        }
    }
}

fn publish_result<E: std::error::Error>(
    sent: Result<Result<(), E>, tokio::time::error::Elapsed>,
) -> Result<(), BusError> {
    match sent {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(BusError::Closed(error.to_string())),
        Err(_) => Err(BusError::Slow {
            what: "take a message",
            within: BROKER_TIMEOUT,
        }),
    }
}
