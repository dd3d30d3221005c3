//! Runs that wait for runs of other nodes: real daemons, two instances of the directory, and attacks on releases.

use std::time::Duration;

use muster_calls::{CallTarget, Client, RpcCall};
use muster_tests::simulate_delay;
use muster_wire::identity::Identity;
use serde_json::{Value, json};
use uuid::Uuid;

use super::fixture::{AgainFixture, SCRIPT, UNLIMITED};
use super::fleet::AgainFleet;
use crate::puppet::puppet_node::PuppetNode;

/// Whether a list has one condition, which waits for these nodes.
fn waits_for(list: &Value, names: &[&str]) -> bool {
    let barriers = list["barriers"].as_array().cloned().unwrap_or_default();
    matches!(barriers.as_slice(), [barrier] if barrier["missing_nodes"] == json!(names))
}

/// The order is asserted by the times that the nodes wrote. Two runs ask; the daemon of one, which also runs an instance of the directory, is killed
/// while it waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a1_9_further_runs_begin_only_after_the_slow_node_has_ended_its_run() {
    let mut fleet = AgainFleet::start(2).await;
    let slow = fleet.nodes[2].node.path("w/slow");
    std::fs::write(&slow, "").unwrap();
    // The run of the slow node begins before the others ask.
    fleet.begin_run(2).await;
    for node in [0, 1] {
        fleet.ask_in_next_run(node, "--when gluster --timeout 3600 --reason 'export bricks'");
        fleet.begin_run(node).await;
        fleet.await_list(node, |list| list["barriers"][0]["after"].is_u64()).await;
    }
    let first = fleet.await_list(0, |list| waits_for(list, &["n3.example.net"])).await;
    let second = ["n3.example.net", "n1.example.net"];
    fleet.await_list(1, |list| waits_for(list, &second)).await;
    assert_eq!(first["state"], "pending");
    let text = first["text"].as_str().unwrap();
    assert!(text.contains("until the nodes of `gluster` have run"), "{text}");
    // The end of the run, by the summary that the run wrote.
    let ended = fleet.times(0, "end")[0];
    let after = first["barriers"][0]["after"].as_u64().unwrap();
    assert!((ended.saturating_sub(1000)..=ended).contains(&after), "{after} {ended}");

    let home = fleet.nodes[1].daemon.home().clone();
    fleet.nodes[1].daemon.kill_and_wait();
    fleet.nodes[1].daemon = home.start();
    fleet.nodes[1].node.await_daemon(&fleet.rpc).await;
    // Time for a run that does not wait.
    simulate_delay(Duration::from_secs(2)).await;
    assert_eq!((fleet.times(0, "begin").len(), fleet.times(1, "begin").len()), (1, 1));

    std::fs::remove_file(&slow).unwrap();
    for node in [0, 1] {
        fleet.await_runs(node, 2).await;
        let list = fleet.await_list(node, |list| list["state"] == "none").await;
        assert_eq!(list["barriers"], json!([]));
        let history = fleet.call(node, &["history"]).await;
        let entry = &history["entries"][0];
        assert_eq!((&entry["end"], &entry["barrier"]), (&json!("ran"), &json!("barrier released")));
    }
    let slow_end = fleet.times(2, "end")[0];
    let (first, second) = (fleet.times(0, "begin")[1], fleet.times(1, "begin")[1]);
    assert!(first > slow_end, "n1 ran again at {first}, n3 ended at {slow_end}");
    // The second waits for a run of the first after its own, too.
    let first_end = fleet.times(0, "end")[1];
    assert!(second > first_end, "n2 ran again at {second}, n1 ended at {first_end}");
    assert_eq!(fleet.times(2, "begin").len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a1_9_a_query_that_matches_no_other_node_is_released_at_once() {
    let fleet = AgainFleet::start(1).await;
    for (number, query) in ["mysql", "\"{identity: 'n1.example.net'}\""].iter().enumerate() {
        fleet.ask_in_next_run(0, &format!("--when {query} --timeout 3600"));
        fleet.begin_run(0).await;
        fleet.await_runs(0, 2 * number + 2).await;
        fleet.await_list(0, |list| list["state"] == "none").await;
        let history = fleet.call(0, &["history"]).await;
        assert_eq!(history["entries"][0]["barrier"], "barrier released", "{query}: {history:#}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a1_9_without_a_directory_the_run_begins_at_the_timeout() {
    let node = PuppetNode::scripted("n1.example.net", SCRIPT);
    let fixture = AgainFixture::start(node, UNLIMITED).await;
    fixture.ask(&["--when", "gluster", "--timeout", "2"]);
    let list = fixture.await_listed("pending").await;
    assert_eq!(list["barriers"][0]["missing"], Value::Null, "{list:#}");
    let entries = fixture.await_history(1).await;
    assert_eq!(
        (&entries[0]["end"], &entries[0]["barrier"]),
        (&json!("ran"), &json!("barrier timed out"))
    );
    let took = entries[0]["at"].as_u64().unwrap() - entries[0]["since"].as_u64().unwrap();
    assert!(took >= 2000, "{took} ms");
}

/// Sends a report as this client; returns whether it was accepted, and what it changed.
async fn report(client: &Client, action: &str, id: &str) -> (bool, Value) {
    let target = CallTarget::Nodes([Identity::parse("n1.example.net").unwrap()].into());
    let mut call = RpcCall::new("again", action, target).unwrap();
    call.data.insert("id".to_owned(), json!(id));
    if action == "note_missing" {
        call.data.extend([("count".to_owned(), json!(1)), ("nodes".to_owned(), json!(["x"]))]);
    }
    let mut found = (false, Value::Null);
    let called = client.run_call(call, |answer| {
        let changed = answer.reply.data.get("changed").cloned().unwrap_or_default();
        found = (answer.is_ok(), changed);
    });
    called.await.unwrap();
    found
}

/// The policy of this node allows everything, so the refusals are those of the agent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn releases_of_callers_and_of_other_conditions_change_nothing() {
    let node = PuppetNode::scripted("n1.example.net", SCRIPT);
    let fixture = AgainFixture::start(node, UNLIMITED).await;
    fixture.ask(&["--when", "gluster", "--timeout", "3600"]);
    let list = fixture.await_listed("pending").await;
    let id = list["barriers"][0]["id"].as_str().unwrap().to_owned();
    let (caller, service) = fixture.clients().await;
    for action in ["release", "note_missing"] {
        assert_eq!(report(&caller, action, &id).await, (false, Value::Null), "{action}");
        let foreign = Uuid::now_v7().to_string();
        assert_eq!(report(&service, action, &foreign).await, (true, json!(false)), "{action}");
        assert_eq!(report(&service, action, "----").await, (false, Value::Null), "{action}");
    }
    assert_eq!(fixture.call(&["list"]).await["barriers"], list["barriers"]);
    assert_eq!(fixture.node.log().len(), 0, "no run has begun");

    assert_eq!(report(&service, "note_missing", &id).await, (true, json!(true)));
    assert_eq!(fixture.call(&["list"]).await["barriers"][0]["missing_nodes"], json!(["x"]));
    assert_eq!(report(&service, "release", &id).await, (true, json!(true)));
    fixture.await_history(1).await;
    // The same report again, as another instance of the directory sends it.
    fixture.ask(&["--when", "gluster", "--timeout", "3600"]);
    fixture.await_listed("pending").await;
    assert_eq!(report(&service, "release", &id).await, (true, json!(false)));
    assert_eq!(fixture.call(&["list"]).await["state"], "pending");
    assert_eq!(fixture.node.log().len(), 1);
}
