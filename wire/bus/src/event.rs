//! What happens to a connection, and whether a stretch of time was undisturbed.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::broadcast;

/// Something happened to the connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
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
pub struct Mark {
    disconnects: u64,
    dropped: u64,
}

/// How often things happened since the connection was first tried.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counts {
    pub(crate) connects: u64,
    pub(crate) disconnects: u64,
    pub(crate) dropped: u64,
}

/// What may have been lost between a [`Mark`] and now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disturbance {
    /// The connection blinked: messages sent meanwhile are gone.
    Reconnected,
    /// Messages came faster than they were read: our own buffer was full and they were dropped, or they were still on their way.
    SlowConsumer,
}

/// Counts and forwards events; shared by the connection and everybody who listens.
#[derive(Debug)]
pub(crate) struct Journal {
    sender: broadcast::Sender<Event>,
    connects: AtomicU64,
    disconnects: AtomicU64,
    dropped: AtomicU64,
}

impl Journal {
    pub(crate) fn new() -> Self {
        Self {
            sender: broadcast::channel(64).0,
            connects: AtomicU64::new(0),
            disconnects: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        }
    }

    pub(crate) fn listen(&self) -> broadcast::Receiver<Event> {
        self.sender.subscribe()
    }

    pub(crate) fn record(&self, event: async_nats::Event) {
        let event = match event {
            async_nats::Event::Connected => {
                self.connects.fetch_add(1, Ordering::Relaxed);
                Event::Connected
            }
            async_nats::Event::Disconnected => {
                self.disconnects.fetch_add(1, Ordering::Relaxed);
                Event::Disconnected
            }
            async_nats::Event::SlowConsumer(_) => {
                self.dropped.fetch_add(1, Ordering::Relaxed);
                Event::SlowConsumer
            }
            async_nats::Event::Closed => Event::Closed,
            async_nats::Event::ServerError(error) => Event::Refused(error.to_string()),
            async_nats::Event::ClientError(error) => Event::Unreachable(error.to_string()),
            async_nats::Event::LameDuckMode | async_nats::Event::Draining => return,
        };
        log(&event);
        // Nobody listening is fine: the counters keep what matters.
        let _ = self.sender.send(event);
    }

    pub(crate) fn counts(&self) -> Counts {
        Counts {
            connects: self.connects.load(Ordering::Relaxed),
            disconnects: self.disconnects.load(Ordering::Relaxed),
            dropped: self.dropped.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark {
            disconnects: self.disconnects.load(Ordering::Acquire),
            dropped: self.dropped.load(Ordering::Acquire),
        }
    }

    pub(crate) fn since(&self, mark: Mark) -> Option<Disturbance> {
        let now = self.mark();
        if now.disconnects > mark.disconnects {
            Some(Disturbance::Reconnected)
        } else if now.dropped > mark.dropped {
            Some(Disturbance::SlowConsumer)
        } else {
            None
        }
    }
}

/// What the broker says when the token of a connection is over. A renewed one is used for the next connection.
const TOKEN_OVER: &str = "User Authentication Expired";

fn log(event: &Event) {
    match event {
        Event::Connected => tracing::info!("connected to the broker"),
        Event::Disconnected => tracing::warn!("lost the broker, trying to come back"),
        Event::SlowConsumer => tracing::warn!("a message was dropped: subscription buffer full"),
        Event::Refused(why) if why.contains(TOKEN_OVER) => {
            tracing::info!("the broker ends the connection, because its token is over");
        }
        Event::Refused(why) => tracing::error!(%why, "the broker refuses us"),
        Event::Unreachable(why) => tracing::warn!(%why, "the broker cannot be reached"),
        Event::Closed => tracing::debug!("connection to the broker closed"),
    }
}
