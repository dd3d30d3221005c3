//! What the scheduler says of the fleet: nodes that are overdue, and limits that follow the health of a server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use muster_calls::{EventArrival, EventListener};
use muster_tests::poll_until_ok;
use muster_wire::event::FleetEvent;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::fixture::{ScheduleFixture, touch_spec};

const EVENT_TIMEOUT: Duration = Duration::from_mins(3);

/// Waits for the next event of a kind.
async fn next_event(events: &mut EventListener, kind: &str) -> FleetEvent {
    let found = async {
        loop {
            match events.next().await {
                Some(EventArrival::Event(event)) if event.kind.as_str() == kind => return *event,
                Some(_) => {}
                None => panic!("the connection is closed"),
            }
        }
    };
    tokio::time::timeout(EVENT_TIMEOUT, found).await.unwrap_or_else(|_| panic!("no {kind}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a3_7_node_without_a_run_for_two_intervals_is_reported() {
    let fleet = ScheduleFixture::start().await;
    let _scheduler = fleet.start_scheduler("mq1.example.net", "scheduler1");
    let mut node = fleet.start_node("web1.example.net", "{\"role\":\"web\"}");
    let touched = node.daemon.home().path("touched");
    let mut events = fleet.client.listen_for_events().await.unwrap();
    fleet.add("touch", &touch_spec(touched.to_str().unwrap())).await;
    poll_until_ok("a turn", EVENT_TIMEOUT, async || {
        let executions = node.executions();
        if executions.is_empty() { Err(()) } else { Ok(()) }
    })
    .await;
    assert_eq!(fleet.list().await.schedules.first().unwrap().overdue, 0);
    node.daemon.kill_and_wait();
    let event = next_event(&mut events, "schedule_overdue").await;
    assert_eq!(event.data.get("node"), Some(&json!("web1.example.net")));
    assert_eq!(event.data.get("schedule"), Some(&json!("touch")));
    let shown = fleet.call("show", &json!({"name": "touch"})).await;
    let overdue = shown.data.get("overdue").and_then(Value::as_array).unwrap();
    assert_eq!(overdue.len(), 1, "{overdue:?}");
}

/// Answers each request with the current status.
async fn serve_status(status: Arc<AtomicU16>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = [0; 4096];
            let _ = stream.read(&mut head).await;
            let status = status.load(Ordering::Relaxed);
            let reply =
                format!("HTTP/1.1 {status} x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            let _ = stream.write_all(reply.as_bytes()).await;
        }
    });
    port
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limit_of_a_pool_grows_while_its_server_is_well_and_is_halved_when_it_is_not() {
    let fleet = ScheduleFixture::start().await;
    let status = Arc::new(AtomicU16::new(200));
    let port = serve_status(Arc::clone(&status)).await;
    let mut events = fleet.client.listen_for_events().await.unwrap();
    let health = format!(
        "lease_seconds = 2\n[plugins.schedule.health.puppet]\nurl = \"http://127.0.0.1:{port}/status\"\nlatency_ms = 5000\nmax = 4\ninterval_seconds = 1\n"
    );
    let _scheduler = fleet.start_scheduler_with("mq1.example.net", "scheduler1", &health);
    let mut limits = Vec::new();
    while limits.last() != Some(&json!(4)) {
        let event = next_event(&mut events, "schedule_limit").await;
        assert_eq!(event.data.get("pool"), Some(&json!("puppet")));
        limits.push(event.data.get("to").unwrap().clone());
    }
    assert_eq!(limits, [2, 3, 4]);
    status.store(503, Ordering::Relaxed);
    let halved = next_event(&mut events, "schedule_limit").await;
    assert_eq!(
        (halved.data.get("from"), halved.data.get("to")),
        (Some(&json!(4)), Some(&json!(2)))
    );
    assert_eq!(
        halved.text,
        "the limit of the pool puppet is 2 instead of 4: the health source replied with status 503"
    );
    let halved = next_event(&mut events, "schedule_limit").await;
    assert_eq!(halved.data.get("to"), Some(&json!(1)));
    status.store(200, Ordering::Relaxed);
    let grown = next_event(&mut events, "schedule_limit").await;
    assert_eq!(grown.data.get("to"), Some(&json!(2)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limit_of_a_pool_grows_while_a_check_is_ok_and_is_halved_when_it_is_not() {
    let fleet = ScheduleFixture::start().await;
    let nrpe = tempfile::tempdir().unwrap();
    let path = |name: &str| nrpe.path().join(name);
    let result = path("result");
    let set_result =
        |code: u8| std::fs::write(&result, format!("echo state; exit {code}\n")).unwrap();
    set_result(0);
    let command = format!("command[load]=/bin/sh {}\n", result.display());
    std::fs::write(path("nrpe.cfg"), command).unwrap();
    std::fs::create_dir(path("checks.d")).unwrap();
    let check = "[[checks]]\nname = \"load\"\ncommand = \"load\"\ninterval = 1\nmax_attempts = 1\nflap_detection = false\n";
    std::fs::write(path("checks.d/load.toml"), check).unwrap();
    let options = format!(
        "[plugins.nrpe]\nconfig = {:?}\nschedules = {:?}\n",
        path("nrpe.cfg"),
        path("checks.d")
    );
    let _db = fleet.start_node_with("db1.example.net", "{}", &options);
    let mut events = fleet.client.listen_for_events().await.unwrap();
    let health = "lease_seconds = 2\n[plugins.schedule.health.database]\nnode = \"db1.example.net\"\ncheck = \"load\"\nmax = 4\ninterval_seconds = 1\n";
    let _scheduler = fleet.start_scheduler_with("mq1.example.net", "scheduler1", health);
    while next_event(&mut events, "schedule_limit").await.data.get("to") != Some(&json!(4)) {}
    set_result(2);
    let halved = next_event(&mut events, "schedule_limit").await;
    assert_eq!(
        halved.text,
        "the limit of the pool database is 2 instead of 4: the check load on db1.example.net is CRITICAL"
    );
    set_result(0);
    while next_event(&mut events, "schedule_limit").await.data.get("to") != Some(&json!(4)) {}
}
