//! What a schedule does on nodes: each runs once in each interval, in the name of the author; a pause stops everything at once.

use std::time::Duration;

use muster_calls::{CallTarget, RpcCall};
use muster_tests::nats_server::NETWORK_TIMEOUT;
use muster_tests::{poll_until_ok, simulate_delay};
use muster_wire::identity::Identity;
use muster_wire::status::ReplyStatus;
use serde_json::{Value, json};

use super::fixture::{Execution, INTERVAL_SECONDS, ScheduleFixture, slots, touch_spec};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schedule_of_a_revoked_author_is_refused_and_stops() {
    let mut fleet = ScheduleFixture::start().await;
    let _scheduler = fleet.start_scheduler("mq1.example.net", "scheduler1");
    let node = fleet.start_node("web1.example.net", "{\"role\":\"web\"}");
    let touched = node.daemon.home().path("touched");
    fleet.add("touch", &touch_spec(touched.to_str().unwrap())).await;
    poll_until_ok("a turn", Duration::from_mins(1), async || {
        if node.executions().is_empty() { Err(()) } else { Ok(()) }
    })
    .await;
    let bob = fleet.organisation.caller("bob");
    fleet.client = ScheduleFixture::connect_client(&fleet.organisation, &fleet.server, &bob).await;
    let author = fleet.author.clone();
    let token = fleet.organisation.revoke_user(&author);
    fleet.organisation.push_account(&fleet.server, &token).await;
    fleet.organisation.publish_account(&fleet.server, &token).await;
    poll_until_ok("the schedule is refused", Duration::from_secs(30), async || {
        let list = fleet.list().await;
        let row = list.schedules.first().unwrap();
        let reason = row.reason.clone().unwrap_or_default();
        if row.state == "refused" && reason.raw().contains("revoked") { Ok(()) } else { Err(list) }
    })
    .await;
    let count = node.executions().len();
    simulate_delay(Duration::from_secs(INTERVAL_SECONDS * 2)).await;
    assert_eq!(node.executions().len(), count);
}

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
    assert_eq!(list.paused.unwrap().reason, Some("freeze".into()));
    simulate_delay(Duration::from_secs(INTERVAL_SECONDS * 2)).await;
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

/// Its agents have a connection each, under one name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agents_of_one_service_do_not_answer_for_each_other() {
    let fleet = ScheduleFixture::start().await;
    let _host = fleet.start_double_service("mq1.example.net", "central1");
    fleet.list().await;
    for (agent, action) in [("schedule", "list"), ("directory", "status")] {
        for _ in 0..10 {
            let instance = Identity::parse("central1").unwrap();
            let target = CallTarget::Nodes([instance].into());
            let mut call = RpcCall::new(agent, action, target).unwrap();
            call.wait = NETWORK_TIMEOUT;
            let mut replies = Vec::new();
            let stats = fleet
                .client
                .run_call(call, |reply| {
                    replies.push((reply.reply.statuscode, reply.reply.statusmsg.raw().to_owned()));
                })
                .await
                .unwrap();
            assert_eq!(replies, [(ReplyStatus::Ok, "OK".to_owned())], "{agent}: {stats:?}");
        }
    }
}
