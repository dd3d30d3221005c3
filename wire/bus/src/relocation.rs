//! Moves a connection to another server of the cluster without losing a message.
//!
//! A server that is about to stop, or that has too many clients, says so by "lame duck mode" (`ldm` in its INFO). The client library only
//! reports it: without this file, the client stays until the server closes the connection, and misses what is published before it has
//! reconnected. Here a second connection to another server gets the same subscriptions, both are read for a while, and each message is
//! delivered once. Then the first one is closed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use async_nats::connection::State;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::connect::{BrokerAddress, BusOptions, server_addresses};
use crate::connection::confirm_delivery;
use crate::event::BusEventRecorder;
use crate::subscription::SubscriptionHandover;

/// How long both connections are read at least: other servers of the cluster learn of the new subscriptions meanwhile.
const MIN_OVERLAP: Duration = Duration::from_secs(1);
/// How long both connections are read at most, while requests on the former one wait for answers.
const MAX_OVERLAP: Duration = Duration::from_secs(10);
/// Poll interval for the end of requests on the former connection.
const OVERLAP_POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Attempts to reach another server. A client whose only server asks it to leave stays there.
const MAX_ATTEMPTS: usize = 12;

/// The current connection, and the subscriptions that follow it to the next one.
#[derive(Debug)]
pub(crate) struct BusLink {
    options: BusOptions,
    recorder: Arc<BusEventRecorder>,
    connections: Mutex<LinkConnections>,
    is_moving: AtomicBool,
    is_closed: AtomicBool,
}

#[derive(Debug)]
struct LinkConnections {
    current: Arc<LinkConnection>,
    /// The former connection, while it is being replaced.
    former: Option<Arc<LinkConnection>>,
    subscriptions: Vec<Weak<SubscriptionHandover>>,
    /// Traffic of closed connections.
    closed_traffic: LinkTraffic,
}

/// One connection of the client library.
#[derive(Debug)]
pub(crate) struct LinkConnection {
    pub(crate) client: async_nats::Client,
    tap: Arc<ConnectionTap>,
}

/// Bytes and messages in both directions.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LinkTraffic {
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    pub(crate) messages_in: u64,
    pub(crate) messages_out: u64,
}

impl LinkTraffic {
    fn add_client(&mut self, client: &async_nats::Client) {
        let statistics = client.statistics();
        self.bytes_in += statistics.in_bytes.load(Ordering::Relaxed);
        self.bytes_out += statistics.out_bytes.load(Ordering::Relaxed);
        self.messages_in += statistics.in_messages.load(Ordering::Relaxed);
        self.messages_out += statistics.out_messages.load(Ordering::Relaxed);
    }
}

/// Receives the events of one connection.
#[derive(Debug)]
pub(crate) struct ConnectionTap {
    recorder: Arc<BusEventRecorder>,
    /// Another connection has all subscriptions, so the end of this one loses nothing and is not reported.
    is_replaced: AtomicBool,
    /// The server asked the client to leave.
    is_lame: AtomicBool,
    link: OnceLock<Weak<BusLink>>,
}

impl ConnectionTap {
    pub(crate) fn new(recorder: Arc<BusEventRecorder>) -> Self {
        Self {
            recorder,
            is_replaced: AtomicBool::new(false),
            is_lame: AtomicBool::new(false),
            link: OnceLock::new(),
        }
    }

    /// Records an event; a request of the server to leave starts the move.
    pub(crate) fn handle_event(&self, event: async_nats::Event) {
        use async_nats::Event;
        match event {
            Event::LameDuckMode => {
                self.is_lame.store(true, Ordering::Release);
                if let Some(link) = self.link.get().and_then(Weak::upgrade) {
                    link.start_move();
                }
            }
            Event::Connected | Event::Disconnected | Event::Closed | Event::ClientError(_)
                if self.is_replaced.load(Ordering::Acquire) => {}
            // A server that the client was asked to leave closed the connection: the next one may stay.
            Event::Disconnected => {
                self.is_lame.store(false, Ordering::Release);
                self.recorder.record_event(Event::Disconnected);
            }
            event => self.recorder.record_event(event),
        }
    }
}

