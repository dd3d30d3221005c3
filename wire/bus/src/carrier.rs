//! Carries one stream between a local connection and the bus: reads and writes both, and keeps the time for [`crate::stream`].
//!
//! Messages are not sent while the broker connection is down, so that nothing piles up; everything unconfirmed is sent when it is there again. The crate opens no
//! connection, and knows neither requests nor policies.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use muster_wire::subject::TunnelAddress;

use crate::stream::{
    ResetReason, StreamCipher, StreamEnd, StreamSettings, StreamState, StreamTotals,
};
use crate::{Bus, BusError, BusEvent, BusMessage, BusSubscription};
use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Messages that are applied before others are sent.
const MAX_MESSAGE_BATCH: usize = 64;
/// How long the local connection may take for the last bytes.
const FINISH_TIMEOUT: Duration = Duration::from_mins(1);
/// Shorter reads are copied.
const SMALL_READ_BYTES: usize = 16 * 1024;
/// Shorter messages have a reply subject. It would be overhead for those that carry much data.
const SHORT_MESSAGE_BYTES: usize = 1024;
/// Interval at which a lost broker connection is checked, in addition to events.
const CONNECTION_POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Bytes that streams have carried, as they pass.
#[derive(Debug, Default)]
pub struct CarrierCounters {
    /// Bytes from the local connection.
    pub sent: AtomicU64,
    /// Bytes to the local connection.
    pub received: AtomicU64,
}

/// Carries one stream.
#[derive(Debug)]
pub struct StreamCarrier {
    socket: CarrierSocket,
    stream: StreamState,
    started: Instant,
    counters: Arc<CarrierCounters>,
    counted: StreamTotals,
}

/// How a stream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CarriedStream {
    /// The end.
    pub end: StreamEnd,
    /// What it has carried.
    pub totals: StreamTotals,
    /// How long it was open.
    pub took: Duration,
}

/// The end of the stream that this program is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CarrierSide {
    /// The caller's.
    Caller,
    /// The node's.
    Node,
}

/// A subscription for the messages of one stream. It must exist before the other end sends.
#[derive(Debug)]
pub struct CarrierSocket {
    bus: Bus,
    events: broadcast::Receiver<BusEvent>,
    address: TunnelAddress,
    /// The subject of messages to this end.
    own: String,
    /// The subject of messages to the other end.
    target: String,
    messages: BusSubscription,
}

impl CarrierSocket {
    /// Subscribes.
    pub async fn open(
        bus: Bus,
        address: TunnelAddress,
        side: CarrierSide,
    ) -> Result<Self, BusError> {
        let (own, target) = match side {
            CarrierSide::Caller => (address.to_caller(), address.to_node()),
            CarrierSide::Node => (address.to_node(), address.to_caller()),
        };
        // Events are received from before the subscription, so that a refusal is not missed.
        let events = bus.subscribe_events();
        let messages = bus.subscribe(own).await?;
        let (own, target) = (own.to_owned(), target.to_owned());
        Ok(Self { bus, events, address, own, target, messages })
    }

    /// Starts the stream, with messages that fit the broker's limit.
    pub fn start(
        self,
        cipher: StreamCipher,
        settings: StreamSettings,
        counters: Arc<CarrierCounters>,
    ) -> StreamCarrier {
        let overhead = crate::stream::MAX_MESSAGE_BYTES - crate::stream::MAX_PAYLOAD_BYTES;
        let payload = settings.payload.min(self.bus.max_payload().saturating_sub(overhead));
        let settings = StreamSettings { payload, ..settings };
        StreamCarrier {
            socket: self,
            stream: StreamState::new(cipher, settings, Duration::ZERO),
            started: Instant::now(),
            counters,
            counted: StreamTotals::default(),
        }
    }
}

