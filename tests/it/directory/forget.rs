//! `rpc nodes --forget`: a node that is gone for good leaves the directory, and a node that runs again is back.

use std::time::Duration;

use muster_tests::command::describe_output;
use muster_tests::organisation::connect;
use muster_tests::poll_until_ok;
use muster_wire::stores::{FORGOTTEN_BUCKET, NODES_BUCKET};

use super::fixture::{DirectoryFixture, lines};

const NODES: [&str; 3] = ["db1.acme.net", "dir1.acme.net", "dir2.acme.net"];
const NODE: &str = NODES[0];

async fn run(fleet: &DirectoryFixture, arguments: &[&str], code: i32) -> String {
    let output = fleet.rpc.run(arguments).await;
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", describe_output(&output));
    format!("{}{}", lines(&output.stdout).join("\n"), String::from_utf8_lossy(&output.stderr))
}

/// Two instances; one starts again, and the node does, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forgotten_node_leaves_all_instances_until_it_runs_again() {
    let fleet = DirectoryFixture::start().await;
    let mut first = fleet.start_impatient_directory(NODES[1], "directory1");
    let _second = fleet.start_impatient_directory(NODES[2], "directory2");
    let mut node = fleet.start_node(NODE, r#"{"tier": "test"}"#, "");
    fleet.await_present(&NODES).await;

    // A node that runs is not forgotten, and neither is one that never was.
    let message = run(&fleet, &["nodes", "--forget", NODE], 2).await;
    assert!(message.contains("`db1.acme.net` sent a heartbeat"), "{message}");
    let message = run(&fleet, &["nodes", "--forget", "db9.acme.net"], 2).await;
    assert!(message.contains("the directory knows no node `db9.acme.net`"), "{message}");

    node.daemon.kill_and_wait();
    let missing = |state: &str| state == "missing" || state == "present";
    fleet.await_rows("the node is missing", &NODES, missing).await;
    poll_until_ok("the node is forgotten", Duration::from_mins(2), async || {
        let output = fleet.rpc.run(&["nodes", "--forget", NODE]).await;
        if output.status.success() { Ok(()) } else { Err(describe_output(&output)) }
    })
    .await;
    fleet.await_present(&NODES[1..]).await;

    // Not even an instance that starts later knows it, although its record is still in the bucket.
    first.daemon.kill_and_wait();
    let _first = fleet.start_directory(NODES[1], "directory3");
    fleet.await_present(&NODES[1..]).await;
    for _ in 0..4 {
        poll_until_ok("the node is unknown", Duration::from_secs(30), async || {
            let message = run(&fleet, &["node", NODE], 1).await;
            let is_unknown = message.contains("knows no node `db1.acme.net`");
            // An instance that has not read all records says so.
            assert!(is_unknown || message.contains("has just started"), "{message}");
            if is_unknown { Ok(()) } else { Err(message) }
        })
        .await;
    }
    let administrator = connect(&fleet.server, &fleet.organisation.administrator()).await;
    let bucket = administrator.bucket(FORGOTTEN_BUCKET.name);
    assert!(bucket.get(NODE).await.unwrap().is_some());
    let records = administrator.bucket(NODES_BUCKET.name);
    assert!(records.get(NODE).await.unwrap().is_some());

    // It starts again with the same facts, so it publishes no new record: its heartbeat is enough.
    let home = fleet.node_home(&node.signer, r#"{"tier": "test"}"#, "");
    let revision = records.get(NODE).await.unwrap().unwrap().revision;
    let _node = home.start();
    fleet.await_present(&NODES).await;
    let found = records.get(NODE).await.unwrap().unwrap().revision;
    let history = fleet.rpc.run(&["node", NODE, "--history"]).await;
    assert_eq!(found, revision, "{}", describe_output(&history));
    poll_until_ok("the note is deleted", Duration::from_mins(1), async || {
        match bucket.get(NODE).await.unwrap() {
            None => Ok(()),
            Some(entry) => Err(entry),
        }
    })
    .await;
}

/// A stolen key of a node can forget no other node: the broker refuses the note.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_cannot_forget_another_node() {
    let fleet = DirectoryFixture::start().await;
    let attacker = fleet.organisation.node("db2.acme.net");
    let bus = connect(&fleet.server, &attacker).await;
    let bucket = bus.bucket(FORGOTTEN_BUCKET.name);
    for key in [NODE, "db2.acme.net"] {
        let refusal = bucket.put_once(key, r#"{"revision":9}"#.into()).await.unwrap_err();
        assert!(refusal.to_string().contains("no permission to publish"), "{key}: {refusal}");
    }
}
