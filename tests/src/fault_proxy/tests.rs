//! The proxy between two plain sockets: each fault is what it says.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, timeout};

use super::{Cut, Fault, FaultProxy};
use crate::await_state;
use crate::organisation::Broker;

const PATIENCE: Duration = Duration::from_secs(20);
/// What does not come within this time does not come.
const NEVER: Duration = Duration::from_millis(200);

struct Listening(u16);

impl Broker for Listening {
    fn port(&self) -> u16 {
        self.0
    }
}

/// A client and a server with the proxy between them.
async fn connected() -> (FaultProxy, TcpStream, TcpStream, TcpListener) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let target = Listening(listener.local_addr().unwrap().port());
    let proxy = FaultProxy::before(&target).await;
    let client = TcpStream::connect(("127.0.0.1", proxy.port())).await.unwrap();
    let (server, _) = listener.accept().await.unwrap();
    (proxy, client, server, listener)
}

async fn read(stream: &mut TcpStream, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    let read = timeout(PATIENCE, stream.read_exact(&mut bytes)).await;
    read.unwrap().unwrap();
    bytes
}

#[tokio::test]
async fn it_carries_duplicates_and_heals() {
    let (proxy, mut client, mut server, _listener) = connected().await;
    client.write_all(b"PING\r\nPUB a 2\r\nhi\r\n").await.unwrap();
    assert_eq!(read(&mut server, 19).await, b"PING\r\nPUB a 2\r\nhi\r\n");
    proxy.inject(Fault::Duplicate);
    server.write_all(b"PONG\r\nMSG a 1 2\r\nhi\r\n").await.unwrap();
    assert_eq!(read(&mut client, 36).await, b"PONG\r\nMSG a 1 2\r\nhi\r\nMSG a 1 2\r\nhi\r\n");
    proxy.heal();
    server.write_all(b"MSG a 1 0\r\n\r\nPING\r\n").await.unwrap();
    assert_eq!(read(&mut client, 19).await, b"MSG a 1 0\r\n\r\nPING\r\n");
}

#[tokio::test]
async fn delays_and_throttles_cost_time_and_no_byte() {
    let (proxy, mut client, mut server, _listener) = connected().await;
    proxy.inject(Fault::Delay(Duration::from_millis(150)));
    let begun = Instant::now();
    client.write_all(b"PING\r\n").await.unwrap();
    assert_eq!(read(&mut server, 6).await, b"PING\r\n");
    assert!(begun.elapsed() >= Duration::from_millis(150));
    proxy.inject(Fault::Throttle(100_000));
    let begun = Instant::now();
    let mut message = b"PUB a 50000\r\n".to_vec();
    message.resize(message.len() + 50_000, b'x');
    message.extend_from_slice(b"\r\n");
    client.write_all(&message).await.unwrap();
    assert_eq!(read(&mut server, message.len()).await, message);
    assert!(begun.elapsed() >= Duration::from_millis(400));
}

#[tokio::test]
async fn a_half_open_connection_says_nothing_until_it_is_healed() {
    let (proxy, mut client, mut server, listener) = connected().await;
    proxy.inject(Fault::HalfOpen);
    client.write_all(b"PING\r\n").await.unwrap();
    let mut byte = [0];
    assert!(timeout(NEVER, server.read(&mut byte)).await.is_err());
    // Not even an end comes through, and a new connection fares no better.
    drop(server);
    assert!(timeout(NEVER, client.read(&mut byte)).await.is_err());
    let mut newcomer = TcpStream::connect(("127.0.0.1", proxy.port())).await.unwrap();
    let (mut met, _) = listener.accept().await.unwrap();
    met.write_all(b"INFO {}\r\n").await.unwrap();
    assert!(timeout(NEVER, newcomer.read(&mut byte)).await.is_err());
    proxy.heal();
    for stream in [&mut client, &mut newcomer] {
        let end = timeout(PATIENCE, stream.read(&mut byte)).await.unwrap();
        assert!(end.is_err(), "{end:?}");
    }
    await_state("nobody is connected", || proxy.connections().is_empty()).await;
}

#[tokio::test]
async fn one_connection_is_cut_and_the_other_stays() {
    let (proxy, mut first, mut first_server, listener) = connected().await;
    let mut second = TcpStream::connect(("127.0.0.1", proxy.port())).await.unwrap();
    let (mut second_server, _) = listener.accept().await.unwrap();
    let [one, _] = proxy.connections().try_into().unwrap();
    let mut byte = [0];
    proxy.cut_one(one, Cut::Reset);
    let reset = timeout(PATIENCE, first.read(&mut byte)).await.unwrap();
    assert!(reset.is_err(), "{reset:?}");
    assert!(first_server.read(&mut byte).await.is_err());
    second_server.write_all(b"PING\r\n").await.unwrap();
    assert_eq!(read(&mut second, 6).await, b"PING\r\n");
    proxy.cut(Cut::Close);
    let closed = timeout(PATIENCE, second.read(&mut byte)).await.unwrap();
    assert_eq!(closed.unwrap(), 0);
}
