//! Events of scheduled checks: what each change publishes, and that a broker that is away delays them only.

use std::time::Duration;

use muster_tests::command::describe_output;
use muster_tests::{await_state, poll_until_ok};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Child;

use super::schedule_fixture::{ScheduleFleet, entry};

impl ScheduleFleet {
    /// Starts `rpc events`, and waits until it has subscribed.
    async fn watch(&self, count: usize) -> Child {
        let count = count.to_string();
        let arguments = ["events", "--kind", "check_", "--count", &count, "-t", "60", "--jsonl"];
        let mut watcher = self.fleet.rpc.prepare_command(&arguments).spawn().unwrap();
        let mut ready = String::new();
        let errors = watcher.stderr.take().unwrap();
        BufReader::new(errors).read_line(&mut ready).await.unwrap();
        assert!(ready.contains("Waiting for events"), "{ready}");
        watcher
    }
}

/// The events that the command printed.
async fn collect(watcher: Child) -> Vec<Value> {
    let output = watcher.wait_with_output().await.unwrap();
    assert!(output.status.success(), "{}", describe_output(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["kind"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_change_is_an_event_and_a_maintenance_holds_problems_back() {
    let fleet = ScheduleFleet::start(&entry("x", "max_attempts = 2")).await;
    let watcher = fleet.watch(10).await;
    for code in [0, 2, 0, 1, 1, 1] {
        fleet.trigger(code).await;
    }
    fleet.call("acknowledge", &["check=x", "comment=\u{1b}[2Jknown\nsecond"]).await;
    fleet.call("unacknowledge", &["check=x"]).await;
    fleet.trigger(0).await;
    fleet.call("maintenance", &["seconds=3600", "comment=kernel"]).await;
    for code in [2, 2, 0, 2, 2] {
        fleet.trigger(code).await;
    }
    fleet.call("endmaintenance", &[]).await;
    fleet.trigger(0).await;
    fleet.node.write("checks.d/a.toml", "");
    fleet.reload();
    let events = collect(watcher).await;
    assert_eq!(
        kinds(&events),
        [
            "check_problem",
            "check_acknowledged",
            "check_unacknowledged",
            "check_recovery",
            "check_maintenance_start",
            "check_maintenance_end",
            "check_problem",
            "check_recovery",
            "check_flapping_start",
            "check_removed",
        ]
    );
    assert_eq!(events[9]["text"], json!("x: no longer scheduled on this node; it was OK"));
    assert_eq!(events[0]["text"], json!("x: WARNING (was OK): state 1"));
    assert_eq!(
        events[0]["data"],
        json!({"check": "x", "state": "warning", "previous": "ok", "output": "state 1", "perfdata": "x=1;1;2"})
    );
    assert_eq!(events[1]["data"]["author"], json!("rip"));
    assert_eq!(events[4]["data"]["comment"], json!("kernel"));
    assert!(events[4]["text"].as_str().unwrap().starts_with("all checks: in maintenance until "));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flapping_begins_and_ends_with_an_event() {
    let fleet =
        ScheduleFleet::start(&entry("x", "max_attempts = 1\nflap_low = 8.0\nflap_high = 15.0"))
            .await;
    let watcher = fleet.watch(5).await;
    for code in [2, 0, 2] {
        fleet.trigger(code).await;
    }
    let mut runs = 0;
    while fleet.trigger(2).await["flapping"] == json!(true) {
        runs += 1;
        assert!(runs < 25, "it flaps for ever");
    }
    let events = collect(watcher).await;
    let expected = [
        "check_problem",
        "check_recovery",
        "check_problem",
        "check_flapping_start",
        "check_flapping_end",
    ];
    assert_eq!(kinds(&events), expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn checks_run_without_a_broker_and_events_arrive_later() {
    let schedule = entry("x", "interval = 1\nsplay = false\nmax_attempts = 2");
    let mut fleet = ScheduleFleet::start(&schedule).await;
    fleet.await_row("x", "it is OK", |row| row["state"] == "ok").await;
    fleet.fleet.server.kill();
    fleet.set_exit_code(2);
    let runs = fleet.runs();
    await_state("it runs without the broker", || fleet.runs() >= runs + 3).await;
    let file = fleet.node.path("state/checks/states.json");
    await_state("the event waits", || {
        std::fs::read_to_string(&file).unwrap_or_default().contains("check_problem")
    })
    .await;
    // Also after the daemon was killed. It starts without a broker, and is held until someone listens.
    fleet.node.daemon.kill_and_wait();
    fleet.node.daemon = fleet.node.daemon.home().clone().start();
    let runs = fleet.runs();
    await_state("it runs again", || fleet.runs() > runs).await;
    fleet.node.daemon.freeze().await;
    fleet.fleet.server.revive().await;
    let watcher = fleet.watch(1).await;
    fleet.node.daemon.thaw();
    let events = collect(watcher).await;
    assert_eq!(kinds(&events), ["check_problem"]);
    poll_until_ok("the event is removed", Duration::from_mins(1), async || {
        let text = std::fs::read_to_string(&file).unwrap();
        if text.contains("check_problem") { Err(text) } else { Ok(()) }
    })
    .await;
}
