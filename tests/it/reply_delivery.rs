//! Requests with a trace, without replies, with replies to another address, or with an expected number of replies.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_api::{Agent, EmptyInput, NoState};
use muster_calls::{CallEvent, CallTarget, ClientError, ReplyDelivery, RpcCall};
use muster_tests::fleet::{NodeSetup, TestNode};
use muster_tests::nats_server::NETWORK_TIMEOUT;
use muster_tests::organisation::connect;
use muster_wire::identity::Identity;
use muster_wire::status::{ReplyReason, ReplyStatus};
use muster_wire::subject::{self, AnswerAddress};
use muster_wire::trace::{StageName, StageTiming, TraceContext};
use serde::Serialize;
use serde_json::json;

use crate::node_fixture::{NodeFixture, to_object};

const NODE: &str = "node1.example.net";
/// The stages of a changing request on a node, in order.
pub(crate) const STAGES: [&str; 12] = [
    "decode",
    "verify",
    "fresh",
    "match",
    "validate",
    "authorise",
    "audit",
    "journal",
    "queue",
    "run",
    "check",
    "reply",
];
const TRACEPARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

#[derive(Serialize)]
struct TraceOutput {
    trace: String,
}

fn build_trace_agent() -> Agent {
    let ddl = json!({
        "metadata": {"name": "seer", "description": "d", "author": "a", "license": "l",
                     "version": "1.0.0", "url": "u", "timeout": 5},
        "actions": [{"action": "trace", "description": "d", "display": "always", "input": {},
                     "output": {"trace": {"description": "d", "display_as": "Trace", "type": "string"}}}],
    });
    let builder = Agent::builder(&ddl.to_string()).unwrap();
    builder
        .immediate_action("trace", &NoState, |_, cx, _: EmptyInput| {
            let trace = cx.trace.map(|trace| trace.to_string());
            TraceOutput { trace: trace.unwrap_or_default() }
        })
        .build()
        .unwrap()
}

fn to_identities(names: &[&str]) -> BTreeSet<Identity> {
    names.iter().map(|name| name.parse().unwrap()).collect()
}

fn build_call(agent: &str, action: &str, data: serde_json::Value) -> RpcCall {
    let mut call = RpcCall::new(agent, action, CallTarget::Nodes(to_identities(&[NODE]))).unwrap();
    call.data = to_object(data);
    call
}

fn stage_names(stages: &[StageTiming]) -> Vec<&'static str> {
    stages.iter().map(|stage| stage.stage.as_str()).collect()
}

#[tokio::test]
async fn traced_change_reports_every_stage() {
    let fixture = NodeFixture::new(|_| {}).await;
    let mut call = build_call("puppetral", "do", json!({"type": "group", "name": "staff"}));
    call.trace = true;
    call.traceparent = Some(TraceContext::parse(TRACEPARENT).unwrap());
    let (answers, stats) = fixture.caller.call(call).await;
    let answer = answers.first_key_value().unwrap().1;
    assert_eq!(answer.reply.statuscode, ReplyStatus::Ok);
    let stages = &answer.reply.stages;
    assert_eq!(stage_names(stages), STAGES);
    assert!(!stages.iter().any(|stage| stage.refused));
    let at_node: u64 = stages.iter().map(|stage| stage.us).sum();
    let total = u64::try_from(answer.after.as_micros()).unwrap();
    assert!(at_node > 0 && at_node <= total, "{at_node} of {total}");
    assert!(!answer.verifying.is_zero());
    assert!(!stats.signing.is_zero() && stats.signing <= stats.publishing);
    for record in fixture.node.audit_records() {
        assert_eq!(record["traceparent"], TRACEPARENT, "{record}");
    }
}

#[tokio::test]
async fn traced_refusal_reports_the_refusing_stage() {
    let fixture = NodeFixture::new(|setup| {
        let text = "policy default deny\n".to_owned();
        setup.policies = vec![("default.policy".to_owned(), text)];
    })
    .await;
    let mut call = build_call("rpcutil", "ping", json!({}));
    call.trace = true;
    let (answers, _) = fixture.caller.call(call).await;
    let reply = &answers.first_key_value().unwrap().1.reply;
    assert!(matches!(reply.reason, Some(ReplyReason::Denied { .. })));
    let refused: Vec<_> = reply.stages.iter().filter(|stage| stage.refused).collect();
    assert_eq!(refused.len(), 1, "{:?}", reply.stages);
    assert_eq!(refused[0].stage, StageName::Authorise);
    let not_reached = ["journal", "queue", "run", "check"];
    let reached = STAGES.into_iter();
    let reached: Vec<_> = reached.filter(|stage| !not_reached.contains(stage)).collect();
    assert_eq!(stage_names(&reply.stages), reached);
}

#[tokio::test]
async fn untraced_request_reports_no_stage() {
    let fixture = NodeFixture::new(|_| {}).await;
    let (answers, _) = fixture.caller.call(build_call("rpcutil", "ping", json!({}))).await;
    let reply = &answers.first_key_value().unwrap().1.reply;
    assert!(reply.stages.is_empty());
    assert!(fixture.node.audit_records()[0].get("traceparent").is_none());
}

#[tokio::test]
async fn action_receives_the_trace_context() {
    let fixture = NodeFixture::new(|setup| setup.agents = vec![build_trace_agent()]).await;
    let mut call = build_call("seer", "trace", json!({}));
    call.traceparent = Some(TraceContext::parse(TRACEPARENT).unwrap());
    let (answers, _) = fixture.caller.call(call).await;
    let reply = &answers.first_key_value().unwrap().1.reply;
    assert_eq!(reply.data["trace"], TRACEPARENT);
}

