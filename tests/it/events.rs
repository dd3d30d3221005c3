//! Fleet events with the real programs: nodes publish the outcomes of restarts, and `rpc events` shows them.

#![expect(clippy::disallowed_types, reason = "runs the real programs")]

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use muster_tests::command::find_program;
use muster_tests::published_schemas::{SchemaMode, check_schema};
use serde_json::Value;

use crate::demo::{Demo, describe_output};

/// Starts `rpc events` for restarts, and waits until it has subscribed.
fn watch_restarts(demo: &Demo, count: usize) -> Child {
    let mut watcher = Command::new(find_program("rpc"))
        .args(["events", "--kind", "restart", "--count", &count.to_string(), "-t", "60", "--jsonl"])
        .env("RPC_CONFIG", demo.fleet().join("rpc.toml"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = String::new();
    BufReader::new(watcher.stderr.take().unwrap()).read_line(&mut ready).unwrap();
    assert!(ready.contains("Waiting for events"), "{ready}");
    watcher
}

/// The sender and the kind of each event that the command printed, in order of the senders.
fn collect_events(watcher: Child) -> Vec<(String, String)> {
    let output = watcher.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", describe_output(&output));
    let lines = String::from_utf8(output.stdout).unwrap();
    let events = lines.lines().map(|line| {
        let event: Value = serde_json::from_str(line).unwrap();
        check_schema("muster.event.line.v1", &event, SchemaMode::Strict).unwrap();
        let field = |name: &str| event.get(name).and_then(Value::as_str).unwrap().to_owned();
        assert!(field("text").starts_with("httpd: "), "{event}");
        (field("sender"), field("kind"))
    });
    let mut events: Vec<(String, String)> = events.collect();
    events.sort();
    events
}

/// A11.4: the outcome of a restart is published on the bus, signed, with its text; a failing unit is reported as failed.
#[test]
fn restart_outcomes_are_published_as_events() {
    let demo = Demo::start();
    let request = ["do", "restart", "request", "unit=httpd", "when_idle=false", "-C", "apache"];
    let watcher = watch_restarts(&demo, 2);
    let requested = demo.rpc(&request);
    assert!(requested.status.success(), "{}", describe_output(&requested));
    let web_nodes = ["web1.dev.acme.net", "web1.dev.initech.net"].map(str::to_owned);
    let restarted = web_nodes.clone().map(|node| (node, "restart_ok".to_owned()));
    assert_eq!(collect_events(watcher), restarted);

    // A service that refuses to start.
    let broken = "#!/bin/sh\ntest \"$1\" = status\n";
    let script = demo.fleet().join("nodes/web1.dev.acme.net/root/etc/init.d/httpd");
    std::fs::write(script, broken).unwrap();
    let watcher = watch_restarts(&demo, 1);
    let requested = demo.rpc(&[&request[..], &["-I", "web1.dev.acme.net"]].concat());
    assert!(requested.status.success(), "{}", describe_output(&requested));
    let failed = ("web1.dev.acme.net".to_owned(), "restart_failed".to_owned());
    assert_eq!(collect_events(watcher), [failed]);
}
