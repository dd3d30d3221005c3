//! `rpc puppet` and `rpc permit` outside of rollouts, on nodes with a simulated Puppet: the states of nodes and
//! permits, and changes of them. Rollouts are tested in `runs.rs`.

use std::time::Duration;

use muster_tests::command::describe_output;
use muster_tests::puppet::SimulatedFleet;
use muster_tests::{await_state, poll_until_ok};
use serde_json::{Value, json};

use crate::runs::{classes, run_valid_json, working};

/// Read-only commands, and disabling and enabling Puppet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shows_states_counts_and_summaries() {
    let fleet = SimulatedFleet::with_size(3).await;
    let first = "node001.example.net";
    let disable = ["puppet", "disable", "moving to new racks", "-I", first];
    let planned = fleet.rpc.run(&[&disable[..], &["--noop"]].concat()).await;
    assert!(
        describe_output(&planned).contains("Would Change = 1"),
        "{}",
        describe_output(&planned)
    );
    let (disabled, exit) = fleet.rpc.run_json(&disable).await;
    assert_eq!((exit, &disabled["replies"][0]["data"]["enabled"]), (0, &json!(false)));
    let (states, exit) = run_valid_json(&fleet, &["puppet", "status"]).await;
    assert_eq!(exit, 0);
    assert_eq!(
        (
            &states["nodes"][0]["node"],
            &states["nodes"][0]["status"],
            &states["nodes"][1]["enabled"]
        ),
        (&json!(first), &json!("disabled"), &json!(true))
    );
    let (count, _) = run_valid_json(&fleet, &["puppet", "count"]).await;
    assert_eq!(
        (&count["nodes"]["total"], &count["nodes"]["disabled"], &count["nodes"]["stopped"]),
        (&json!(3), &json!(1), &json!(2))
    );
    let (summary, _) = run_valid_json(&fleet, &["puppet", "summary"]).await;
    let total = &summary["distributions"]["total_resources"];
    assert_eq!((&total["count"], &total["max"]), (&json!(3), &json!(61.0)));
    let (planned, _) = fleet.rpc.run_json(&["puppet", "enable", "-I", first, "--noop"]).await;
    let data = &planned["replies"][0]["data"];
    assert_eq!((&data["changed"], &data["enabled"]), (&json!(true), &json!(false)));
    let (enabled, _) = fleet.rpc.run_json(&["puppet", "enable", "-I", first]).await;
    assert_eq!(enabled["replies"][0]["data"]["enabled"], true);
}

/// One node runs and the others wait for its permit; both are shown.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permit_list_shows_holders_and_waiting_nodes() {
    let fleet = SimulatedFleet::with_size(3).await;
    for node in fleet.nodes.values() {
        node.set_behaviour(working("clean", 60_000));
    }
    let mut child = fleet.rpc.prepare_command(&["puppet", "runall", "1", "-j"]).spawn().unwrap();
    await_state("one node runs", || fleet.with_records(|records| !records.running.is_empty()))
        .await;
    let pool = poll_until_ok("two nodes wait for a permit", Duration::from_secs(20), async || {
        let (pools, exit) = run_valid_json(&fleet, &["permit", "show", "puppet"]).await;
        assert_eq!(exit, 0);
        let pool = pools["pools"][0].clone();
        let waiting = pool["waiting"].as_array().map_or(0, Vec::len);
        if waiting == 2 { Ok(pool) } else { Err(pool) }
    })
    .await;
    let holder = pool["holders"][0]["node"].as_str().unwrap().to_owned();
    assert_eq!(fleet.with_records(|records| records.running[0].to_string()), holder);
    let list = fleet.rpc.run(&["permit", "list"]).await;
    let list = String::from_utf8(list.stdout).unwrap();
    assert!(list.lines().nth(1).unwrap().starts_with("puppet  1     1      2"), "{list}");

    // A permit of a running node is not released without confirmation.
    let unconfirmed = fleet.rpc.run(&["permit", "release", "puppet", &holder]).await;
    assert_eq!(unconfirmed.status.code(), Some(4), "{}", describe_output(&unconfirmed));
    assert!(describe_output(&unconfirmed).contains("the release would stop"));
    child.kill().await.unwrap();
}

/// Releasing a permit ends its run, which is reported as fenced.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_without_its_permit_is_fenced() {
    let fleet = SimulatedFleet::start(["n1"]).await;
    fleet.set_behaviour("n1", working("clean", 60_000));
    let child = fleet.rpc.prepare_command(&["puppet", "runall", "1", "-j"]).spawn().unwrap();
    await_state("the node runs", || fleet.with_records(|records| !records.running.is_empty()))
        .await;
    let release = ["permit", "release", "puppet", "n1", "--yes"];
    let (released, exit) = fleet.rpc.run_json(&release).await;
    assert_eq!((exit, &released["replies"][0]["data"]["released"]), (0, &json!(1)));
    let output = child.wait_with_output().await.unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", describe_output(&output));
    let run_valid_json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(classes(&run_valid_json), ["n1 fenced"]);
}