/// The local connection, as far as it is open.
struct LocalConnection<R, W> {
    reader: Option<R>,
    writer: Option<W>,
    buffer: BytesMut,
    /// Bytes that are being written.
    unwritten: Bytes,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> LocalConnection<R, W> {
    /// Reads at most this many bytes; `None` at the end. Cancel safe.
    async fn read(&mut self, limit: usize) -> std::io::Result<Option<Bytes>> {
        let Some(reader) = &mut self.reader else { return std::future::pending().await };
        self.buffer.reserve(limit);
        let count = reader.read_buf(&mut (&mut self.buffer).limit(limit)).await?;
        if count == 0 {
            return Ok(None);
        }
        if count < SMALL_READ_BYTES {
            // A few bytes must not keep a whole buffer alive until they are confirmed.
            let bytes = Bytes::copy_from_slice(&self.buffer);
            self.buffer.clear();
            return Ok(Some(bytes));
        }
        Ok(Some(self.buffer.split().freeze()))
    }

    /// Writes what was received last, and ends the direction. The stream is complete before its last bytes are written.
    async fn finish(&mut self, stop: &CancellationToken) -> StreamEnd {
        let Some(mut writer) = self.writer.take() else { return StreamEnd::Complete };
        let writing = async {
            writer.write_all(&self.unwritten).await?;
            writer.shutdown().await
        };
        tokio::select! {
            written = tokio::time::timeout(FINISH_TIMEOUT, writing) => match written {
                Ok(Ok(())) => StreamEnd::Complete,
                Ok(Err(_)) | Err(_) => StreamEnd::Reset(ResetReason::Connection),
            },
            () = stop.cancelled() => StreamEnd::Reset(ResetReason::Stopped),
        }
    }
}

/// What happened.
enum CarrierEvent {
    Message(Option<BusMessage>),
    Read(std::io::Result<Option<Bytes>>),
    Written(std::io::Result<usize>),
    Bus(Result<BusEvent, RecvError>),
    Stopped,
    Time,
}

impl StreamCarrier {
    /// Carries the stream until it ends. `stop` ends it early.
    pub async fn carry<R, W>(
        mut self,
        reader: R,
        writer: W,
        stop: CancellationToken,
    ) -> CarriedStream
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        let mut local = LocalConnection {
            reader: Some(reader),
            writer: Some(writer),
            buffer: BytesMut::new(),
            unwritten: Bytes::new(),
        };
        let end = loop {
            self.deliver(&mut local).await;
            if self.send_messages().await.is_err() {
                self.stream.reset(ResetReason::Broker);
            }
            self.count_bytes();
            let now = self.started.elapsed();
            if let Some(end) = self.stream.ended(now) {
                break end;
            }
            // Without a connection the end cannot be announced; the other end notices the silence.
            if let Some(end) = self.stream.early_end()
                && !self.socket.bus.is_connected()
            {
                break end;
            }
            let event = self.next_event(&mut local, &stop).await;
            self.apply_event(event, &mut local);
        };
        let end = match end {
            StreamEnd::Complete => local.finish(&stop).await,
            early => early,
        };
        CarriedStream { end, totals: self.stream.totals(), took: self.started.elapsed() }
    }

    /// Takes the next received bytes, and ends the local connection's direction when they are complete.
    async fn deliver<R, W: AsyncWrite + Unpin>(&mut self, local: &mut LocalConnection<R, W>) {
        if local.unwritten.is_empty()
            && let Some(bytes) = self.stream.take_bytes(self.started.elapsed())
        {
            // Without a writer the bytes have no receiver.
            if local.writer.is_some() {
                local.unwritten = bytes;
            }
        }
        if local.unwritten.is_empty()
            && self.stream.is_receiving_complete()
            && let Some(mut writer) = local.writer.take()
        {
            let _ = writer.shutdown().await;
        }
    }

    /// Sends what is due, unless the connection is down.
    async fn send_messages(&mut self) -> Result<(), BusError> {
        if !self.socket.bus.is_connected() {
            // Only the limits in time apply.
            return Ok(());
        }
        while let Some(message) = self.stream.next_message(self.started.elapsed()) {
            if message.len() < SHORT_MESSAGE_BYTES {
                // With a reply subject, the broker answers "no responders" if the other end has no subscription.
                self.socket
                    .bus
                    .publish_with_reply(&self.socket.target, &self.socket.own, message.into())
                    .await?;
            } else {
                self.socket.bus.publish(&self.socket.target, message.into()).await?;
            }
        }
        Ok(())
    }

