//! What a schedule does on nodes: each runs once in each interval, in the name of the author; a pause stops everything at once.

use std::time::Duration;

use muster_tests::poll_until_ok;
use muster_wire::status::ReplyStatus;
use serde_json::{Value, json};

use super::fixture::{Execution, INTERVAL_SECONDS, ScheduleFixture, slots, touch_spec};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schedule_runs_once_in_each_interval_in_the_name_of_its_author_until_it_is_paused() {
    let fleet = ScheduleFixture::start().await;
    let scheduler = fleet.start_scheduler("mq1.example.net", "scheduler1");
    let nodes = ["web1.example.net", "web2.example.net"]
        .map(|name| fleet.start_node(name, "{\"role\":\"web\"}"));
    let touched = nodes[0].daemon.home().path("touched");
    fleet.add("touch", &touch_spec(touched.to_str().unwrap())).await;
    fleet.await_nodes(2).await;

    poll_until_ok("three turns", Duration::from_mins(1), async || {
        let counts = nodes.each_ref().map(|node| node.executions().len());
        if counts.iter().all(|count| *count >= 3) { Ok(()) } else { Err(counts) }
    })
    .await;
    for node in &nodes {
        let executions = node.executions();
        assert!(slots(&executions).values().all(|count| *count == 1), "{executions:?}");
        let Execution { caller, agent, schedule, scheduler, statuscode, .. } =
            executions.first().unwrap();
        let words = [caller, agent, schedule, scheduler].map(String::as_str);
        assert_eq!((words, *statuscode), (["anna", "filemgr", "touch", "scheduler1"], 0));
    }
    assert!(scheduler.executions().is_empty(), "the scheduler's own node does not match");

    // Nothing begins later than a second after the reply of `pause`.
    let paused = fleet.call("pause", &json!({"all": true, "reason": "freeze"})).await;
    let paused_at = muster_tests::now();
    assert_eq!(paused.statuscode, ReplyStatus::Ok);
    let list = fleet.list().await;
    assert_eq!(list.schedules[0].state, "paused");
    assert_eq!(list.paused.unwrap().reason.as_deref(), Some("freeze"));
    muster_tests::simulate_delay(Duration::from_secs(INTERVAL_SECONDS * 2)).await;
    for node in &nodes {
        let newest = node.executions().last().unwrap().at();
        assert!(newest <= paused_at + 1000, "begun {} ms after the pause", newest - paused_at);
    }
    fleet.call("resume", &json!({"all": true})).await;
    poll_until_ok("it goes on", Duration::from_mins(1), async || {
        let newest = nodes.each_ref().map(|node| node.executions().last().unwrap().at());
        if newest.iter().all(|at| *at > paused_at + 1000) { Ok(()) } else { Err(newest) }
    })
    .await;
    let history = fleet.call("history", &json!({"name": "touch", "count": 100})).await;
    let entries = history.data.get("entries").and_then(Value::as_array).unwrap();
    let missed: Vec<&Value> = entries.iter().filter(|entry| entry["outcome"] == "missed").collect();
    assert_eq!(missed, [&Value::Null; 0], "turns of the pause are not missed");
    let removed = fleet.call("remove", &json!({"name": "touch"})).await;
    assert_eq!(removed.data["text"], "removed the schedule touch");
    assert_eq!(fleet.list().await.schedules, []);
}
