//! A TCP proxy on loopback in front of a broker, which injects network faults: it delays, throttles, drops, duplicates
//! and cuts, for all connections or for one. It speaks plain NATS and forwards whole frames only.

mod frames;
mod line;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

pub use frames::{CapturedMessage, Frame, FrameSplitter, InvalidFrame};

use crate::organisation::Broker;

/// Small, so that a client that reads slowly causes back-pressure at the broker; several loopback packets in size, or
/// the transfer stalls.
const RECEIVE_BUFFER: u32 = 256 * 1024;

/// A fault that is applied to a connection, in both directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NetworkFault {
    /// No fault.
    #[default]
    None,
    /// Data arrives later by this duration.
    Delay(Duration),
    /// Limits the rate to this many bytes per second.
    Throttle(u32),
    /// A slow link: data arrives later by this duration, at this rate in bytes per second.
    SlowLink {
        /// The delay in each direction.
        delay: Duration,
        /// The rate in each direction.
        bytes_per_second: u32,
    },
    /// Data is dropped without a signal to either side: no end of stream and no reset is forwarded. When the fault
    /// ends, the proxy resets the connection, as a host does that has lost the connection's state.
    HalfOpen,
    /// Every message is delivered twice in succession.
    Duplicate,
}

impl NetworkFault {
    fn delay(self) -> Duration {
        match self {
            Self::Delay(delay) | Self::SlowLink { delay, .. } => delay,
            _ => Duration::ZERO,
        }
    }

    fn bytes_per_second(self) -> Option<u32> {
        match self {
            Self::Throttle(rate) | Self::SlowLink { bytes_per_second: rate, .. } => {
                Some(rate.max(1))
            }
            _ => None,
        }
    }
}

/// How a connection is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disconnect {
    /// With a TCP reset; data in transit is lost.
    Reset,
    /// With a regular close, as when a program closes its socket.
    Close,
}

/// A command to the task of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineCommand {
    Forward(NetworkFault),
    Disconnect(Disconnect),
}

/// Index of a connection through the proxy, in the order of arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(usize);

/// A running proxy; dropping it ends all its connections.
#[derive(Debug)]
pub struct FaultProxy {
    port: u16,
    shared: Arc<Mutex<ProxyState>>,
    traffic: Arc<ForwardedBytes>,
    accept_task: JoinHandle<()>,
}

/// Bytes that a proxy has forwarded on all its connections.
#[derive(Debug, Default)]
pub struct ForwardedBytes {
    /// From clients to the broker.
    up: AtomicU64,
    /// From the broker to clients.
    down: AtomicU64,
}

impl ForwardedBytes {
    /// From clients to the broker.
    pub fn up(&self) -> u64 {
        self.up.load(Ordering::Relaxed)
    }

    /// From the broker to clients.
    pub fn down(&self) -> u64 {
        self.down.load(Ordering::Relaxed)
    }
}

/// State that the proxy shares with its connections.
#[derive(Debug, Default)]
struct ProxyState {
    /// The fault that is applied to new connections.
    fault: NetworkFault,
    connections: Vec<watch::Sender<LineCommand>>,
    /// Receives the messages that clients publish.
    tap: Option<Tap>,
}

/// Sender for the messages that clients publish.
pub(crate) type Tap = mpsc::UnboundedSender<CapturedMessage>;

impl FaultProxy {
    /// Starts a proxy in front of this broker; the broker may restart meanwhile.
    pub async fn start(broker: &impl Broker) -> Self {
        Self::start_with_tap(broker, None).await
    }

    /// Like [`Self::start`], and captures every message that clients publish through it.
    pub async fn start_tapped(
        broker: &impl Broker,
    ) -> (Self, mpsc::UnboundedReceiver<CapturedMessage>) {
        let (tap, published) = mpsc::unbounded_channel();
        (Self::start_with_tap(broker, Some(tap)).await, published)
    }

    async fn start_with_tap(broker: &impl Broker, tap: Option<Tap>) -> Self {
        let target = broker.port();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Mutex::new(ProxyState { tap, ..ProxyState::default() }));
        let traffic = Arc::<ForwardedBytes>::default();
        let accepting = accept(listener, target, Arc::clone(&shared), Arc::clone(&traffic));
        Self { port, shared, traffic, accept_task: tokio::spawn(accepting) }
    }

    /// The bytes that were forwarded since the start.
    pub fn traffic(&self) -> &ForwardedBytes {
        &self.traffic
    }

    /// Applies a fault to all connections, including future ones.
    pub fn inject(&self, fault: NetworkFault) {
        let mut shared = lock(&self.shared);
        shared.fault = fault;
        for connection in &shared.connections {
            connection.send_replace(LineCommand::Forward(fault));
        }
    }

    /// Applies a fault to one connection.
    pub fn inject_into(&self, ConnectionId(number): ConnectionId, fault: NetworkFault) {
        let shared = lock(&self.shared);
        let connection = shared.connections.get(number).unwrap();
        connection.send_replace(LineCommand::Forward(fault));
    }

    /// Removes the fault from all connections.
    pub fn heal(&self) {
        self.inject(NetworkFault::None);
    }

    /// Ends all current connections.
    pub fn cut(&self, how: Disconnect) {
        for connection in &lock(&self.shared).connections {
            connection.send_replace(LineCommand::Disconnect(how));
        }
    }

    /// Ends one connection.
    pub fn cut_one(&self, ConnectionId(number): ConnectionId, how: Disconnect) {
        let shared = lock(&self.shared);
        let connection = shared.connections.get(number).unwrap();
        connection.send_replace(LineCommand::Disconnect(how));
    }

    /// The open connections.
    pub fn connections(&self) -> Vec<ConnectionId> {
        let shared = lock(&self.shared);
        let numbered = shared.connections.iter().enumerate();
        numbered
            .filter(|(_, connection)| connection.receiver_count() > 0)
            .map(|(number, _)| ConnectionId(number))
            .collect()
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.accept_task.abort();
        self.cut(Disconnect::Reset);
    }
}

impl Broker for FaultProxy {
    fn port(&self) -> u16 {
        self.port
    }
}

fn lock(shared: &Mutex<ProxyState>) -> MutexGuard<'_, ProxyState> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn accept(
    listener: TcpListener,
    target: u16,
    shared: Arc<Mutex<ProxyState>>,
    traffic: Arc<ForwardedBytes>,
) {
    loop {
        let Ok((client, _)) = listener.accept().await else {
            continue;
        };
        let (commands, tap) = {
            let mut shared = lock(&shared);
            let (command, commands) = watch::channel(LineCommand::Forward(shared.fault));
            shared.connections.push(command);
            (commands, shared.tap.clone())
        };
        let traffic = Arc::clone(&traffic);
        tokio::spawn(async move {
            // Without a broker, the client's connection is closed at once, as a failing broker would do.
            if let Ok(server) = connect_to_broker(target).await {
                line::forward_frames((client, server), commands, tap, &traffic).await;
            }
        });
    }
}

async fn connect_to_broker(port: u16) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(RECEIVE_BUFFER)?;
    let server = socket.connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await?;
    server.set_nodelay(true)?;
    Ok(server)
}

#[cfg(test)]
mod tests;
