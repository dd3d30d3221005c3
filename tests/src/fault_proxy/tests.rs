//! Tests the proxy between two plain sockets: the effect of each fault.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, timeout};

use super::{Disconnect, FaultProxy, NetworkFault};
use crate::await_state;
use crate::organisation::Broker;

const READ_TIMEOUT: Duration = Duration::from_secs(20);
/// Data that has not arrived after this time counts as dropped.
const SILENCE_PERIOD: Duration = Duration::from_millis(200);

struct TargetPort(u16);

impl Broker for TargetPort {
    fn port(&self) -> u16 {
        self.0
    }
}

/// A client and a server with the proxy between them.
async fn connect_through_proxy() -> (FaultProxy, TcpStream, TcpStream, TcpListener) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let target = TargetPort(listener.local_addr().unwrap().port());
    let proxy = FaultProxy::start(&target).await;
    let client = TcpStream::connect(("127.0.0.1", proxy.port())).await.unwrap();
    let (server, _) = listener.accept().await.unwrap();
    (proxy, client, server, listener)
}

async fn read(stream: &mut TcpStream, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    let read = timeout(READ_TIMEOUT, stream.read_exact(&mut bytes)).await;
    read.unwrap().unwrap();
    bytes
}

#[tokio::test]
async fn forwards_duplicates_and_recovers() {
    let (proxy, mut client, mut server, _listener) = connect_through_proxy().await;
    client.write_all(b"PING\r\nPUB a 2\r\nhi\r\n").await.unwrap();
    assert_eq!(read(&mut server, 19).await, b"PING\r\nPUB a 2\r\nhi\r\n");
    proxy.inject(NetworkFault::Duplicate);
    server.write_all(b"PONG\r\nMSG a 1 2\r\nhi\r\n").await.unwrap();
    assert_eq!(read(&mut client, 36).await, b"PONG\r\nMSG a 1 2\r\nhi\r\nMSG a 1 2\r\nhi\r\n");
    proxy.heal();
    server.write_all(b"MSG a 1 0\r\n\r\nPING\r\n").await.unwrap();
    assert_eq!(read(&mut client, 19).await, b"MSG a 1 0\r\n\r\nPING\r\n");
}

#[tokio::test]
async fn delay_and_throttle_lose_no_bytes() {
    let (proxy, mut client, mut server, _listener) = connect_through_proxy().await;
    proxy.inject(NetworkFault::Delay(Duration::from_millis(150)));
    let started = Instant::now();
    client.write_all(b"PING\r\n").await.unwrap();
    assert_eq!(read(&mut server, 6).await, b"PING\r\n");
    assert!(started.elapsed() >= Duration::from_millis(150));
    proxy.inject(NetworkFault::Throttle(100_000));
    let started = Instant::now();
    let mut message = b"PUB a 50000\r\n".to_vec();
    message.resize(message.len() + 50_000, b'x');
    message.extend_from_slice(b"\r\n");
    client.write_all(&message).await.unwrap();
    assert_eq!(read(&mut server, message.len()).await, message);
    assert!(started.elapsed() >= Duration::from_millis(400));
}

#[tokio::test]
async fn half_open_connection_is_silent_until_the_fault_ends() {
    let (proxy, mut client, mut server, listener) = connect_through_proxy().await;
    proxy.inject(NetworkFault::HalfOpen);
    client.write_all(b"PING\r\n").await.unwrap();
    let mut byte = [0];
    assert!(timeout(SILENCE_PERIOD, server.read(&mut byte)).await.is_err());
    // An end of stream is not forwarded either, and a new connection receives nothing.
    drop(server);
    assert!(timeout(SILENCE_PERIOD, client.read(&mut byte)).await.is_err());
    let mut second_client = TcpStream::connect(("127.0.0.1", proxy.port())).await.unwrap();
    let (mut second_server, _) = listener.accept().await.unwrap();
    second_server.write_all(b"INFO {}\r\n").await.unwrap();
    assert!(timeout(SILENCE_PERIOD, second_client.read(&mut byte)).await.is_err());
    proxy.heal();
    for stream in [&mut client, &mut second_client] {
        let end = timeout(READ_TIMEOUT, stream.read(&mut byte)).await.unwrap();
        assert!(end.is_err(), "{end:?}");
    }
    await_state("no connection is open", || proxy.connections().is_empty()).await;
}

#[tokio::test]
async fn cutting_one_connection_keeps_the_other() {
    let (proxy, mut first, mut first_server, listener) = connect_through_proxy().await;
    let mut second = TcpStream::connect(("127.0.0.1", proxy.port())).await.unwrap();
    let (mut second_server, _) = listener.accept().await.unwrap();
    let [one, _] = proxy.connections().try_into().unwrap();
    let mut byte = [0];
    proxy.cut_one(one, Disconnect::Reset);
    let reset = timeout(READ_TIMEOUT, first.read(&mut byte)).await.unwrap();
    assert!(reset.is_err(), "{reset:?}");
    assert!(first_server.read(&mut byte).await.is_err());
    second_server.write_all(b"PING\r\n").await.unwrap();
    assert_eq!(read(&mut second, 6).await, b"PING\r\n");
    proxy.cut(Disconnect::Close);
    let closed = timeout(READ_TIMEOUT, second.read(&mut byte)).await.unwrap();
    assert_eq!(closed.unwrap(), 0);
}
