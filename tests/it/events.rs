//! Fleet events with the real programs: nodes publish the outcomes of restarts, and `rpc events` shows them.

#![expect(clippy::disallowed_types, reason = "runs the real programs")]

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use muster_tests::command::find_program;
use serde_json::Value;

use crate::demo::{Demo, describe_output};

/// A11.4: the outcome of a restart is published on the bus, signed, with its text; a failing unit is reported as failed.
#[test]
fn restart_outcomes_are_published_as_events() {
    let demo = Demo::start();
    let mut watcher = Command::new(find_program("rpc"))
        .args(["events", "--kind", "restart", "--count", "5", "-t", "60", "--jsonl"])
        .env("RPC_CONFIG", demo.fleet().join("rpc.toml"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = String::new();
    BufReader::new(watcher.stderr.take().unwrap()).read_line(&mut ready).unwrap();
    assert!(ready.contains("Waiting for events"), "{ready}");
    let request = demo.rpc(&["do", "restart", "request", "unit=missing", "when_idle=false", "-y"]);
    assert!(request.status.success(), "{}", describe_output(&request));
    let output = watcher.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", describe_output(&output));
    let lines = String::from_utf8(output.stdout).unwrap();
    let events: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let field =
        |event: &Value, name: &str| event.get(name).and_then(Value::as_str).unwrap().to_owned();
    let mut senders: Vec<String> = events.iter().map(|event| field(event, "sender")).collect();
    senders.sort();
    senders.dedup();
    assert_eq!(senders.len(), 5, "{lines}");
    for event in &events {
        assert_eq!(field(event, "kind"), "restart_failed", "{event}");
        assert!(field(event, "text").contains("missing"), "{event}");
    }
}
