//! Who may open tunnels, and to which ports: the node's list of ports, and its policy.

use muster_tests::command::{RpcCommand, describe_output};

use super::fixture::TunnelFleet;
use super::servers::LoopbackServer;

/// Runs `rpc tunnel --stdio` with an empty input; returns the exit code and all output.
async fn try_port(rpc: &RpcCommand, port: u16) -> (Option<i32>, String) {
    let output = rpc.run(&["tunnel", "n1", &port.to_string(), "--stdio"]).await;
    (output.status.code(), describe_output(&output))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn port_that_is_not_in_the_list_is_refused() {
    let (listed, other) = (LoopbackServer::echo().await, LoopbackServer::echo().await);
    let fleet = TunnelFleet::start(&[listed.port], "").await;
    let (code, text) = try_port(&fleet.rpc, other.port).await;
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("is not among the ports of [plugins.tunnel]"), "{text}");
    assert_eq!(other.accepted(), 0);
    let (code, text) = try_port(&fleet.rpc, listed.port).await;
    assert_eq!(code, Some(0), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closed_port_and_absent_node_are_reported() {
    let server = LoopbackServer::echo().await;
    let port = server.port;
    let fleet = TunnelFleet::start(&[port], "").await;
    drop(server);
    let (code, text) = try_port(&fleet.rpc, port).await;
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains(&format!("cannot connect to 127.0.0.1:{port}")), "{text}");
    let output = fleet.rpc.run(&["tunnel", "n7", "22", "--stdio"]).await;
    let text = describe_output(&output);
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains("n7 is not connected to the broker"), "{text}");
    // Without `--stdio` nothing is listened on.
    let output = fleet.rpc.run(&["tunnel", "n7", "22"]).await;
    let text = describe_output(&output);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(3), &b""[..]), "{text}");
    assert!(text.contains("n7 does not reply as a node that offers tunnels"), "{text}");
}

/// One caller may use one port, another one another port; others may use none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn policy_allows_each_caller_its_own_ports() {
    let (first, second) = (LoopbackServer::echo().await, LoopbackServer::echo().await);
    let policy = format!(
        "policy default deny\n\
         allow\trip\topen\t*\t*\tinput:port={}\n\
         allow\tanna\topen\t*\t*\tinput:port={}\n",
        first.port, second.port
    );
    let ports = [first.port, second.port];
    let fleet = TunnelFleet::start_with_policy(&ports, "", Some(&policy)).await;
    let caller = |name| {
        let signer = fleet.organisation.caller(name);
        RpcCommand::new(&fleet.server, &fleet.organisation, &signer, "")
    };
    let (anna, eve) = (caller("anna"), caller("eve"));
    for (rpc, port, allowed) in [
        (&fleet.rpc, first.port, true),
        (&fleet.rpc, second.port, false),
        (&anna, first.port, false),
        (&anna, second.port, true),
        (&eve, first.port, false),
        (&eve, second.port, false),
    ] {
        let (code, text) = try_port(rpc, port).await;
        assert_eq!(code, Some(if allowed { 0 } else { 2 }), "{port}: {text}");
        assert_eq!(text.contains("is not allowed to call tunnel open"), !allowed, "{text}");
    }
    assert_eq!((first.accepted(), second.accepted()), (1, 1));
}
