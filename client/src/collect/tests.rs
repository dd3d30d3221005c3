//! Reports built from the events of a call: counts, interruption, missing replies and rejected replies.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::Duration;

use muster_calls::{
    CallEvent, CallStats, ClientError, ConnectionDisturbance, DdlStore, ReceivedReply,
};
use muster_wire::identity::Identity;

use crate::jobs::RequestOutcome;
use serde_json::{Value, json};

use super::ReportBuilder;
use crate::observer::{RequestEvent, RequestObserver};
use crate::report::{RequestReport, RequestStats, ResultGap};

const REQUEST: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

fn answer(node: &str, code: u8, data: &Value) -> Box<ReceivedReply> {
    let reply = json!({
        "request": REQUEST, "sender": node, "agent": "rpcutil", "action": "get_fact", "statuscode": code,
        "statusmsg": "OK", "data": data, "time": 1_767_225_600_000_u64, "took": 7,
    });
    Box::new(ReceivedReply {
        reply: serde_json::from_value(reply).unwrap(),
        after: Duration::from_millis(20),
        arrived: 1_767_225_600_000,
        rights: Vec::new(),
        verifying: Duration::from_micros(100),
    })
}

fn finished(incomplete: Option<ConnectionDisturbance>) -> CallEvent {
    CallEvent::Finished(Box::new(stats(incomplete)))
}

fn stats(incomplete: Option<ConnectionDisturbance>) -> CallStats {
    CallStats {
        request: REQUEST.parse().unwrap(),
        is_unserved: false,
        expected: Some(3),
        ok: 0,
        failed: 0,
        missing: BTreeSet::new(),
        absent: BTreeSet::new(),
        unsent: BTreeSet::new(),
        unexpected: BTreeSet::new(),
        cloned: BTreeSet::new(),
        rejected: 0,
        incomplete,
        references: 0,
        signing: Duration::from_micros(200),
        publishing: Duration::from_millis(1),
        waiting: Duration::from_millis(30),
    }
}

fn published() -> CallEvent {
    CallEvent::Published { request: REQUEST.parse().unwrap(), expected: None }
}

fn nodes(names: &[&str]) -> BTreeSet<Identity> {
    names.iter().map(|name| name.parse().unwrap()).collect()
}

fn gather(events: Vec<CallEvent>, interrupted: bool) -> RequestReport {
    let store = DdlStore::load(None).unwrap();
    let action = store.get("rpcutil").unwrap().find_action("get_fact").unwrap();
    let mut gathering = ReportBuilder::new("rpcutil", action, 3, RequestStats::default());
    gathering.begin_batch(nodes(&["a", "b", "c"]));
    for event in events {
        gathering.handle_event(event, &()).unwrap();
    }
    if interrupted {
        gathering.add_gap(ResultGap::Interrupted);
    }
    gathering.into_report(BTreeSet::new())
}

#[test]
fn report_contains_every_event() {
    let report = gather(
        vec![
            published(),
            CallEvent::Reply(answer("a", 0, &json!({"value": "de"}))),
            CallEvent::Reply(answer("b", 1, &json!({"value": "uk"}))),
            CallEvent::Absent("c".parse().unwrap()),
            CallEvent::Unexpected(answer("d", 0, &json!({"value": "fr"}))),
            CallEvent::Rejected("signature"),
            CallEvent::Rejected("signature"),
            finished(Some(ConnectionDisturbance::SlowConsumer)),
        ],
        false,
    );
    let stats = &report.stats;
    assert_eq!(stats.requests, [REQUEST]);
    assert_eq!((stats.discovered, stats.ok, stats.failed), (3, 1, 1));
    assert_eq!((&stats.missing, &stats.not_connected), (&nodes(&["c"]), &nodes(&["c"])));
    assert_eq!(stats.unexpected, nodes(&["d"]));
    assert_eq!(stats.rejected.get("signature"), Some(&2));
    assert_eq!(stats.gaps, BTreeSet::from([ResultGap::SlowConsumer]));
    assert_eq!(stats.waiting, Duration::from_millis(30));
    let senders: Vec<&str> = report.replies.iter().map(|reply| reply.node.as_str()).collect();
    assert_eq!(senders, ["a", "b"]);
    // Summaries contain successful replies of called nodes only.
    assert_eq!(report.summaries[0].to_json(), json!({"de": 1}));
    assert_eq!(stats.outcome(), RequestOutcome::SomeFailed);
}