    async fn next_event<R, W>(
        &mut self,
        local: &mut LocalConnection<R, W>,
        stop: &CancellationToken,
    ) -> CarrierEvent
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        let capacity = self.stream.send_capacity().min(self.stream.payload_bytes());
        let deadline = self.next_deadline();
        let is_stopped = stop.is_cancelled();
        let LocalConnection { writer, unwritten, .. } = &mut *local;
        let unwritten = unwritten.clone();
        let mut writer = writer.take();
        let written = async {
            match &mut writer {
                Some(writer) if !unwritten.is_empty() => writer.write(&unwritten).await,
                _ => std::future::pending().await,
            }
        };
        let event = tokio::select! {
            message = self.socket.messages.next() => CarrierEvent::Message(message),
            read = local.read(capacity), if capacity > 0 => CarrierEvent::Read(read),
            written = written => CarrierEvent::Written(written),
            event = self.socket.events.recv() => CarrierEvent::Bus(event),
            () = stop.cancelled(), if !is_stopped => CarrierEvent::Stopped,
            () = tokio::time::sleep_until(deadline) => CarrierEvent::Time,
        };
        local.writer = writer;
        event
    }

    fn next_deadline(&self) -> Instant {
        if self.socket.bus.is_connected() {
            return self.started + self.stream.next_deadline();
        }
        let poll = Instant::now() + CONNECTION_POLL_INTERVAL;
        poll.min(self.started + self.stream.limit_deadline())
    }

    fn apply_event<R, W>(&mut self, event: CarrierEvent, local: &mut LocalConnection<R, W>) {
        let now = self.started.elapsed();
        match event {
            CarrierEvent::Message(Some(message)) => self.receive_messages(&message, now),
            CarrierEvent::Message(None) | CarrierEvent::Bus(Err(RecvError::Closed)) => {
                self.stream.reset(ResetReason::Broker);
            }
            CarrierEvent::Read(Ok(Some(bytes))) => self.stream.queue_bytes(bytes, now),
            CarrierEvent::Read(Ok(None)) => {
                local.reader = None;
                self.stream.end_sending();
            }
            CarrierEvent::Written(Ok(count)) if count > 0 => local.unwritten.advance(count),
            CarrierEvent::Read(Err(error)) | CarrierEvent::Written(Err(error)) => {
                tracing::debug!(%error, "the local connection of a tunnel failed");
                self.stream.reset(ResetReason::Connection);
            }
            CarrierEvent::Written(Ok(_)) => self.stream.reset(ResetReason::Connection),
            CarrierEvent::Bus(Ok(event)) => self.apply_bus_event(&event, now),
            // An event was missed; it may be a reconnection.
            CarrierEvent::Bus(Err(RecvError::Lagged(_))) => self.stream.connection_restored(now),
            CarrierEvent::Stopped => self.stream.reset(ResetReason::Stopped),
            CarrierEvent::Time => self.stream.pass_time(now),
        }
    }

    fn apply_bus_event(&mut self, event: &BusEvent, now: Duration) {
        match event {
            BusEvent::Connected => self.stream.connection_restored(now),
            BusEvent::Refused(reason) => {
                let reason = reason.to_lowercase();
                let subjects = [self.socket.address.to_node(), self.socket.address.to_caller()];
                if subjects.iter().any(|subject| reason.contains(&subject.to_lowercase())) {
                    self.stream.reset(ResetReason::Refused);
                }
            }
            BusEvent::Closed => self.stream.reset(ResetReason::Broker),
            BusEvent::Disconnected | BusEvent::SlowConsumer | BusEvent::Unreachable(_) => {}
        }
    }

    /// Applies a message and those that are buffered behind it.
    fn receive_messages(&mut self, first: &BusMessage, now: Duration) {
        self.receive(first, now);
        for _ in 0..MAX_MESSAGE_BATCH {
            match self.socket.messages.try_next() {
                Some(message) => self.receive(&message, now),
                None => return,
            }
        }
    }

    fn receive(&mut self, message: &BusMessage, now: Duration) {
        if message.is_no_responders() {
            self.stream.peer_is_absent(now);
            return;
        }
        if let Err(error) = self.stream.receive_message(message.payload(), now) {
            tracing::debug!(%error, "a message of a tunnel was refused");
        }
    }

    fn count_bytes(&mut self) {
        let totals = self.stream.totals();
        let counters = &self.counters;
        counters.sent.fetch_add(totals.sent - self.counted.sent, Ordering::Relaxed);
        counters.received.fetch_add(totals.received - self.counted.received, Ordering::Relaxed);
        self.counted = totals;
    }
}
