//! Connection events, and detection of message loss between two instants.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::broadcast;

use crate::error::BusError;

/// A connection event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BusEvent {
    /// Connected or reconnected; subscriptions are active.
    Connected,
    /// The connection was lost; reconnection is attempted without limit.
    Disconnected,
    /// A subscription's buffer was full, and a message was dropped.
    SlowConsumer,
    /// The broker refused an operation: a permission, or an expired or revoked credential.
    Refused(String),
    /// A connection attempt failed.
    Unreachable(String),
    /// The connection was closed; no further events follow.
    Closed,
}

/// A point in a connection's lifetime, to detect losses since.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionMark {
    pub(crate) connects: u64,
    pub(crate) disconnects: u64,
    pub(crate) dropped: u64,
}

/// A possible message loss between a [`ConnectionMark`] and now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionDisturbance {
    /// The connection was interrupted: messages sent meanwhile are lost.
    Reconnected,
    /// Messages arrived faster than they were read: the local buffer was full and they were dropped, or they were still in transit.
    SlowConsumer,
}

/// Waits for the broker's refusal of what is published or subscribed on subjects with a common beginning. The broker reports it on the connection, not on the
/// request, which would wait for its whole timeout.
#[derive(Debug)]
pub struct RefusalWatch {
    events: broadcast::Receiver<BusEvent>,
    subject: String,
}

impl RefusalWatch {
    pub(crate) fn new(recorder: &BusEventRecorder, subject: String) -> Self {
        Self { events: recorder.subscribe_events(), subject }
    }

    /// Returns when the broker refuses such a subject; never without a refusal.
    pub async fn refused(&mut self) -> BusError {
        loop {
            match self.events.recv().await {
                Ok(BusEvent::Refused(reason)) if reason.contains(&self.subject) => {
                    return BusError::Refused { subject: self.subject.clone(), reason };
                }
                Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
                _ => {}
            }
        }
    }
}

/// Counts and forwards events; shared by the connection and all event receivers.
#[derive(Debug)]
pub(crate) struct BusEventRecorder {
    sender: broadcast::Sender<BusEvent>,
    connects: AtomicU64,
    disconnects: AtomicU64,
    dropped: AtomicU64,
}

impl BusEventRecorder {
    pub(crate) fn new() -> Self {
        Self {
            sender: broadcast::channel(64).0,
            connects: AtomicU64::new(0),
            disconnects: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        }
    }

    pub(crate) fn subscribe_events(&self) -> broadcast::Receiver<BusEvent> {
        self.sender.subscribe()
    }

    pub(crate) fn record_event(&self, event: async_nats::Event) {
        let event = match event {
            async_nats::Event::Connected => {
                self.connects.fetch_add(1, Ordering::Relaxed);
                BusEvent::Connected
            }
            async_nats::Event::Disconnected => {
                self.disconnects.fetch_add(1, Ordering::Relaxed);
                BusEvent::Disconnected
            }
            async_nats::Event::SlowConsumer(_) => {
                self.dropped.fetch_add(1, Ordering::Relaxed);
                BusEvent::SlowConsumer
            }
            async_nats::Event::Closed => BusEvent::Closed,
            async_nats::Event::ServerError(error) => BusEvent::Refused(error.to_string()),
            async_nats::Event::ClientError(error) => BusEvent::Unreachable(error.to_string()),
            async_nats::Event::LameDuckMode | async_nats::Event::Draining => return,
        };
        log_event(&event);
        // Sending fails without receivers; the counters are updated regardless.
        let _ = self.sender.send(event);
    }

    pub(crate) fn mark_connection(&self) -> ConnectionMark {
        ConnectionMark {
            connects: self.connects.load(Ordering::Acquire),
            disconnects: self.disconnects.load(Ordering::Acquire),
            dropped: self.dropped.load(Ordering::Acquire),
        }
    }

    pub(crate) fn disturbed_since(&self, mark: ConnectionMark) -> Option<ConnectionDisturbance> {
        let current = self.mark_connection();
        if current.disconnects > mark.disconnects {
            Some(ConnectionDisturbance::Reconnected)
        } else if current.dropped > mark.dropped {
            Some(ConnectionDisturbance::SlowConsumer)
        } else {
            None
        }
    }
}

/// The broker's message when the token of a connection expires. The next connection uses a renewed token.
const TOKEN_EXPIRED_MESSAGE: &str = "User Authentication Expired";

fn log_event(event: &BusEvent) {
    match event {
        BusEvent::Connected => tracing::info!("connected to the broker"),
        BusEvent::Disconnected => tracing::warn!("lost the connection to the broker, reconnecting"),
        BusEvent::SlowConsumer => tracing::warn!("a message was dropped: subscription buffer full"),
        BusEvent::Refused(reason) if reason.contains(TOKEN_EXPIRED_MESSAGE) => {
            tracing::info!("the broker closed the connection: the token expired");
        }
        BusEvent::Refused(reason) => {
            tracing::error!(why = %reason, "the broker refused an operation");
        }
        BusEvent::Unreachable(reason) => {
            tracing::warn!(why = %reason, "cannot connect to the broker");
        }
        BusEvent::Closed => tracing::debug!("connection to the broker closed"),
    }
}
