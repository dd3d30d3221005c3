//! Ends in the middle: Ctrl-C, a killed command, a daemon that stops or is killed. Nothing is left behind.

use muster_tests::{await_state, poll_until_ok};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::fixture::{PATIENCE, TunnelCommand, TunnelFleet, connections_of};
use super::servers::{LoopbackServer, exchange};

/// A connection through which one byte came back.
async fn working_connection(tunnel: &TunnelCommand) -> TcpStream {
    let mut connection = TcpStream::connect(tunnel.address).await.unwrap();
    connection.write_all(b"x").await.unwrap();
    assert_eq!(connection.read_u8().await.unwrap(), b'x');
    connection
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn interrupt_closes_tunnels_on_both_ends() {
    let server = LoopbackServer::echo().await;
    let fleet = TunnelFleet::start(&[server.port], "").await;
    let tunnel = fleet.open(server.port).await;
    let mut connection = working_connection(&tunnel).await;
    assert_eq!(connections_of(fleet.daemon.pid(), server.port), 1);
    let (code, text) = tunnel.interrupt().await;
    assert_eq!(code, 130, "{text}");
    assert_eq!(connection.read(&mut [0; 1]).await.unwrap_or(0), 0);
    let closed = fleet.closed_tunnels(1).await;
    assert_eq!(closed[0]["reason"], "stopped", "{closed:?}");
    fleet.await_nothing_left(server.port).await;
}

/// The broker knows that a killed command has no subscription, so the node does not wait for the whole silence.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_command_is_noticed_through_the_broker() {
    let server = LoopbackServer::echo().await;
    let fleet = TunnelFleet::start(&[server.port], "silence_seconds = 6").await;
    let tunnel = fleet.open(server.port).await;
    let connection = working_connection(&tunnel).await;
    tunnel.kill().await;
    let closed = fleet.closed_tunnels(1).await;
    assert_eq!(closed[0]["reason"], "absent", "{closed:?}");
    fleet.await_nothing_left(server.port).await;
    drop(connection);
}

/// A stopped command keeps its subscription, so only its silence ends the tunnel.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_command_is_noticed_by_its_silence() {
    let server = LoopbackServer::echo().await;
    let fleet = TunnelFleet::start(&[server.port], "silence_seconds = 3").await;
    let tunnel = fleet.open(server.port).await;
    let connection = working_connection(&tunnel).await;
    kill(Pid::from_raw(tunnel.pid()), Signal::SIGSTOP).unwrap();
    let closed = fleet.closed_tunnels(1).await;
    assert_eq!(closed[0]["reason"], "silent", "{closed:?}");
    fleet.await_nothing_left(server.port).await;
    tunnel.kill().await;
    drop(connection);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn daemon_that_stops_closes_its_tunnels_and_says_so() {
    let server = LoopbackServer::echo().await;
    let mut fleet = TunnelFleet::start(&[server.port], "").await;
    let tunnel = fleet.open(server.port).await;
    let mut connection = working_connection(&tunnel).await;
    kill(Pid::from_raw(fleet.daemon.pid()), Signal::SIGTERM).unwrap();
    assert_eq!(connection.read(&mut [0; 1]).await.unwrap_or(0), 0);
    await_state("the daemon has ended", || fleet.daemon.exit_status().is_some()).await;
    let closed = fleet.audit_records("ended");
    assert_eq!(closed.len(), 1, "{closed:?}");
    assert_eq!(closed[0]["reason"], "stopped");
    assert_eq!(closed[0]["data"]["bytes_to_node"], 1);
    let (_, text) = tunnel.interrupt().await;
    assert!(text.contains("the daemon on the node stops"), "{text}");
}

/// The next daemon accepts new connections through the same command.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn command_goes_on_with_the_next_daemon_and_a_restarted_broker() {
    let server = LoopbackServer::echo().await;
    let mut fleet = TunnelFleet::start(&[server.port], "").await;
    let tunnel = fleet.open(server.port).await;
    let mut connection = working_connection(&tunnel).await;
    fleet.server.kill();
    fleet.server.revive().await;
    connection.write_all(b"y").await.unwrap();
    assert_eq!(connection.read_u8().await.unwrap(), b'y');
    fleet.daemon.kill_and_wait();
    fleet.daemon = fleet.daemon.home().clone().start();
    poll_until_ok("new connections work", PATIENCE, async || {
        match exchange(tunnel.address, b"again").await {
            Ok(back) if back == b"again" => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    drop(connection);
}

/// Run by `make test-all`.
mod long {
    use super::{LoopbackServer, TunnelFleet, working_connection};
    use tokio::io::AsyncReadExt as _;
    use tokio::io::AsyncWriteExt as _;

    /// The broker disconnects a revoked caller, so no byte passes any more, and the node notices its absence.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn revoked_caller_loses_its_tunnels() {
        let server = LoopbackServer::echo().await;
        let mut fleet = TunnelFleet::start(&[server.port], "silence_seconds = 6").await;
        let tunnel = fleet.open(server.port).await;
        let mut connection = working_connection(&tunnel).await;
        let caller = fleet.caller.clone();
        let account = fleet.organisation.revoke_user(&caller);
        fleet.organisation.push_account(&fleet.server, &account).await;
        // The local end is closed, and the byte is not answered.
        let _ = connection.write_all(b"y").await;
        assert_eq!(connection.read(&mut [0; 1]).await.unwrap_or(0), 0);
        let closed = fleet.closed_tunnels(1).await;
        assert_eq!(closed[0]["reason"], "absent", "{closed:?}");
        fleet.await_nothing_left(server.port).await;
        tunnel.kill().await;
    }
}
