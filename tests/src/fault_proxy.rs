//! A network that misbehaves on demand: a TCP proxy on loopback before a broker, which delays, throttles, swallows, duplicates and cuts,
//! for all connections or for one. It speaks plain NATS, and passes whole frames only.

mod frames;
mod line;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

pub use frames::{Frame, NoFrame, Published, Splitter};

use crate::organisation::Broker;

/// Little, so that who reads slowly through a proxy is felt behind it; a few of loopback's packets, or it stands still between them.
const RECEIVE_BUFFER: u32 = 256 * 1024;

/// What happens to the bytes of a connection, in both directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fault {
    /// Nothing.
    #[default]
    None,
    /// They arrive so much later.
    Delay(Duration),
    /// So many a second arrive.
    Throttle(u32),
    /// They are swallowed, and nobody is told: neither an end nor a refusal comes through. Who heals it resets the connection, as a
    /// machine does that has forgotten it.
    HalfOpen,
    /// Every message arrives twice, one right behind the other.
    Duplicate,
}

/// How a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// With a reset: whatever was under way is lost.
    Reset,
    /// As a program ends that closes its socket.
    Close,
}

/// What a connection is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    Carry(Fault),
    Cut(Cut),
}

/// A connection through the proxy, in the order in which they came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(usize);

/// A running proxy; everything through it ends with it.
#[derive(Debug)]
pub struct FaultProxy {
    port: u16,
    shared: Arc<Mutex<Shared>>,
    accepting: JoinHandle<()>,
}

/// What the proxy and its connections both know.
#[derive(Debug, Default)]
struct Shared {
    /// What new connections begin with.
    fault: Fault,
    connections: Vec<watch::Sender<Order>>,
    /// Who wants to know what clients publish.
    tap: Option<Tap>,
}

/// Where everything goes that clients publish.
pub(crate) type Tap = mpsc::UnboundedSender<Published>;

impl FaultProxy {
    /// A proxy before this broker, which may go and come back meanwhile.
    pub async fn before(broker: &impl Broker) -> Self {
        Self::start(broker, None).await
    }

    /// The same, with everything that clients publish through it from now on: what somebody has who captures messages.
    pub async fn tapped(broker: &impl Broker) -> (Self, mpsc::UnboundedReceiver<Published>) {
        let (tap, published) = mpsc::unbounded_channel();
        (Self::start(broker, Some(tap)).await, published)
    }

    async fn start(broker: &impl Broker, tap: Option<Tap>) -> Self {
        let target = broker.port();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Mutex::new(Shared { tap, ..Shared::default() }));
        let accepting = tokio::spawn(accept(listener, target, Arc::clone(&shared)));
        Self { port, shared, accepting }
    }

    /// Does this to all connections, those to come included.
    pub fn inject(&self, fault: Fault) {
        let mut shared = lock(&self.shared);
        shared.fault = fault;
        for connection in &shared.connections {
            connection.send_replace(Order::Carry(fault));
        }
    }

    /// Does this to one connection.
    pub fn inject_into(&self, ConnectionId(number): ConnectionId, fault: Fault) {
        let shared = lock(&self.shared);
        let connection = shared.connections.get(number).unwrap();
        connection.send_replace(Order::Carry(fault));
    }

    /// Everything is as it should be again.
    pub fn heal(&self) {
        self.inject(Fault::None);
    }

    /// Ends all connections that there are.
    pub fn cut(&self, how: Cut) {
        for connection in &lock(&self.shared).connections {
            connection.send_replace(Order::Cut(how));
        }
    }

    /// Ends one connection.
    pub fn cut_one(&self, ConnectionId(number): ConnectionId, how: Cut) {
        let shared = lock(&self.shared);
        let connection = shared.connections.get(number).unwrap();
        connection.send_replace(Order::Cut(how));
    }

    /// The connections that stand.
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
        self.accepting.abort();
        self.cut(Cut::Reset);
    }
}

impl Broker for FaultProxy {
    fn port(&self) -> u16 {
        self.port
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn accept(listener: TcpListener, target: u16, shared: Arc<Mutex<Shared>>) {
    loop {
        let Ok((client, _)) = listener.accept().await else {
            continue;
        };
        let (orders, tap) = {
            let mut shared = lock(&shared);
            let (order, orders) = watch::channel(Order::Carry(shared.fault));
            shared.connections.push(order);
            (orders, shared.tap.clone())
        };
        tokio::spawn(async move {
            // Without a broker the client sees a connection that ends at once, which is what it would see of one that ended.
            if let Ok(server) = reach(target).await {
                line::carry((client, server), orders, tap).await;
            }
        });
    }
}

async fn reach(port: u16) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(RECEIVE_BUFFER)?;
    let server = socket.connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await?;
    server.set_nodelay(true)?;
    Ok(server)
}

#[cfg(test)]
mod tests;