impl BusLink {
    pub(crate) fn new(
        options: BusOptions,
        recorder: Arc<BusEventRecorder>,
        client: async_nats::Client,
        tap: Arc<ConnectionTap>,
    ) -> Arc<Self> {
        let current = Arc::new(LinkConnection { client, tap });
        let link = Arc::new(Self {
            options,
            recorder,
            connections: Mutex::new(LinkConnections {
                current: Arc::clone(&current),
                former: None,
                subscriptions: Vec::new(),
                closed_traffic: LinkTraffic::default(),
            }),
            is_moving: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
        });
        link.observe(&current.tap);
        link
    }

    pub(crate) fn recorder(&self) -> &Arc<BusEventRecorder> {
        &self.recorder
    }

    /// The connection for new operations. A holder keeps it open after a move, for at most [`MAX_OVERLAP`].
    pub(crate) fn current(&self) -> Arc<LinkConnection> {
        Arc::clone(&self.lock_connections().current)
    }

    /// The connection that is being replaced, if any.
    pub(crate) fn former(&self) -> Option<Arc<LinkConnection>> {
        self.lock_connections().former.clone()
    }

    /// Registers a subscription, which is to be made on the returned connection.
    pub(crate) fn register(&self, handover: &Arc<SubscriptionHandover>) -> Arc<LinkConnection> {
        let mut connections = self.lock_connections();
        let subscriptions = &mut connections.subscriptions;
        // Dropped subscriptions are removed when the list would grow, so the cost of each registration is constant on average.
        if subscriptions.len() == subscriptions.capacity() {
            subscriptions.retain(|handover| handover.strong_count() > 0);
        }
        subscriptions.push(Arc::downgrade(handover));
        Arc::clone(&connections.current)
    }

    /// Whether a move is in progress.
    pub(crate) fn is_moving(&self) -> bool {
        self.is_moving.load(Ordering::Acquire)
    }

    /// Traffic of all connections together.
    pub(crate) fn traffic(&self) -> LinkTraffic {
        let connections = self.lock_connections();
        let mut traffic = connections.closed_traffic;
        for connection in connections.former.iter().chain([&connections.current]) {
            traffic.add_client(&connection.client);
        }
        traffic
    }

