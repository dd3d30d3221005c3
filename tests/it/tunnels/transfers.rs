//! What tunnels carry: unharmed in both directions, also while the broker restarts, and many at once.

use std::process::Stdio;

use muster_tests::await_state;
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::fixture::TunnelFleet;
use super::servers::{LoopbackServer, exchange, pattern_hash, send_pattern};

const LARGE_BYTES: usize = 100 * 1024 * 1024;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn echo_comes_back_through_a_tunnel() {
    let server = LoopbackServer::echo().await;
    let fleet = TunnelFleet::start(&[server.port], "").await;
    let tunnel = fleet.open(server.port).await;
    assert!(tunnel.address.ip().is_loopback());
    assert_eq!(exchange(tunnel.address, b"hello\n").await.unwrap(), b"hello\n");
    assert_eq!(exchange(tunnel.address, b"").await.unwrap(), b"");
    assert_eq!(server.accepted(), 2);

    // Each direction is interactive: the answer comes before the end.
    let mut connection = TcpStream::connect(tunnel.address).await.unwrap();
    for word in ["one", "two", "three"] {
        connection.write_all(word.as_bytes()).await.unwrap();
        let mut back = vec![0; word.len()];
        connection.read_exact(&mut back).await.unwrap();
        assert_eq!(back, word.as_bytes());
    }
    drop(connection);
    let (code, text) = tunnel.interrupt().await;
    assert_eq!(code, 130, "{text}");
    fleet.closed_tunnels(3).await;
    fleet.await_nothing_left(server.port).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn standard_input_and_output_are_carried() {
    let server = LoopbackServer::echo().await;
    let fleet = TunnelFleet::start(&[server.port], "").await;
    let port = server.port.to_string();
    let mut command = fleet.rpc.prepare_command(&["tunnel", "n1", &port, "--stdio"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let text = super::servers::pattern(0, 3_000_000);
    let sending = async {
        input.write_all(&text).await.unwrap();
        drop(input);
    };
    let (output, ()) = tokio::join!(child.wait_with_output(), sending);
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stdout == text, "{} bytes came back", output.stdout.len());
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

/// Receives the pattern from a tunnel, and returns its hash. `at_half` is called when half of it has arrived.
async fn receive_hash(connection: &mut TcpStream) -> Vec<u8> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 256 * 1024];
    loop {
        match connection.read(&mut buffer).await.unwrap() {
            0 => return hash.finalize().to_vec(),
            count => hash.update(&buffer[..count]),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hundred_mebibytes_arrive_unharmed_in_both_directions_over_a_broker_restart() {
    let (up, down) = (LoopbackServer::hash().await, LoopbackServer::source(LARGE_BYTES).await);
    let mut fleet = TunnelFleet::start(&[up.port, down.port], "").await;
    let (to_node, from_node) = (fleet.open(up.port).await, fleet.open(down.port).await);
    let mut sending = TcpStream::connect(to_node.address).await.unwrap();
    let mut receiving = TcpStream::connect(from_node.address).await.unwrap();
    let expected = tokio::task::spawn_blocking(|| pattern_hash(LARGE_BYTES));

    let upload = tokio::spawn(async move {
        assert!(send_pattern(&mut sending, LARGE_BYTES / 2).await);
        (sending, LARGE_BYTES / 2)
    });
    let download = tokio::spawn(async move { receive_hash(&mut receiving).await });
    let (mut sending, sent) = upload.await.unwrap();
    fleet.server.kill();
    fleet.server.revive().await;
    let mut rest = sent;
    while rest < LARGE_BYTES {
        let chunk = super::servers::pattern(rest, (LARGE_BYTES - rest).min(64 * 1024));
        sending.write_all(&chunk).await.unwrap();
        rest += chunk.len();
    }
    sending.shutdown().await.unwrap();
    let mut answer = Vec::new();
    sending.read_to_end(&mut answer).await.unwrap();
    let expected = expected.await.unwrap();
    assert!(answer == expected, "the upload was harmed: {} bytes of answer", answer.len());
    assert!(download.await.unwrap() == expected, "the download was harmed");

    let closed = fleet.closed_tunnels(2).await;
    let bytes = |port: u16, key: &str| {
        let of_port = closed.iter().find(|record| record["data"]["port"] == port).unwrap();
        of_port["data"][key].as_u64().unwrap()
    };
    assert_eq!(bytes(up.port, "bytes_to_node"), LARGE_BYTES as u64);
    assert_eq!(bytes(up.port, "bytes_to_caller"), 32);
    assert_eq!(bytes(down.port, "bytes_to_caller"), LARGE_BYTES as u64);
    assert!(closed.iter().all(|record| record["reason"] == "complete"), "{closed:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hundred_tunnels_work_at_once() {
    let server = LoopbackServer::echo().await;
    let fleet = TunnelFleet::start(&[server.port], "").await;
    let tunnel = fleet.open(server.port).await;
    let mut open = Vec::new();
    for number in 0..100_u32 {
        let mut connection = TcpStream::connect(tunnel.address).await.unwrap();
        connection.write_all(&number.to_be_bytes()).await.unwrap();
        open.push(connection);
    }
    // All are open at the same time, and each gets its own bytes back.
    await_state("the server has all connections", || server.accepted() == 100).await;
    let mut exchanges = JoinSet::new();
    for (number, mut connection) in open.into_iter().enumerate() {
        exchanges.spawn(async move {
            let text = super::servers::pattern(number * 100_000, 100_000);
            let (mut reader, mut writer) = connection.split();
            let writing = async {
                writer.write_all(&text).await.unwrap();
                writer.shutdown().await.unwrap();
            };
            let mut back = Vec::new();
            let (read, ()) = tokio::join!(reader.read_to_end(&mut back), writing);
            read.unwrap();
            let number = u32::try_from(number).unwrap();
            assert!(back == [&number.to_be_bytes()[..], &text].concat(), "tunnel {number}");
        });
    }
    while let Some(ended) = exchanges.join_next().await {
        ended.unwrap();
    }
    fleet.closed_tunnels(100).await;
    fleet.await_nothing_left(server.port).await;
}