#[test]
fn waiting_time_is_measured_if_replies_are_missing() {
    let late = CallStats { waiting: Duration::ZERO, ..stats(None) };
    let report = gather(vec![published(), CallEvent::Finished(Box::new(late))], false);
    assert_eq!(report.stats.missing.len(), 3);
    assert!(report.stats.waiting > Duration::ZERO);
}

#[test]
fn interrupted_call_keeps_replies_and_lists_missing_nodes() {
    let report = gather(vec![published(), CallEvent::Reply(answer("b", 0, &json!({})))], true);
    assert_eq!(report.stats.missing, nodes(&["a", "c"]));
    assert_eq!(report.stats.gaps, BTreeSet::from([ResultGap::Interrupted]));
    assert_eq!(report.stats.outcome(), RequestOutcome::SomeFailed);
    assert_eq!(gather(vec![published()], true).stats.outcome(), RequestOutcome::SomeFailed);
}

#[test]
fn nodes_are_missing_without_a_finished_event() {
    let report = gather(vec![published()], false);
    assert_eq!(report.stats.missing, nodes(&["a", "b", "c"]));
    assert_eq!(report.stats.outcome(), RequestOutcome::NoReplies);
}

/// Keeps the events that a builder passes on.
#[derive(Debug, Default)]
struct SeenEvents(RefCell<Vec<String>>);

impl RequestObserver for SeenEvents {
    fn observe(&self, event: RequestEvent<'_>) {
        let seen = match event {
            RequestEvent::Sent(id) => format!("sent {id}"),
            RequestEvent::Reply(reply) => format!("{} took {} ms", reply.node, reply.took),
            RequestEvent::Absent(node) => format!("{node} is absent"),
            other => format!("{other:?}"),
        };
        self.0.borrow_mut().push(seen);
    }
}

#[test]
fn events_of_a_call_become_events_of_the_request() {
    let store = DdlStore::load(None).unwrap();
    let action = store.get("rpcutil").unwrap().find_action("get_fact").unwrap();
    let mut gathering = ReportBuilder::new("rpcutil", action, 2, RequestStats::default());
    gathering.begin_batch(nodes(&["a", "b"]));
    let seen = SeenEvents::default();
    let reply = CallEvent::Reply(answer("a", 0, &json!({})));
    for event in [published(), reply, CallEvent::Absent("b".parse().unwrap()), finished(None)] {
        gathering.handle_event(event, &seen).unwrap();
    }
    let sent = format!("sent {REQUEST}");
    assert_eq!(*seen.0.borrow(), [sent.as_str(), "a took 7 ms", "b is absent"]);
    assert_eq!(gathering.heard_count(), 2);
    let failed = ClientError::NotGranted {
        agent: "rpcutil".into(),
        action: "ping".into(),
        allowed: "service".into(),
    };
    assert!(gathering.handle_event(CallEvent::Failed(failed), &()).is_err());
}

#[test]
fn counts_are_summed_over_batches() {
    let store = DdlStore::load(None).unwrap();
    let action = store.get("rpcutil").unwrap().find_action("get_fact").unwrap();
    let mut gathering = ReportBuilder::new("rpcutil", action, 4, RequestStats::default());
    for (node, code) in [("a", 0), ("b", 1)] {
        gathering.begin_batch(nodes(&[node]));
        gathering.handle_event(published(), &()).unwrap();
        let reply = CallEvent::Reply(answer(node, code, &json!({"value": "de"})));
        gathering.handle_event(reply, &()).unwrap();
        gathering.handle_event(finished(None), &()).unwrap();
        gathering.end_batch();
    }
    gathering.begin_batch(nodes(&["c"]));
    gathering.handle_event(published(), &()).unwrap();
    gathering.end_batch();
    assert_eq!((gathering.heard_count(), gathering.stats().unsuccessful_count()), (3, 2));
    let report = gathering.into_report(nodes(&["d"]));
    let stats = &report.stats;
    assert_eq!((stats.discovered, stats.ok, stats.failed), (4, 1, 1));
    assert_eq!((&stats.missing, &stats.not_asked), (&nodes(&["c"]), &nodes(&["d"])));
    assert_eq!((stats.requests.len(), stats.outcome()), (3, RequestOutcome::SomeFailed));
    assert!(stats.publishing >= Duration::from_millis(2));
    assert!(stats.waiting >= Duration::from_millis(60));
}