    /// Ends a move in progress, and prevents further ones.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
    }

    fn observe(self: &Arc<Self>, tap: &ConnectionTap) {
        let _ = tap.link.set(Arc::downgrade(self));
        // The server may have said it before the link was set.
        if tap.is_lame.load(Ordering::Acquire) {
            self.start_move();
        }
    }

    fn start_move(self: &Arc<Self>) {
        if !self.is_moving.swap(true, Ordering::AcqRel) {
            tokio::spawn(Arc::clone(self).move_while_lame());
        }
    }

    async fn move_while_lame(self: Arc<Self>) {
        tracing::info!("the server asked this client to leave; connecting to another server");
        loop {
            while self.current().tap.is_lame.load(Ordering::Acquire) {
                let Some(next) = self.connect_elsewhere().await else {
                    return self.is_moving.store(false, Ordering::Release);
                };
                self.replace_connection(next).await;
            }
            self.is_moving.store(false, Ordering::Release);
            // A server that asked between the two lines above has found a move in progress.
            let is_lame = self.current().tap.is_lame.load(Ordering::Acquire);
            if !is_lame || self.is_moving.swap(true, Ordering::AcqRel) {
                return;
            }
        }
    }

    /// Connects to another server of the cluster. `None` if the current connection was lost meanwhile, which the client library reconnects, or
    /// if no other server accepts the connection.
    async fn connect_elsewhere(&self) -> Option<Arc<LinkConnection>> {
        let current = self.current();
        let current_server = current.client.server_info().server_id;
        for attempt in 1..=MAX_ATTEMPTS {
            if attempt > 1 {
                sleep(self.options.backoff.random_delay(attempt)).await;
            }
            let addresses = current.client.server_pool().await.ok()?;
            let addresses = addresses.into_iter().map(|server| server.addr).collect();
            let tap = Arc::new(ConnectionTap::new(Arc::clone(&self.recorder)));
            tap.is_replaced.store(true, Ordering::Release);
            let connected = self.options.connect_once(addresses, &self.recorder, &tap).await;
            let is_lost = current.client.connection_state() != State::Connected;
            if is_lost || self.is_closed.load(Ordering::Acquire) {
                return None;
            }
            match connected {
                Ok(client) if client.server_info().server_id != current_server => {
                    return Some(Arc::new(LinkConnection { client, tap }));
                }
                // A server that only sheds load accepts new connections.
                Ok(_) => {}
                Err(error) => {
                    tracing::debug!(why = %error, "cannot connect to another server yet");
                }
            }
        }
        tracing::warn!("no other server of the broker accepts connections; staying at this one");
        None
    }

    /// Moves all subscriptions and all further operations to the next connection, and closes the current one.
    async fn replace_connection(self: &Arc<Self>, next: Arc<LinkConnection>) {
        let (former, subscriptions) = {
            let mut connections = self.lock_connections();
            let former = std::mem::replace(&mut connections.current, Arc::clone(&next));
            connections.former = Some(Arc::clone(&former));
            (former, connections.subscriptions.clone())
        };
        for handover in subscriptions.iter().filter_map(Weak::upgrade) {
            handover.subscribe_next(&next.client).await;
        }
        if let Err(error) = confirm_delivery(&next.client, &self.recorder).await {
            tracing::warn!(why = %error, "the next server did not confirm its subscriptions");
        }
        former.tap.is_replaced.store(true, Ordering::Release);
        next.tap.is_replaced.store(false, Ordering::Release);
        self.recorder.record_event(async_nats::Event::Connected);
        if next.client.connection_state() != State::Connected {
            self.recorder.record_event(async_nats::Event::Disconnected);
        }
        self.observe(&next.tap);
        self.await_unused(&former).await;
        self.close_former(&former).await;
    }

    /// Waits until no operation uses the former connection. One reference is here and one in `connections`.
    async fn await_unused(&self, former: &Arc<LinkConnection>) {
        let start = Instant::now();
        loop {
            let elapsed = start.elapsed();
            let is_unused = Arc::strong_count(former) <= 2 && elapsed >= MIN_OVERLAP;
            if is_unused || elapsed >= MAX_OVERLAP || self.is_closed.load(Ordering::Acquire) {
                return;
            }
            sleep(OVERLAP_POLL_INTERVAL).await;
        }
    }

    /// Subscriptions read the rest of their buffers, and go on with the current connection.
    async fn close_former(&self, former: &LinkConnection) {
        {
            let mut connections = self.lock_connections();
            connections.former = None;
            connections.closed_traffic.add_client(&former.client);
        }
        if let Err(error) = former.client.drain().await {
            tracing::debug!(why = %error, "the former connection was closed already");
        }
    }

    fn lock_connections(&self) -> MutexGuard<'_, LinkConnections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Gives a connection its later addresses, for the lifetime of both.
pub(crate) async fn follow_addresses(
    link: Weak<BusLink>,
    mut addresses: watch::Receiver<Vec<BrokerAddress>>,
) {
    while addresses.changed().await.is_ok() {
        let Some(link) = link.upgrade() else { return };
        let servers = addresses.borrow_and_update().clone();
        let pool = server_addresses(&servers).map_err(|error| error.to_string());
        let set = match pool {
            Ok(pool) => {
                let set = link.current().client.set_server_pool(pool).await;
                set.map_err(|error| error.to_string())
            }
            Err(error) => Err(error),
        };
        if let Err(error) = set {
            tracing::warn!(error, "cannot use the new addresses of the broker");
        }
    }
}
