//! `rpc puppet` and `rpc permit` beside a rollout, on nodes with a simulated Puppet: what they tell of nodes and of permits, and what they
//! change. The rollouts themselves: `runs.rs`.

use std::time::Duration;

use muster_tests::command::describe_output;
use muster_tests::puppet::SimulatedFleet;
use muster_tests::{await_state, poll_until_ok};
use serde_json::{Value, json};

use crate::runs::{classes, document, working};

/// What is only looked at, and what is forbidden and allowed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn states_counts_and_figures_are_told() {
    let fleet = SimulatedFleet::with_size(3).await;
    let first = "node001.example.net";
    let (told_disabled, exit) =
        fleet.rpc.run_json(&["puppet", "disable", "moving to new racks", "-I", first]).await;
    assert_eq!((exit, &told_disabled["replies"][0]["data"]["enabled"]), (0, &json!(false)));
    let (states, exit) = document(&fleet, &["puppet", "status"]).await;
    assert_eq!(exit, 0);
    assert_eq!(
        (
            &states["nodes"][0]["node"],
            &states["nodes"][0]["status"],
            &states["nodes"][1]["enabled"]
        ),
        (&json!(first), &json!("disabled"), &json!(true))
    );
    let (count, _) = document(&fleet, &["puppet", "count"]).await;
    assert_eq!(
        (&count["nodes"]["total"], &count["nodes"]["disabled"], &count["nodes"]["stopped"]),
        (&json!(3), &json!(1), &json!(2))
    );
    let (summary, _) = document(&fleet, &["puppet", "summary"]).await;
    let total = &summary["distributions"]["total_resources"];
    assert_eq!((&total["count"], &total["max"]), (&json!(3), &json!(61.0)));
    let (enabled, _) = fleet.rpc.run_json(&["puppet", "enable", "-I", first]).await;
    assert_eq!(enabled["replies"][0]["data"]["enabled"], true);
}

/// One node runs, and the others wait for its permit: both are told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_holds_a_permit_and_who_waits_is_told() {
    let fleet = SimulatedFleet::with_size(3).await;
    for node in fleet.nodes.values() {
        node.set_behaviour(working("clean", 60_000));
    }
    let mut child = fleet.rpc.prepare_command(&["puppet", "runall", "1", "-j"]).spawn().unwrap();
    await_state("one runs", || fleet.with_records(|notes| !notes.running.is_empty())).await;
    let pool = poll_until_ok("two wait for a permit", Duration::from_secs(20), async || {
        let (pools, exit) = document(&fleet, &["permit", "show", "puppet"]).await;
        assert_eq!(exit, 0);
        let pool = pools["pools"][0].clone();
        let waiting = pool["waiting"].as_array().map_or(0, Vec::len);
        if waiting == 2 { Ok(pool) } else { Err(pool) }
    })
    .await;
    let holder = pool["holders"][0]["node"].as_str().unwrap().to_owned();
    assert_eq!(fleet.with_records(|notes| notes.running[0].to_string()), holder);
    let list = fleet.rpc.run(&["permit", "list"]).await;
    let list = String::from_utf8(list.stdout).unwrap();
    assert!(list.lines().nth(1).unwrap().starts_with("puppet  1     1      2"), "{list}");

    // A permit under which something runs is not taken away without a word.
    let asked = fleet.rpc.run(&["permit", "release", "puppet", &holder]).await;
    assert_eq!(asked.status.code(), Some(4), "{}", describe_output(&asked));
    assert!(describe_output(&asked).contains("the release would stop"));
    child.kill().await.unwrap();
}

/// A permit that is taken away ends the run, which is told as fenced.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_whose_permit_is_taken_away_is_fenced() {
    let fleet = SimulatedFleet::start(["n1"]).await;
    fleet.set_behaviour("n1", working("clean", 60_000));
    let child = fleet.rpc.prepare_command(&["puppet", "runall", "1", "-j"]).spawn().unwrap();
    await_state("it runs", || fleet.with_records(|notes| !notes.running.is_empty())).await;
    let release = ["permit", "release", "puppet", "n1", "--yes"];
    let (released, exit) = fleet.rpc.run_json(&release).await;
    assert_eq!((exit, &released["replies"][0]["data"]["released"]), (0, &json!(1)));
    let output = child.wait_with_output().await.unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", describe_output(&output));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(classes(&document), ["n1 fenced"]);
}
