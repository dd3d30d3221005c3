//! `rpc broker status` shows servers, streams and leaf nodes, and a server that is down.

use muster_tests::poll_until_ok;
use muster_tests::published_schemas::{SchemaMode, check_schema};
use muster_tests::small_disk::SmallDisk;
use muster_wire::stores::fleet_buckets;
use serde_json::Value;

use super::fixture::{CLUSTER_TIMEOUT, GeneratedBroker};
use crate::demo::describe_output;

/// Size of the disk in KiB: streams of all stores, and little more.
const DISK_KIB: u32 = 16 * 1024;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn status_shows_a_server_that_is_down() {
    let mut broker = GeneratedBroker::cluster_of_three().await;
    broker.start_leaf().await;
    let document = broker.await_no_problem().await;
    check_schema("muster.broker.status.v1", &document, SchemaMode::Strict).unwrap();
    let count = |list: &str| document.get(list).and_then(Value::as_array).unwrap().len();
    assert_eq!(
        (count("servers"), count("leafs"), count("streams")),
        (3, 1, fleet_buckets(&[]).count()),
        "{document}"
    );
    for server in document.get("servers").and_then(Value::as_array).unwrap() {
        let running = server.get("running").unwrap();
        let text = |key: &str| running.get(key).and_then(Value::as_str).unwrap();
        let number = |key: &str| running.get(key).and_then(Value::as_u64).unwrap();
        assert!(text("version").starts_with("2.") && !text("uptime").is_empty(), "{running}");
        assert_eq!((text("cluster"), number("routes"), number("slow_consumers")), ("acme", 2, 0));
    }
    let printed = broker.run(&["broker", "status"]);
    for expected in ["SERVER", "broker1", "STREAM", "KV_PERMITS", "LEAF", "berlin"] {
        assert!(printed.contains(expected), "{expected}: {printed}");
    }

    broker.kill_server(2);
    let problem = poll_until_ok("the others notice", CLUSTER_TIMEOUT, async || {
        let output = broker.rpc(&["broker", "status"]);
        let text = describe_output(&output);
        let is_seen =
            output.status.code() == Some(2) && text.contains("server broker2 did not answer");
        if is_seen { Ok(text) } else { Err(text) }
    })
    .await;
    assert!(problem.contains("no answer"), "{problem}");
    broker.start_server(2);
    broker.await_no_problem().await;

    // Without a majority no stream has a leader, and the remaining server cannot name the others.
    broker.kill_server(1);
    broker.kill_server(2);
    poll_until_ok("the last server reports the loss", CLUSTER_TIMEOUT, async || {
        let (document, code) = broker.status();
        let problems = document.get("problems").unwrap().to_string();
        let is_seen = code == Some(2) && problems.contains("KV_TRUST has no leader");
        if is_seen { Ok(()) } else { Err(document) }
    })
    .await;
}

/// nats-server does not sync account tokens to its disk, so a power failure can bring back the one from before a revocation. The test puts the files back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn status_reports_a_server_that_has_lost_a_revocation() {
    let mut broker = GeneratedBroker::new();
    broker.write_bundle("broker1", "127.0.0.1", &[]);
    broker.start_server(1);
    broker.push().await;
    broker.add_user("mallory", "127.0.0.1");
    let files = std::fs::read_dir(broker.path("broker1/accounts")).unwrap();
    let files = files.map(|entry| entry.unwrap().path());
    let earlier: Vec<_> = files.map(|path| (std::fs::read(&path).unwrap(), path)).collect();
    broker.run(&["org", "revoke", "mallory", "--yes"]);
    broker.await_no_problem().await;
    broker.kill_server(1);
    for (content, path) in earlier {
        std::fs::write(path, content).unwrap();
    }
    broker.start_server(1);
    poll_until_ok("the status reports the token", CLUSTER_TIMEOUT, async || {
        // The server reads the token when a user of the account connects, and accepts the revoked one.
        let _ = broker.rpc_as(Some("mallory"), &["ping"]);
        let output = broker.rpc(&["broker", "status"]);
        let text = describe_output(&output);
        let expected = "server broker1 has another account token than this directory";
        if output.status.code() == Some(2) && text.contains(expected) { Ok(()) } else { Err(text) }
    })
    .await;
    broker.push().await;
    broker.await_no_problem().await;
    let refused = broker.rpc_as(Some("mallory"), &["ping"]);
    assert!(describe_output(&refused).contains("authorization violation"), "{refused:?}");
}

/// nats-server continues after a failed write, and refuses all later ones of that stream until it is restarted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn status_names_a_server_whose_disk_was_full() {
    let mut broker = GeneratedBroker::new();
    broker.write_bundle("broker1", "127.0.0.1", &[]);
    let disk = SmallDisk::new(broker.path("broker1/jetstream"), DISK_KIB).await;
    broker.start_on_disk("broker1", &disk);
    broker.push().await;
    broker.await_no_problem().await;
    disk.fill();
    let mut number = 0;
    let problem = poll_until_ok("the status reports the stream", CLUSTER_TIMEOUT, async || {
        // A revocation writes the account token into its stream.
        number += 1;
        let user = format!("user{number}");
        broker.run(&["org", "add", "user", &user]);
        let _ = broker.rpc(&["org", "revoke", &user, "--yes"]);
        let output = broker.rpc(&["broker", "status"]);
        let text = describe_output(&output);
        let is_seen = output.status.code() == Some(2) && text.contains("broker1 is not healthy");
        if is_seen { Ok(text) } else { Err(text) }
    })
    .await;
    assert!(problem.contains("free space in its store_dir and restart it"), "{problem}");
    disk.free_space();
    broker.kill_server(1);
    broker.start_on_disk("broker1", &disk);
    broker.push().await;
    broker.await_no_problem().await;
}
