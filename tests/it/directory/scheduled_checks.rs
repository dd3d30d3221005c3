//! Scheduled checks in the directory: `rpc checks` answers from the records of nodes, also of those that are down.

use std::time::Duration;

use muster_tests::command::describe_output;
use muster_tests::{await_state, poll_until_ok};
use serde_json::{Value, json};

use crate::command_pipe::CommandPipe;

use super::fixture::{DirectoryFixture, FleetNode};

fn start_node(fleet: &DirectoryFixture, name: &str, code: u8) -> FleetNode {
    let signer = fleet.organisation.node(name);
    let home = fleet.node_home(&signer, "{}", "");
    let write = |file: &str, text: String, mode| home.write(file, &text, mode);
    write("result", format!("echo 'state {code}'; exit {code}"), 0o644);
    write("check_x", format!("#!/bin/sh\n. {}\n", home.path("result").display()), 0o755);
    write("nrpe.cfg", format!("command[check_x]={}\n", home.path("check_x").display()), 0o644);
    let entry = "[[checks]]\nname = \"x\"\ncommand = \"check_x\"\ninterval = 1\nsplay = false\nmax_attempts = 1\n";
    write("checks.d/a.toml", entry.to_owned(), 0o644);
    let options = format!(
        "[plugins.nrpe]\nconfig = \"{}\"\nschedules = \"{}\"\n",
        home.path("nrpe.cfg").display(),
        home.path("checks.d").display()
    );
    write("conf.d/nrpe.toml", options, 0o644);
    FleetNode { signer, daemon: home.start() }
}

/// Waits until the document of `rpc checks` satisfies a condition.
async fn await_checks(
    fleet: &DirectoryFixture,
    what: &str,
    accept: impl Fn(&Value) -> bool,
) -> Value {
    let mut found = Value::Null;
    poll_until_ok(what, Duration::from_mins(1), async || {
        let output = fleet.rpc.run(&["checks", "--all", "-j"]).await;
        found = serde_json::from_slice(&output.stdout).unwrap_or_default();
        if accept(&found) { Ok(()) } else { Err(describe_output(&output)) }
    })
    .await;
    found
}

fn states(document: &Value) -> Value {
    let rows = document["checks"].as_array().cloned().unwrap_or_default();
    rows.iter().map(|row| json!([row["node"], row["state"]])).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn directory_knows_hard_states_and_missing_nodes() {
    let fleet = DirectoryFixture::start().await;
    let _directory = fleet.start_impatient_directory("dir1", "directory1");
    let good = start_node(&fleet, "node1", 0);
    let mut bad = start_node(&fleet, "node2", 2);
    fleet.await_present(&["dir1", "node1", "node2"]).await;
    let both = json!([["node1", "ok"], ["node2", "critical"]]);
    let document = await_checks(&fleet, "both states", |found| states(found) == both).await;
    assert_eq!((&document["source"], &document["current"]), (&json!("directory"), &json!(true)));
    assert_eq!(document["checks"][1]["output"], json!("state 2"));
    // Results without a hard change write no record.
    let record = async || {
        let (document, _) = fleet.rpc.run_json(&["node", "node1"]).await;
        (document["record_time"].clone(), document)
    };
    let before = record().await;
    good.daemon.home().write("result", "echo 'other output'; exit 0", 0o644);
    let file = good.daemon.home().path("state/checks/states.json");
    await_state("the result is recorded", || {
        std::fs::read_to_string(&file).unwrap_or_default().contains("other output")
    })
    .await;
    await_checks(&fleet, "the states are as before", |found| states(found) == both).await;
    let (after, document) = record().await;
    assert_eq!(after, before.0, "{:#}\n{document:#}", before.1);
    let query = "{'state.checks.critical': {$gt: 0}, 'state.checks.checks.x.state': 'critical'}";
    let output = fleet.rpc.run(&["find", "--dm", "directory", "-Q", query]).await;
    assert_eq!(String::from_utf8_lossy(&output.stdout), "node2\n", "{}", describe_output(&output));
    let acknowledge = ["checks", "ack", "x", "-I", "node2", "--comment", "known", "--yes"];
    let output = fleet.rpc.run(&acknowledge).await;
    assert!(output.status.success(), "{}", describe_output(&output));
    let is_acknowledged = |found: &Value| found["checks"][1]["acknowledged"] == json!(true);
    await_checks(&fleet, "it is acknowledged", is_acknowledged).await;
    // A follower of one node, beside a change of the other one.
    let mut pipe = CommandPipe::create(fleet.rpc.path("nagios.cmd"));
    let path = pipe.path();
    let follow = ["checks", "--follow", "--command-file", &path, "-I", "node2", "--refresh", "10"];
    let _follower = fleet.rpc.prepare_command(&follow).kill_on_drop(true).spawn().unwrap();
    await_state("the state is written", || pipe.lines().len() == 1).await;
    good.daemon.home().write("result", "echo warn; exit 1", 0o644);
    bad.daemon.kill_and_wait();
    let document = await_checks(&fleet, "a node is missing", |found| {
        found["missing"] == json!(["node2"]) && found["checks"][0]["state"] == json!("warning")
    })
    .await;
    assert_eq!(document["checks"][1]["node_missing"], json!(true));
    let output = fleet.rpc.run(&["checks", "--exit-state"]).await;
    assert_eq!(output.status.code(), Some(3), "{}", describe_output(&output));
    // A missing node sends no event; all states are written again at the interval.
    let expected = ";x;3;the node is missing; its last output: state 2";
    poll_until_ok("the missing node is UNKNOWN", Duration::from_mins(1), async || {
        let lines = pipe.lines();
        if lines.iter().any(|line| line.ends_with(expected)) { Ok(()) } else { Err(lines) }
    })
    .await;
    assert!(pipe.lines().iter().all(|line| line.contains(";node2;x;")), "{:?}", pipe.lines());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("node missing") && text.ends_with("missing: node2\n"), "{text}");
}
