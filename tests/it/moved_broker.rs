//! A broker that moves to another address under the same name: nodes resolve the name again for each connection.

use std::time::Duration;

use muster_tests::command::find_program;
use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::Organisation;
use muster_tests::rpcd::DaemonHome;
use muster_tests::{await_state, poll_until_ok};

use crate::node_fixture::TestCaller;

/// Becomes the daemon in its own mount namespace, with another file as `/etc/hosts`.
const RUN_WITH_OTHER_HOSTS: &str = r#"mount --bind "$1" /etc/hosts && shift && exec "$@""#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_find_a_moved_broker_by_its_name() {
    let organisation = Organisation::new(&["muster"]);
    let configuration = organisation.broker_configuration();
    let first = NatsServer::start_on(&configuration, "127.0.0.1", None).await;
    let port = first.port();
    let url = format!("nats://localhost:{port}");
    let signer = organisation.node("node1.example.net");
    let home = DaemonHome::new(&organisation, &signer, &url, "[log]\nformat = \"json\"\n");
    home.write("hosts", "127.0.0.1 localhost\n", 0o644);
    let (hosts, rpcd) = (home.path("hosts"), find_program("rpcd"));
    let mut unshare = vec!["unshare", "--mount"];
    if !nix::unistd::geteuid().is_root() {
        unshare.push("--map-root-user");
    }
    unshare.extend(["sh", "-c", RUN_WITH_OTHER_HOSTS, "sh"]);
    let mut command: Vec<_> = unshare.into_iter().map(std::ffi::OsString::from).collect();
    command.extend([hosts.into(), rpcd.into()]);
    let mut node = home.start_through(&command);
    await_state("the node is ready", || {
        assert!(node.is_running(), "rpcd ended: {}", node.log());
        node.log().contains("\"ready\"")
    })
    .await;

    // Overwrites the file in place: the bind mount refers to the file, not to its name.
    node.home().write("hosts", "127.0.0.2 localhost\n", 0o644);
    drop(first);
    let second = NatsServer::start_on(&configuration, "127.0.0.2", Some(port)).await;
    let connected = || node.log().matches("connected to the broker").count();
    // The delays between attempts are random, up to 2, 4, 8 and 16 s.
    poll_until_ok("the node is connected again", Duration::from_mins(1), async || {
        (connected() >= 2).then_some(()).ok_or_else(connected)
    })
    .await;
    let caller = TestCaller::connect(&organisation, &second, organisation.caller("rip")).await;
    let answer =
        caller.call_action("node1.example.net", "rpcutil", "ping", serde_json::json!({})).await;
    assert_eq!(answer.reply.sender, *signer.identity());
}
