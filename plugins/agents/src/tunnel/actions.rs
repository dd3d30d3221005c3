//! The action `open`: connects, answers, and carries the tunnel in a task of its own.

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use muster_api::wire::subject::TunnelAddress;
use muster_api::{ActionError, CallContext, CallSender, WorkEnd};
use muster_bus::carrier::{CarriedStream, CarrierSide, CarrierSocket, StreamCarrier};
use muster_bus::stream::{EphemeralKey, StreamSettings, StreamSide, window_for_open_streams};
use muster_contract::tunnel::{TunnelOpenInput, TunnelOpenOutput, key_context};
use serde_json::json;
use tokio::net::TcpStream;

use crate::tunnel::hub::{TunnelHub, TunnelLimit, TunnelPlace};
use crate::tunnel::options::TunnelOptions;

/// Time limit of the connection to the port. Loopback answers at once, unless the server's queue is full.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// When a caller may try again that has reached a limit.
const RETRY_AFTER: Duration = Duration::from_secs(10);

/// What the action needs; clones share it.
#[derive(Debug, Clone)]
pub(crate) struct TunnelOpener {
    options: Arc<TunnelOptions>,
    hub: TunnelHub,
}

/// Why a tunnel is not opened.
#[derive(Debug, thiserror::Error)]
enum TunnelRefusal {
    #[error("port {port} is not among the ports of [plugins.tunnel] on this node: {allowed:?}")]
    Port { port: u16, allowed: Vec<u16> },
    #[error("the request has no verified sender")]
    Sender,
    #[error("`{0}` cannot be the name of a tunnel; use 1 to 64 letters, digits, - and _")]
    Name(String),
    #[error("the daemon is not connected to the broker")]
    NoBroker,
    #[error("cannot connect to 127.0.0.1:{port} on this node")]
    Connect { port: u16, source: io::Error },
    #[error("127.0.0.1:{port} on this node did not accept a connection in {CONNECT_TIMEOUT:?}")]
    ConnectTimeout { port: u16 },
}

impl TunnelOpener {
    pub(crate) fn new(options: TunnelOptions, hub: TunnelHub) -> Self {
        Self { options: Arc::new(options), hub }
    }
}

/// Opens a tunnel.
pub(crate) async fn open_tunnel(
    opener: TunnelOpener,
    cx: CallContext,
    input: TunnelOpenInput,
) -> Result<TunnelOpenOutput, ActionError> {
    let TunnelOpener { options, hub } = opener;
    let port = input.port;
    if !options.ports.contains(&port) {
        let refusal = TunnelRefusal::Port { port, allowed: options.ports.clone() };
        return Err(ActionError::denied_by_rule(refusal.to_string(), "plugins.tunnel.ports"));
    }
    let internal = |refusal: TunnelRefusal| ActionError::internal_error(refusal.to_string());
    let sender = cx.sender.as_ref().ok_or_else(|| internal(TunnelRefusal::Sender))?;
    let address = tunnel_address(&cx, sender, &input)?;
    let place = hub
        .take_place(&sender.key, &input.tunnel, &options)
        .map_err(|limit| limit_error(&limit))?;
    let own_key = EphemeralKey::generate().map_err(ActionError::from_cause)?;
    let context = key_context(address.to_node(), port);
    let cipher = own_key
        .agree(StreamSide::Node, &input.key, &context)
        .map_err(|error| ActionError::invalid_input(error.to_string()))?;
    let connection = connect_port(port).await.map_err(ActionError::from_cause)?;
    let bus = hub.bus().ok_or_else(|| internal(TunnelRefusal::NoBroker))?.clone();
    let socket = CarrierSocket::open(bus, address, CarrierSide::Node).await;
    let socket = socket.map_err(ActionError::from_cause)?;
    let settings = StreamSettings {
        window: window_for_open_streams(place.others),
        silence: options.silence(),
        idle: Some(options.idle_timeout()),
        ..StreamSettings::default()
    };
    let carrier = socket.start(cipher, settings, hub.byte_counters());
    hub.count_opened();
    hub.tasks().spawn(carry_tunnel(carrier, connection, place, cx, input.clone()));
    Ok(TunnelOpenOutput { tunnel: input.tunnel, port, key: own_key.public_text() })
}

fn tunnel_address(
    cx: &CallContext,
    sender: &CallSender,
    input: &TunnelOpenInput,
) -> Result<TunnelAddress, ActionError> {
    let address = TunnelAddress::new(&sender.key.to_string(), &input.tunnel, cx.node.identity());
    address.ok_or_else(|| {
        ActionError::invalid_input(TunnelRefusal::Name(input.tunnel.clone()).to_string())
    })
}

fn limit_error(limit: &TunnelLimit) -> ActionError {
    match limit {
        TunnelLimit::Name => ActionError::invalid_input(limit.to_string()),
        TunnelLimit::Node(_) | TunnelLimit::Caller(_) => {
            ActionError::busy(limit.to_string(), RETRY_AFTER)
        }
    }
}

/// Connects to the port on this node, and never to another host.
async fn connect_port(port: u16) -> Result<TcpStream, TunnelRefusal> {
    let connecting = TcpStream::connect((Ipv4Addr::LOCALHOST, port));
    let connected = tokio::time::timeout(CONNECT_TIMEOUT, connecting).await;
    let connected = connected.map_err(|_| TunnelRefusal::ConnectTimeout { port })?;
    let connection = connected.map_err(|source| TunnelRefusal::Connect { port, source })?;
    // A failure costs some delay, and nothing else.
    let _ = connection.set_nodelay(true);
    Ok(connection)
}

/// Carries the tunnel until it ends, frees its place, and records the end.
async fn carry_tunnel(
    carrier: StreamCarrier,
    mut connection: TcpStream,
    place: TunnelPlace,
    cx: CallContext,
    input: TunnelOpenInput,
) {
    let leaving = cx.node.leaving();
    let (reader, writer) = connection.split();
    let CarriedStream { end, totals, took } = carrier.carry(reader, writer, leaving).await;
    drop(connection);
    drop(place);
    let data = json!({
        "port": input.port,
        "tunnel": input.tunnel,
        "bytes_to_node": totals.received,
        "bytes_to_caller": totals.sent,
        "messages_refused": totals.refused,
    });
    let data = data.as_object().cloned().unwrap_or_default();
    cx.node.record_work_end(&cx, &WorkEnd { data, reason: end.as_str(), took });
}