#[tokio::test]
async fn request_without_replies_runs_the_action() {
    let fixture = NodeFixture::new(|_| {}).await;
    let before = fixture.node.core.snapshot_counters().replies;
    let mut call = build_call("puppetral", "do", json!({"type": "group", "name": "staff"}));
    call.reply_delivery = ReplyDelivery::Unwanted;
    let (answers, stats) = fixture.caller.call(call).await;
    assert!(answers.is_empty() && stats.missing.is_empty());
    let group = fixture.node.root().join("etc/group");
    muster_tests::await_state("the group exists", || {
        std::fs::read_to_string(&group).is_ok_and(|text| text.contains("staff:"))
    })
    .await;
    muster_tests::await_state("the end is audited", || fixture.node.audit_records().len() == 2)
        .await;
    // A reply to the first request would have been sent before the reply to this one.
    fixture.caller.call_action(NODE, "rpcutil", "ping", json!({})).await;
    assert_eq!(fixture.node.core.snapshot_counters().replies, before + 1);
}

#[tokio::test]
async fn replies_go_only_to_addresses_of_the_same_caller() {
    let fixture = NodeFixture::new(|_| {}).await;
    let own = format!("_R.{}", fixture.caller.signer.public_key());
    let mailbox = fixture.caller.client.mailbox_address("night-shift").unwrap();
    let second = connect(&fixture.server, &fixture.caller.signer).await;
    let mut listening = second.subscribe_all(&[mailbox.subscription_pattern()]).await.unwrap();
    let mut call = build_call("rpcutil", "ping", json!({}));
    call.reply_delivery = ReplyDelivery::Elsewhere(mailbox);
    let (answers, stats) = fixture.caller.call(call.clone()).await;
    assert!(answers.is_empty());
    let message =
        tokio::time::timeout(NETWORK_TIMEOUT, listening[0].next()).await.unwrap().unwrap();
    let body = String::from_utf8_lossy(message.payload()).into_owned();
    assert!(body.contains(&stats.request.to_string()), "{body}");

    for foreign in [
        "_R.UAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA.x",
        "muster.rpcutil.ping.all",
        &own,
        &format!("{own}x.y"),
        &format!("{own}.>"),
        &format!("{own}..x"),
        &format!("{own}.a.b"),
        &format!("{own}.a b"),
        "a b",
        "",
    ] {
        match fixture.caller.client.mailbox_address(foreign) {
            Err(ClientError::ForeignInbox { .. }) => {}
            other => panic!("{foreign}: {other:?}"),
        }
    }
    // The address of another caller is refused too if the client did not create it.
    let anna = fixture.organisation.caller("anna").public_key().to_string();
    call.reply_delivery =
        ReplyDelivery::Elsewhere(AnswerAddress::of_word(&anna, "night-shift").unwrap());
    let mut events = fixture.caller.client.call(call.clone());
    match events.next().await.unwrap() {
        CallEvent::Failed(ClientError::ForeignInbox { .. }) => {}
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn call_ends_after_the_expected_number_of_replies() {
    let fixture = NodeFixture::new(|_| {}).await;
    // The node is connected, but sends no reply.
    let silent = fixture.organisation.node("silent.example.net");
    let bus = connect(&fixture.server, &silent).await;
    let subjects =
        subject::node_subscriptions(fixture.organisation.collective(), silent.identity());
    let _subscriptions = bus.subscribe_all(&subjects).await.unwrap();
    let targets = to_identities(&[NODE, "silent.example.net"]);
    let mut call = RpcCall::new("rpcutil", "ping", CallTarget::Nodes(targets)).unwrap();
    call.wait = Duration::from_secs(2000);
    call.expect = Some(1);
    let (answers, stats) = fixture.caller.call(call).await;
    assert_eq!((answers.len(), stats.ok), (1, 1));
    assert_eq!(stats.missing, to_identities(&["silent.example.net"]));
}

#[tokio::test]
async fn busy_node_does_not_delay_others() {
    let NodeFixture { organisation, server, node: _first, caller } = NodeFixture::new(|_| {}).await;
    let mut others = Vec::new();
    for name in ["node2.example.net", "node3.example.net"] {
        let setup = NodeSetup::new(organisation.node(name));
        others.push(TestNode::start(&organisation, &server, setup).await);
    }
    let busy = NodeSetup {
        limits: muster_host::CallLimits {
            concurrency: 0,
            queue: 0,
            ..muster_host::CallLimits::default()
        },
        ..NodeSetup::new(organisation.node("busy.example.net"))
    };
    others.push(TestNode::start(&organisation, &server, busy).await);
    let all = to_identities(&[NODE, "busy.example.net", "node2.example.net", "node3.example.net"]);
    let mut call = RpcCall::new("rpcutil", "ping", CallTarget::Nodes(all)).unwrap();
    call.wait = Duration::from_secs(2000);
    call.trace = true;
    let (answers, stats) = caller.call(call).await;
    assert_eq!((stats.ok, stats.failed, stats.missing.len()), (3, 1, 0));
    let refused = &answers[&"busy.example.net".parse::<Identity>().unwrap()].reply;
    assert!(matches!(refused.reason, Some(ReplyReason::Busy { .. })));
    let last = refused.stages.iter().find(|stage| stage.refused).unwrap();
    assert_eq!(last.stage, StageName::Queue);
}
