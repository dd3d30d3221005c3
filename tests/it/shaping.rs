//! Requests that are followed, that want no answer, that want it elsewhere, or that want no more than so many.

use std::collections::BTreeSet;

use muster_api::{ActionError, Agent, AgentAction, CallContext};
use muster_client::{CallEvent, CallTarget, ClientError, ReplyDelivery, RpcCall};
use muster_tests::fleet::{NodeSetup, TestNode};
use muster_tests::nats_server::PATIENCE;
use muster_tests::organisation::connect;
use muster_wire::identity::Identity;
use muster_wire::status::{ReplyReason, ReplyStatus};
use muster_wire::subject::{self, AnswerAddress};
use muster_wire::trace::{StageName, StageTiming, TraceContext};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::ask::{NodeFixture, to_object};

const NODE: &str = "node1.example.net";
/// What a node does with a request that changes something, in order.
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
const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// Answers the trace that its call is part of.
struct Trace;

#[derive(Deserialize)]
struct Nothing {}

#[derive(Serialize)]
struct Seen {
    trace: String,
}

impl AgentAction for Trace {
    const NAME: &'static str = "trace";
    type Input = Nothing;
    type Output = Seen;
    async fn run(&self, cx: &CallContext, _: Nothing) -> Result<Seen, ActionError> {
        let trace = cx.trace.map(|trace| trace.to_string());
        Ok(Seen { trace: trace.unwrap_or_default() })
    }
}

fn seer() -> Agent {
    let ddl = json!({
        "metadata": {"name": "seer", "description": "d", "author": "a", "license": "l",
                     "version": "1.0.0", "url": "u", "timeout": 5},
        "actions": [{"action": "trace", "description": "d", "display": "always", "input": {},
                     "output": {"trace": {"description": "d", "display_as": "Trace", "type": "string"}}}],
    });
    let builder = Agent::builder(&ddl.to_string()).unwrap();
    builder.with_action(Trace).build().unwrap()
}

fn nodes(names: &[&str]) -> BTreeSet<Identity> {
    names.iter().map(|name| name.parse().unwrap()).collect()
}

fn call(agent: &str, action: &str, data: serde_json::Value) -> RpcCall {
    let mut call = RpcCall::new(agent, action, CallTarget::Nodes(nodes(&[NODE]))).unwrap();
    call.data = to_object(data);
    call
}

fn names(stages: &[StageTiming]) -> Vec<&'static str> {
    stages.iter().map(|stage| stage.stage.as_str()).collect()
}

#[tokio::test]
async fn a_change_that_is_followed_tells_every_stage() {
    let fixture = NodeFixture::new(|_| {}).await;
    let mut asked = call("puppetral", "do", json!({"type": "group", "name": "staff"}));
    asked.trace = true;
    asked.traceparent = Some(TraceContext::parse(TRACE).unwrap());
    let (answers, stats) = fixture.caller.call(asked).await;
    let answer = answers.first_key_value().unwrap().1;
    assert_eq!(answer.reply.statuscode, ReplyStatus::Ok);
    let stages = &answer.reply.stages;
    assert_eq!(names(stages), STAGES);
    assert!(!stages.iter().any(|stage| stage.refused));
    let at_node: u64 = stages.iter().map(|stage| stage.us).sum();
    let whole = u64::try_from(answer.after.as_micros()).unwrap();
    assert!(at_node > 0 && at_node <= whole, "{at_node} of {whole}");
    assert!(!answer.verifying.is_zero());
    assert!(!stats.signing.is_zero() && stats.signing <= stats.publishing);
    for record in fixture.node.audit() {
        assert_eq!(record["traceparent"], TRACE, "{record}");
    }
}

#[tokio::test]
async fn a_refusal_shows_where_it_ended() {
    let fixture = NodeFixture::new(|setup| {
        let text = "policy default deny\n".to_owned();
        setup.policies = vec![("default.policy".to_owned(), text)];
    })
    .await;
    let mut asked = call("rpcutil", "ping", json!({}));
    asked.trace = true;
    let (answers, _) = fixture.caller.call(asked).await;
    let reply = &answers.first_key_value().unwrap().1.reply;
    assert!(matches!(reply.reason, Some(ReplyReason::Denied { .. })));
    let refused: Vec<_> = reply.stages.iter().filter(|stage| stage.refused).collect();
    assert_eq!(refused.len(), 1, "{:?}", reply.stages);
    assert_eq!(refused[0].stage, StageName::Authorise);
    let not_reached = ["journal", "queue", "run", "check"];
    let reached = STAGES.into_iter();
    let reached: Vec<_> = reached.filter(|stage| !not_reached.contains(stage)).collect();
    assert_eq!(names(&reply.stages), reached);
}

