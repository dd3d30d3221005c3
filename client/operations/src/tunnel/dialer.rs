//! Opens tunnels: subscribes, sends the signed request with a one-time key, and derives the keys from the signed reply.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use muster_bus::carrier::{
    CarriedStream, CarrierCounters, CarrierSide, CarrierSocket, StreamCarrier,
};
use muster_bus::stream::{
    EphemeralKey, StreamEnd, StreamSettings, StreamSide, window_for_open_streams,
};
use muster_calls::{CallEvent, CallTarget, Client, ClientError, RpcCall};
use muster_client::FleetConnection;
use muster_contract::tunnel::{TunnelOpen, TunnelOpenInput, TunnelOpenOutput, key_context};
use muster_wire::identity::Identity;
use muster_wire::subject::TunnelAddress;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::error::TunnelError;

/// Time limit of the action on the node, which connects to a port of its own machine.
const OPEN_TIMEOUT: Duration = Duration::from_secs(10);

/// Opens tunnels to one port of one node. Clones share the connection.
#[derive(Debug, Clone)]
pub struct TunnelDialer {
    client: Client,
    node: Identity,
    port: u16,
    listen: Duration,
    open: Arc<AtomicUsize>,
}

/// An open tunnel.
#[derive(Debug)]
pub struct DialedTunnel {
    carrier: StreamCarrier,
    node: Identity,
    port: u16,
    _place: OpenPlace,
}

/// Counts an open tunnel until it is dropped.
#[derive(Debug)]
struct OpenPlace(Arc<AtomicUsize>);

impl Drop for OpenPlace {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl TunnelDialer {
    /// A dialer for this port of this node.
    pub fn new(fleet: &FleetConnection, node: Identity, port: u16) -> Self {
        let (client, listen) = (fleet.client.clone(), fleet.listen);
        Self { client, node, port, listen, open: Arc::default() }
    }

    /// The node.
    pub fn node(&self) -> &Identity {
        &self.node
    }

    /// The port on the node.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Opens a tunnel.
    pub async fn dial(&self) -> Result<DialedTunnel, TunnelError> {
        let others = self.open.fetch_add(1, Ordering::Relaxed);
        let place = OpenPlace(Arc::clone(&self.open));
        let key = EphemeralKey::generate()?;
        let tunnel = Uuid::now_v7().simple().to_string();
        let address = TunnelAddress::new(&self.client.key().to_string(), &tunnel, &self.node)
            .ok_or_else(|| TunnelError::Silent(self.node.clone()))?;
        let context = key_context(address.to_node(), self.port);
        // Subscribed before the node may send.
        let socket = CarrierSocket::open(self.client.bus(), address, CarrierSide::Caller).await?;
        let input = TunnelOpenInput { port: self.port, tunnel, key: key.public_text() };
        let output = self.request_tunnel(&input).await?;
        let cipher = key.agree(StreamSide::Caller, &output.key, &context)?;
        let window = window_for_open_streams(others);
        let settings = StreamSettings { window, ..StreamSettings::default() };
        let carrier = socket.start(cipher, settings, Arc::new(CarrierCounters::default()));
        Ok(DialedTunnel { carrier, node: self.node.clone(), port: self.port, _place: place })
    }

    /// Sends the request, and returns the outputs of its verified reply.
    async fn request_tunnel(
        &self,
        input: &TunnelOpenInput,
    ) -> Result<TunnelOpenOutput, TunnelError> {
        let target = CallTarget::Nodes(BTreeSet::from([self.node.clone()]));
        let call = RpcCall::of_action::<TunnelOpen>(input, target).map_err(ClientError::from)?;
        let (timeout, wait) = (Some(OPEN_TIMEOUT), OPEN_TIMEOUT + self.listen);
        let mut events = self.client.call(RpcCall { timeout, wait, ..call });
        let node = self.node.clone();
        while let Some(event) = events.next().await {
            return match event {
                CallEvent::Reply(received) if received.is_ok() => {
                    let output = received.read_outputs::<TunnelOpen>();
                    output.map_err(|source| TunnelError::Reply { node, source })
                }
                CallEvent::Reply(received) => {
                    let (port, message) = (self.port, received.reply.statusmsg);
                    Err(TunnelError::Refused { node, port, message })
                }
                CallEvent::Absent(node) => Err(TunnelError::Absent(node)),
                CallEvent::Failed(error) => Err(error.into()),
                _ => continue,
            };
        }
        Err(TunnelError::Silent(node))
    }
}

impl DialedTunnel {
    /// Carries a connection until the tunnel ends. `stop` ends it early, which is no error.
    pub async fn carry<R, W>(
        self,
        reader: R,
        writer: W,
        stop: CancellationToken,
    ) -> Result<CarriedStream, TunnelError>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        let carried = self.carrier.carry(reader, writer, stop.clone()).await;
        let end = carried.end;
        if end == StreamEnd::Complete || stop.is_cancelled() {
            return Ok(carried);
        }
        Err(TunnelError::Ended { node: self.node, port: self.port, end })
    }
}
