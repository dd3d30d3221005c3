//! The fleet events of the agent, as the broker delivers them: each transition has its event.

use std::collections::BTreeMap;

use muster_calls::{CallTarget, EventArrival, EventListener, RpcCall};
use muster_wire::event::FleetEvent;
use muster_wire::identity::Identity;
use serde_json::json;
use tokio::time::timeout;

use super::fixture::{AgainFixture, TIMEOUT};
use crate::puppet::puppet_node::PuppetNode;

/// Without other delays and limits than the test for progress.
const OPTIONS: &str = "[plugins.again]\nbudget = 0\nburst = 1000\ndaily = 1000\nspread = 0\nbackoff = 0\nidentical_runs = 2\n";

/// A run that makes the same change each time, and asks for another one if `w/ask` exists.
const SCRIPT: &str = r#"base="$(dirname "$0")"; w="$base/w"
[ -f "$w/ask" ] && sh "$w/ask"
cat > "$base/var/state/new" <<END
---
status: changed
time: '$(date +%s.%N)'
transaction_uuid: $(cat /proc/sys/kernel/random/uuid)
noop: false
resource_statuses:
  Notify[more]:
    events:
    - property: message
      desired_value: more work
      status: success
END
mv "$base/var/state/new" "$base/var/state/last_run_report.yaml"
echo run >> "$w/log"
"#;

/// The next event of the agent.
async fn next_event(events: &mut EventListener) -> FleetEvent {
    loop {
        let arrival = timeout(TIMEOUT, events.next()).await.unwrap();
        let Some(EventArrival::Event(event)) = arrival else { panic!("no event: {arrival:?}") };
        if event.kind.as_str().starts_with("again_") {
            return *event;
        }
    }
}

/// Asserts that the next events have these kinds, in this order.
async fn expect_events(events: &mut EventListener, kinds: &[&str]) -> Vec<FleetEvent> {
    let mut found = Vec::new();
    for kind in kinds {
        let event = next_event(events).await;
        assert_eq!(event.kind.as_str(), *kind, "after {found:#?}: {event:#?}");
        assert_eq!(event.sender.as_str(), "n1.example.net");
        found.push(event);
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a1_8_each_transition_has_its_event_at_the_broker() {
    let node = PuppetNode::scripted("n1.example.net", SCRIPT);
    let fixture = AgainFixture::start(node, OPTIONS).await;
    let (caller, service) = fixture.clients().await;
    let mut events = caller.listen_for_events().await.unwrap();

    fixture.ask(&["--noop"]);
    expect_events(&mut events, &["again_would_run"]).await;
    fixture.ask(&["--delta", "3600", "--start-timer-now"]);
    expect_events(&mut events, &["again_pending"]).await;
    fixture.call(&["cancel"]).await;
    let cancelled = expect_events(&mut events, &["again_cancelled"]).await;
    assert!(
        cancelled[0].text.raw().ends_with("was cancelled by rip"),
        "{}",
        cancelled[0].text.raw()
    );
    fixture.ask(&["--delta", "3600", "--start-timer-now", "--deadline", "1"]);
    let late = expect_events(&mut events, &["again_pending", "again_suppressed"]).await;
    assert!(late[1].text.raw().ends_with(": deadline"), "{}", late[1].text.raw());

    // Conditions on other nodes, without a directory.
    fixture.ask(&["--when", "gluster", "--timeout", "1"]);
    let kinds = ["again_pending", "again_timed_out", "again_running", "again_done"];
    let run = expect_events(&mut events, &kinds).await;
    assert!(run[2].text.raw().ends_with("; barrier timed out"), "{}", run[2].text.raw());
    assert!(run.iter().all(|event| event.data["again"] == run[0].data["again"]), "{run:#?}");
    assert_eq!(run[2].data["run"], run[3].data["run"]);
    fixture.ask(&["--when", "gluster", "--timeout", "3600"]);
    expect_events(&mut events, &["again_pending"]).await;
    let list = fixture.await_listed("pending").await;
    let target = CallTarget::Nodes([Identity::parse("n1.example.net").unwrap()].into());
    let mut call = RpcCall::new("again", "release", target).unwrap();
    call.data.insert("id".to_owned(), list["barriers"][0]["id"].clone());
    service.run_call(call, |_| {}).await.unwrap();
    let kinds = ["again_released", "again_running", "again_done"];
    expect_events(&mut events, &kinds).await;

    // Each run asks, and makes the same change as the one before.
    let words = fixture.command_words(&[]).join(" ");
    std::fs::write(fixture.node.path("w/ask"), words).unwrap();
    fixture.ask(&[]);
    let mut counts = BTreeMap::new();
    loop {
        let event = next_event(&mut events).await;
        let kind = event.kind.as_str().to_owned();
        let is_last = kind == "again_suppressed";
        *counts.entry(kind).or_insert(0) += 1;
        if is_last {
            break;
        }
    }
    let counts = json!(counts);
    let expected = json!({"again_pending": 3, "again_running": 2, "again_done": 2, "again_oscillating": 1, "again_suppressed": 1});
    assert_eq!(counts, expected);
    assert_eq!(fixture.call(&["list"]).await["oscillating"], true);
    fixture.call(&["reset"]).await;
    expect_events(&mut events, &["again_reset"]).await;
}