#[tokio::test]
async fn a_request_that_is_not_followed_tells_no_stage() {
    let fixture = NodeFixture::new(|_| {}).await;
    let (answers, _) = fixture.caller.call(call("rpcutil", "ping", json!({}))).await;
    let reply = &answers.first_key_value().unwrap().1.reply;
    assert!(reply.stages.is_empty());
    assert!(fixture.node.audit()[0].get("traceparent").is_none());
}

#[tokio::test]
async fn an_action_knows_the_trace_that_it_is_part_of() {
    let fixture = NodeFixture::new(|setup| setup.agents = vec![seer()]).await;
    let mut asked = call("seer", "trace", json!({}));
    asked.traceparent = Some(TraceContext::parse(TRACE).unwrap());
    let (answers, _) = fixture.caller.call(asked).await;
    let reply = &answers.first_key_value().unwrap().1.reply;
    assert_eq!(reply.data["trace"], TRACE);
}

#[tokio::test]
async fn who_wants_no_answer_gets_none_and_the_action_is_run() {
    let fixture = NodeFixture::new(|_| {}).await;
    let before = fixture.node.core.snapshot_counters().replies;
    let mut asked = call("puppetral", "do", json!({"type": "group", "name": "staff"}));
    asked.reply_delivery = ReplyDelivery::Unwanted;
    let (answers, stats) = fixture.caller.call(asked).await;
    assert!(answers.is_empty() && stats.missing.is_empty());
    let group = fixture.node.root().join("etc/group");
    muster_tests::await_state("the group is there", || {
        std::fs::read_to_string(&group).is_ok_and(|text| text.contains("staff:"))
    })
    .await;
    muster_tests::await_state("the end is on record", || fixture.node.audit().len() == 2).await;
    // The node's answer to a later question would come after one to this.
    fixture.caller.call_action(NODE, "rpcutil", "ping", json!({})).await;
    assert_eq!(fixture.node.core.snapshot_counters().replies, before + 1);
}

#[tokio::test]
async fn answers_may_go_to_another_process_of_the_same_caller_and_to_nobody_else() {
    let fixture = NodeFixture::new(|_| {}).await;
    let own = format!("_R.{}", fixture.caller.signer.public_key());
    let elsewhere = fixture.caller.client.mailbox_address("night-shift").unwrap();
    let second = connect(&fixture.server, &fixture.caller.signer).await;
    let mut listening = second.subscribe_all(&[elsewhere.subscription_pattern()]).await.unwrap();
    let mut asked = call("rpcutil", "ping", json!({}));
    asked.reply_delivery = ReplyDelivery::Elsewhere(elsewhere);
    let (answers, stats) = fixture.caller.call(asked.clone()).await;
    assert!(answers.is_empty());
    let message = tokio::time::timeout(PATIENCE, listening[0].next()).await.unwrap().unwrap();
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
    // An address of another caller is refused as well when it was made elsewhere.
    let anna = fixture.organisation.caller("anna").public_key().to_string();
    asked.reply_delivery =
        ReplyDelivery::Elsewhere(AnswerAddress::of_word(&anna, "night-shift").unwrap());
    let mut events = fixture.caller.client.call(asked.clone());
    match events.next().await.unwrap() {
        CallEvent::Failed(ClientError::ForeignInbox { .. }) => {}
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_call_ends_when_as_many_have_answered_as_were_wanted() {
    let fixture = NodeFixture::new(|_| {}).await;
    // It is connected, and will never answer.
    let silent = fixture.organisation.node("silent.example.net");
    let bus = connect(&fixture.server, &silent).await;
    let subjects =
        subject::node_subscriptions(fixture.organisation.collective(), silent.identity());
    let _held = bus.subscribe_all(&subjects).await.unwrap();
    let asked = nodes(&[NODE, "silent.example.net"]);
    let mut call = RpcCall::new("rpcutil", "ping", CallTarget::Nodes(asked)).unwrap();
    call.wait = PATIENCE * 100;
    call.expect = Some(1);
    let (answers, stats) = fixture.caller.call(call).await;
    assert_eq!((answers.len(), stats.ok), (1, 1));
    assert_eq!(stats.missing, nodes(&["silent.example.net"]));
}

#[tokio::test]
async fn one_busy_node_holds_up_nobody_else() {
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
    let all = nodes(&[NODE, "busy.example.net", "node2.example.net", "node3.example.net"]);
    let mut call = RpcCall::new("rpcutil", "ping", CallTarget::Nodes(all)).unwrap();
    call.wait = PATIENCE * 100;
    call.trace = true;
    let (answers, stats) = caller.call(call).await;
    assert_eq!((stats.ok, stats.failed, stats.missing.len()), (3, 1, 0));
    let refused = &answers[&"busy.example.net".parse::<Identity>().unwrap()].reply;
    assert!(matches!(refused.reason, Some(ReplyReason::Busy { .. })));
    let last = refused.stages.iter().find(|stage| stage.refused).unwrap();
    assert_eq!(last.stage, StageName::Queue);
}
