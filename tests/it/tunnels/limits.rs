//! Limits of the node: the number of tunnels, and the time without data.

use muster_tests::await_state;
use muster_tests::command::{RpcCommand, describe_output};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::fixture::{TunnelCommand, TunnelFleet};
use super::servers::LoopbackServer;

/// Opens a connection, and returns it when the server has accepted it.
async fn hold(tunnel: &TunnelCommand, server: &LoopbackServer) -> TcpStream {
    let before = server.accepted();
    let connection = TcpStream::connect(tunnel.address).await.unwrap();
    await_state("the server accepts", || server.accepted() > before).await;
    connection
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_that_are_reached_are_answered_clearly() {
    let server = LoopbackServer::echo().await;
    let fleet =
        TunnelFleet::start(&[server.port], "max_tunnels = 3\nmax_tunnels_per_caller = 2").await;
    let tunnel = fleet.open(server.port).await;
    let port = server.port.to_string();
    let held = [hold(&tunnel, &server).await, hold(&tunnel, &server).await];
    let refused = fleet.rpc.run(&["tunnel", "n1", &port, "--stdio"]).await;
    let text = describe_output(&refused);
    assert_eq!(refused.status.code(), Some(2), "{text}");
    assert!(text.contains("2 tunnels of this caller are open on this node"), "{text}");

    let anna = fleet.organisation.caller("anna");
    let anna = RpcCommand::new(&fleet.server, &fleet.organisation, &anna, "");
    let of_anna = TunnelCommand::start(&anna, &["tunnel", "n1", &port]).await;
    let third = hold(&of_anna, &server).await;
    let refused = anna.run(&["tunnel", "n1", &port, "--stdio"]).await;
    let text = describe_output(&refused);
    assert!(text.contains("3 tunnels are open on this node"), "{text}");

    // A connection over the limit is closed, and the command says why; the others go on.
    let mut over = TcpStream::connect(tunnel.address).await.unwrap();
    assert_eq!(over.read(&mut [0; 1]).await.unwrap_or(0), 0);
    drop(held);
    fleet.closed_tunnels(2).await;
    let mut again = hold(&tunnel, &server).await;
    again.write_all(b"x").await.unwrap();
    assert_eq!(again.read_u8().await.unwrap(), b'x');
    drop((again, third));
    let (_, text) = tunnel.interrupt().await;
    assert!(text.contains("opened no tunnel to port"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_tunnel_is_closed_and_the_reason_is_recorded() {
    let server = LoopbackServer::echo().await;
    let fleet = TunnelFleet::start(&[server.port], "idle_timeout_seconds = 1").await;
    let port = server.port.to_string();
    let mut command = fleet.rpc.prepare_command(&["tunnel", "n1", &port, "--stdio"]);
    command.stdin(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    let _input = child.stdin.take().unwrap();
    let output = child.wait_with_output().await.unwrap();
    let text = describe_output(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("it carried no data for longer than the node allows"), "{text}");
    let closed = fleet.closed_tunnels(1).await;
    assert_eq!(closed[0]["reason"], "idle", "{closed:?}");
    assert_eq!(closed[0]["caller"], "rip");
    assert_eq!(closed[0]["data"]["bytes_to_node"], 0);
    assert!(closed[0]["took_ms"].as_u64().unwrap() >= 1000, "{closed:?}");
    fleet.await_nothing_left(server.port).await;
}
