//! What happens to a connection, and whether a stretch of time was undisturbed.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::broadcast;

/// Something happened to the connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BusEvent {
    /// Connected, for the first time or again; subscriptions stand.
    Connected,
    /// The connection is lost; coming back is tried without end.
    Disconnected,
    /// A subscription's buffer was full, and a message was dropped.
    SlowConsumer,
    /// The broker refused something: a permission, an expired or revoked credential.
    Refused(String),
    /// An attempt to reach the broker failed.
    Unreachable(String),
    /// Nothing more will come.
    Closed,
}

/// A point in a connection's life, to ask later whether anything was lost since.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionMark {
    disconnects: u64,
    dropped: u64,
}

/// How often things happened since the connection was first tried.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConnectionCounts {
    pub(crate) connects: u64,
    pub(crate) disconnects: u64,
    pub(crate) dropped: u64,
}

/// What may have been lost between a [`ConnectionMark`] and now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionDisturbance {
    /// The connection blinked: messages sent meanwhile are gone.
    Reconnected,
    /// Messages came faster than they were read: our own buffer was full and they were dropped, or they were still on their way.
    SlowConsumer,
}

/// Counts and forwards events; shared by the connection and everybody who listens.
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
        // Nobody listening is fine: the counters keep what matters.
        let _ = self.sender.send(event);
    }

    pub(crate) fn connection_counts(&self) -> ConnectionCounts {
        ConnectionCounts {
            connects: self.connects.load(Ordering::Relaxed),
            disconnects: self.disconnects.load(Ordering::Relaxed),
            dropped: self.dropped.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn mark_connection(&self) -> ConnectionMark {
        ConnectionMark {
            disconnects: self.disconnects.load(Ordering::Acquire),
            dropped: self.dropped.load(Ordering::Acquire),
        }
    }

    pub(crate) fn disturbed_since(&self, mark: ConnectionMark) -> Option<ConnectionDisturbance> {
        let now = self.mark_connection();
        if now.disconnects > mark.disconnects {
            Some(ConnectionDisturbance::Reconnected)
        } else if now.dropped > mark.dropped {
            Some(ConnectionDisturbance::SlowConsumer)
        } else {
            None
        }
    }
}

/// What the broker says when the token of a connection is over. A renewed one is used for the next connection.
const TOKEN_EXPIRED_MESSAGE: &str = "User Authentication Expired";

fn log_event(event: &BusEvent) {
    match event {
        BusEvent::Connected => tracing::info!("connected to the broker"),
        BusEvent::Disconnected => tracing::warn!("lost the broker, trying to come back"),
        BusEvent::SlowConsumer => tracing::warn!("a message was dropped: subscription buffer full"),
        BusEvent::Refused(why) if why.contains(TOKEN_EXPIRED_MESSAGE) => {
            tracing::info!("the broker ends the connection, because its token is over");
        }
        BusEvent::Refused(why) => tracing::error!(%why, "the broker refuses us"),
        BusEvent::Unreachable(why) => tracing::warn!(%why, "the broker cannot be reached"),
        BusEvent::Closed => tracing::debug!("connection to the broker closed"),
    }
}
