//! Leaders that are killed: no node runs twice for one turn, and none waits for more than one and a half intervals.

use std::time::Duration;

use muster_tests::puppet_daemons::prepare_puppet;
use muster_tests::tier::repetitions;
use muster_tests::{now, poll_until_ok, simulate_delay};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use super::fixture::{Execution, ScheduleFixture, ScheduleNode, slots, touch_spec};

/// Half of it is the time in which an instance must take over and a node must run.
const INTERVAL_SECONDS: u64 = 12;

const LEFT_TURN: &str = "the previous leader did not store the reply";

/// Also A3.5: one of two instances leads, and the other takes over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a3_2_kills_of_leaders_during_thirty_intervals_cause_no_second_run_and_no_gap() {
    let intervals = repetitions(30) as u64;
    let fleet = ScheduleFixture::start().await;
    let mut schedulers = [
        fleet.start_scheduler("mq1.example.net", "scheduler1"),
        fleet.start_scheduler("mq2.example.net", "scheduler2"),
    ];
    let nodes = ["web1.example.net", "web2.example.net", "web3.example.net"]
        .map(|name| fleet.start_node(name, "{\"role\":\"web\"}"));
    let touched = nodes[0].daemon.home().path("touched");
    let mut spec = touch_spec(touched.to_str().unwrap());
    spec["every"] = INTERVAL_SECONDS.into();
    fleet.add("touch", &spec).await;
    fleet.await_nodes(nodes.len()).await;
    let begin = now();
    let end = begin + intervals * INTERVAL_SECONDS * 1000;
    let mut kills = 0;
    while now() < end {
        // The moment of the kill is the test: no state precedes it.
        let delay = rand::random_range(INTERVAL_SECONDS * 500..INTERVAL_SECONDS * 1500);
        simulate_delay(Duration::from_millis(delay)).await;
        let leader = fleet.list().await.leader.unwrap_or_default();
        let [first, second] = &mut schedulers;
        let killed = if leader == "mq1.example.net" { first } else { second };
        killed.daemon.kill_and_wait();
        killed.daemon = killed.daemon.home().clone().start();
        kills += 1;
    }
    assert!(kills >= intervals / 2, "{kills} kills");
    for node in &nodes {
        assert_turns(node, (begin, now()));
    }
}

fn assert_turns(node: &ScheduleNode, (begin, end): (u64, u64)) {
    let executions = node.executions();
    let slots = slots(&executions);
    assert!(slots.values().all(|count| *count == 1), "a second run: {slots:?}");
    let limit = INTERVAL_SECONDS * 1000 * 3 / 2;
    let mut last = begin;
    for at in executions.iter().map(Execution::at).chain([end]) {
        assert!(at.saturating_sub(last) <= limit, "{} ms without a run: {executions:?}", at - last);
        last = at;
    }
}

/// A leader that is stopped, as by an upgrade, gives up its lease: the other one does not wait for its end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a3_5_stopped_leader_is_replaced_at_once() {
    const LONG_LEASE: &str = "lease_seconds = 60\n";
    let fleet = ScheduleFixture::start().await;
    let first = fleet.start_scheduler_with("mq1.example.net", "scheduler1", LONG_LEASE);
    let await_leader = async |name: &str| {
        poll_until_ok(name, Duration::from_secs(20), async || {
            let list = fleet.list().await;
            if list.leader.as_deref() == Some(name) { Ok(()) } else { Err(list) }
        })
        .await;
    };
    await_leader("mq1.example.net").await;
    let second = fleet.start_scheduler_with("mq2.example.net", "scheduler2", LONG_LEASE);
    poll_until_ok("the second instance follows", Duration::from_secs(20), async || {
        let log = second.daemon.log();
        if log.contains("ready") { Ok(()) } else { Err(log) }
    })
    .await;
    kill(Pid::from_raw(first.daemon.pid()), Signal::SIGTERM).unwrap();
    await_leader("mq2.example.net").await;
}

/// Run by `make test-all`.
mod long {
    use super::{
        Duration, LEFT_TURN, ScheduleFixture, json, poll_until_ok, prepare_puppet, slots,
        touch_spec,
    };

    /// The broker loses what the scheduler stored last, as after a power failure without synced writes. The id of a turn is derived from its time, so nodes
    /// that ran it refuse it.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn lost_turns_of_the_broker_cause_no_second_run() {
        let mut fleet = ScheduleFixture::start().await;
        let _scheduler = fleet.start_scheduler("mq1.example.net", "scheduler1");
        let node = fleet.start_node("web1.example.net", "{\"role\":\"web\"}");
        let touched = node.daemon.home().path("touched");
        fleet.add("touch", &touch_spec(touched.to_str().unwrap())).await;
        let await_turns = async |count: usize| {
            poll_until_ok("turns were executed", Duration::from_mins(2), async || {
                let found = slots(&node.executions());
                if found.len() >= count { Ok(()) } else { Err(found) }
            })
            .await;
        };
        await_turns(1).await;
        fleet.server.kill();
        let earlier = fleet.server.copy_streams();
        fleet.server.revive().await;
        for _ in 0..2 {
            let count = slots(&node.executions()).len();
            await_turns(count + 2).await;
            fleet.server.kill();
            fleet.server.restore_streams(&earlier);
            fleet.server.revive().await;
        }
        let count = slots(&node.executions()).len();
        await_turns(count + 2).await;
        let executed = slots(&node.executions());
        assert!(executed.values().all(|count| *count == 1), "a second run: {executed:?}");
    }

    /// A run that outlives the leader which has requested it.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn turn_of_a_killed_leader_is_in_the_history() {
        let fleet = ScheduleFixture::start().await;
        let mut scheduler = fleet.start_scheduler("mq1.example.net", "scheduler1");
        let puppet = tempfile::tempdir().unwrap();
        let config = prepare_puppet(puppet.path(), "web1.example.net");
        std::fs::write(puppet.path().join("behaviour"), "0 5 5\n").unwrap();
        let _node = fleet.start_node_with("web1.example.net", "{\"role\":\"web\"}", &config);
        let filter = muster_filter::NodeFilter::default().with_words("role=web").unwrap();
        let spec = json!({"agent": "puppet", "action": "runonce", "every": 40, "filter": filter, "timeout": 8});
        fleet.add("puppet", &spec).await;
        poll_until_ok("a turn has begun", Duration::from_mins(1), async || {
            let shown = fleet.call("show", &json!({"name": "puppet"})).await;
            // A refusal while no leader is elected has no outputs.
            let begun = shown.data.get("outcomes").map(|outcomes| &outcomes["begun"]);
            if begun.is_some_and(|count| *count == 1) { Ok(()) } else { Err(shown.data) }
        })
        .await;
        scheduler.daemon.kill_and_wait();
        scheduler.daemon = scheduler.daemon.home().clone().start();
        poll_until_ok("the turn has ended", Duration::from_mins(1), async || {
            let history = fleet.call("history", &json!({"name": "puppet"})).await.data;
            let entries = history.get("entries").and_then(serde_json::Value::as_array);
            let mut entries = entries.into_iter().flatten();
            let turn = entries.find(|entry| entry["outcome"] == "no_answer").cloned();
            turn.map(|turn| assert_eq!(turn["reason"], LEFT_TURN)).ok_or(history)
        })
        .await;
    }
}
