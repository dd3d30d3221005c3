//! What operators see and change: `rpc again`, events, and what is left behind.

use std::time::Instant;

use muster_tests::published_schemas::{SchemaMode, check_schema};
use serde_json::json;

use super::fixture::{AgainFixture, SCRIPT, UNLIMITED};
use crate::puppet::puppet_node::PuppetNode;
use crate::restarts::processes;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a1_8_operators_list_cancel_and_read_the_history_and_nothing_is_left() {
    let node = PuppetNode::scripted("n1.example.net", SCRIPT);
    let fixture = AgainFixture::start(node, UNLIMITED).await;
    fixture.ask(&[
        "--name",
        "vol1",
        "--delta",
        "3600",
        "--start-timer-now",
        "--reason",
        "not started",
    ]);
    let list = fixture.await_listed("pending").await;
    assert_eq!(list["reasons"][0]["requester"], "Exec[again-delta-vol1]");
    let output = fixture.rpc.run(&["again", "list"]).await;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("n1.example.net") && text.contains("Exec[again-delta-vol1]"), "{text}");

    let started = Instant::now();
    let output = fixture.rpc.run(&["again", "cancel", "--all"]).await;
    assert!(output.status.success(), "{output:?}");
    let list = fixture.call(&["list"]).await;
    assert_eq!(list["state"], "none");
    assert!(started.elapsed().as_secs() < 3, "{:?}", started.elapsed());
    let entries = fixture.await_history(1).await;
    assert_eq!(entries[0]["detail"], "cancelled");
    assert_eq!(entries[0]["by"], "rip");

    // On the node itself, of a group.
    fixture.ask(&["--delta", "3600", "--start-timer-now", "--group", "gluster"]);
    fixture.await_listed("pending").await;
    assert_eq!(fixture.call(&["cancel", "group=other"]).await["changed"], json!(false));
    fixture.ask(&["--cancel", "--group", "gluster"]);
    fixture.await_listed("none").await;

    // A run that takes place leaves no process.
    fixture.ask(&[]);
    let entries = fixture.await_history(3).await;
    assert_eq!(entries[0]["end"], "ran");
    for (name, words) in [
        ("muster.again.history.v1", vec!["again", "history"]),
        ("muster.again.v1", vec!["again", "list", "--all"]),
    ] {
        let (document, exit) = fixture.rpc.run_json(&words).await;
        assert_eq!(exit, 0, "{document:#}");
        assert_eq!(document["schema"], name);
        check_schema(name, &document, SchemaMode::Strict).unwrap();
    }
    let refused = fixture.rpc.run(&["again", "cancel"]).await;
    assert_eq!(refused.status.code(), Some(4), "all nodes must be asked for: {refused:?}");
    let own = fixture.node.path("").display().to_string();
    let home = fixture.home.path("").display().to_string();
    let daemon = fixture.daemon.as_ref().unwrap().pid();
    let left: Vec<_> = processes()
        .filter(|(pid, line)| *pid != daemon && (line.contains(&own) || line.contains(&home)))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}
