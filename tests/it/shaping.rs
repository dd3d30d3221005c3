//! Requests that are followed, that want no answer, that want it elsewhere, or that want no more than so many.

use std::collections::BTreeSet;

use muster_api::{Agent, CallContext, EmptyInput, NoState};
use muster_client::{CallEvent, CallTarget, ClientError, ReplyDelivery, RpcCall};
use muster_tests::fleet::{Blueprint, TestNode};
use muster_tests::nats_server::PATIENCE;
use muster_tests::organisation::connect;
use muster_wire::identity::Identity;
use muster_wire::status::{ReplyReason, ReplyStatus};
use muster_wire::subject::{self, AnswerAddress};
use muster_wire::trace::{StageName, StageTiming, TraceContext};
use serde::Serialize;
use serde_json::json;

use crate::ask::{World, object};

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

#[derive(Serialize)]
struct Seen {
    trace: String,
}

/// Answers the trace that its call is part of.
fn tell_trace(_: &NoState, cx: &CallContext, _: EmptyInput) -> Seen {
    Seen { trace: cx.trace.map(|trace| trace.to_string()).unwrap_or_default() }
}

fn seer() -> Agent {
    let ddl = json!({
        "metadata": {"name": "seer", "description": "d", "author": "a", "license": "l",
                     "version": "1.0.0", "url": "u", "timeout": 5},
        "actions": [{"action": "trace", "description": "d", "display": "always", "input": {},
                     "output": {"trace": {"description": "d", "display_as": "Trace", "type": "string"}}}],
    });
    let builder = Agent::builder(&ddl.to_string()).unwrap();
    builder.immediate_action("trace", &NoState, tell_trace).build().unwrap()
}

fn nodes(names: &[&str]) -> BTreeSet<Identity> {
    names.iter().map(|name| name.parse().unwrap()).collect()
}

fn call(agent: &str, action: &str, data: serde_json::Value) -> RpcCall {
    let mut call = RpcCall::new(agent, action, CallTarget::Nodes(nodes(&[NODE]))).unwrap();
    call.data = object(data);
    call
}

fn names(stages: &[StageTiming]) -> Vec<&'static str> {
    stages.iter().map(|stage| stage.stage.as_str()).collect()
}

#[tokio::test]
async fn a_change_that_is_followed_tells_every_stage() {
    let world = World::new(|_| {}).await;
    let mut asked = call("puppetral", "do", json!({"type": "group", "name": "staff"}));
    asked.trace = true;
    asked.traceparent = Some(TraceContext::parse(TRACE).unwrap());
    let (answers, stats) = world.caller.call(asked).await;
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
    for record in world.node.audit() {
        assert_eq!(record["traceparent"], TRACE, "{record}");
    }
}

#[tokio::test]
async fn a_refusal_shows_where_it_ended() {
    let world = World::new(|blueprint| {
        let text = "policy default deny\n".to_owned();
        blueprint.policies = vec![("default.policy".to_owned(), text)];
    })
    .await;
    let mut asked = call("rpcutil", "ping", json!({}));
    asked.trace = true;
    let (answers, _) = world.caller.call(asked).await;
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
    let world = World::new(|_| {}).await;
    let (answers, _) = world.caller.call(call("rpcutil", "ping", json!({}))).await;
    let reply = &answers.first_key_value().unwrap().1.reply;
    assert!(reply.stages.is_empty());
    assert!(world.node.audit()[0].get("traceparent").is_none());
}

#[tokio::test]
async fn an_action_knows_the_trace_that_it_is_part_of() {
    let world = World::new(|blueprint| blueprint.agents = vec![seer()]).await;
    let mut asked = call("seer", "trace", json!({}));
    asked.traceparent = Some(TraceContext::parse(TRACE).unwrap());
    let (answers, _) = world.caller.call(asked).await;
    let reply = &answers.first_key_value().unwrap().1.reply;
    assert_eq!(reply.data["trace"], TRACE);
}

#[tokio::test]
async fn who_wants_no_answer_gets_none_and_the_action_is_run() {
    let world = World::new(|_| {}).await;
    let before = world.node.core.snapshot_counters().replies;
    let mut asked = call("puppetral", "do", json!({"type": "group", "name": "staff"}));
    asked.reply_delivery = ReplyDelivery::Unwanted;
    let (answers, stats) = world.caller.call(asked).await;
    assert!(answers.is_empty() && stats.missing.is_empty());
    let group = world.node.root().join("etc/group");
    muster_tests::await_state("the group is there", || {
        std::fs::read_to_string(&group).is_ok_and(|text| text.contains("staff:"))
    })
    .await;
    muster_tests::await_state("the end is on record", || world.node.audit().len() == 2).await;
    // The node's answer to a later question would come after one to this.
    world.caller.ask(NODE, "rpcutil", "ping", json!({})).await;
    assert_eq!(world.node.core.snapshot_counters().replies, before + 1);
}

#[tokio::test]
async fn answers_may_go_to_another_process_of_the_same_caller_and_to_nobody_else() {
    let world = World::new(|_| {}).await;
    let own = format!("_R.{}", world.caller.signer.public_key());
    let elsewhere = world.caller.client.mailbox_address("night-shift").unwrap();
    let second = connect(&world.server, &world.caller.signer).await;
    let mut listening = second.subscribe_all(&[elsewhere.subscription_pattern()]).await.unwrap();
    let mut asked = call("rpcutil", "ping", json!({}));
    asked.reply_delivery = ReplyDelivery::Elsewhere(elsewhere);
    let (answers, stats) = world.caller.call(asked.clone()).await;
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
        match world.caller.client.mailbox_address(foreign) {
            Err(ClientError::ForeignInbox { .. }) => {}
            other => panic!("{foreign}: {other:?}"),
        }
    }
    // An address of another caller is refused as well when it was made elsewhere.
    let anna = world.organisation.caller("anna").public_key().to_string();
    asked.reply_delivery =
        ReplyDelivery::Elsewhere(AnswerAddress::of_word(&anna, "night-shift").unwrap());
    let mut events = world.caller.client.call(asked.clone());
    match events.next().await.unwrap() {
        CallEvent::Failed(ClientError::ForeignInbox { .. }) => {}
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_call_ends_when_as_many_have_answered_as_were_wanted() {
    let world = World::new(|_| {}).await;
    // It is connected, and will never answer.
    let silent = world.organisation.node("silent.example.net");
    let bus = connect(&world.server, &silent).await;
    let subjects = subject::node_subscriptions(world.organisation.collective(), silent.identity());
    let _held = bus.subscribe_all(&subjects).await.unwrap();
    let asked = nodes(&[NODE, "silent.example.net"]);
    let mut call = RpcCall::new("rpcutil", "ping", CallTarget::Nodes(asked)).unwrap();
    call.wait = PATIENCE * 100;
    call.expect = Some(1);
    let (answers, stats) = world.caller.call(call).await;
    assert_eq!((answers.len(), stats.ok), (1, 1));
    assert_eq!(stats.missing, nodes(&["silent.example.net"]));
}

#[tokio::test]
async fn one_busy_node_holds_up_nobody_else() {
    let World { organisation, server, node: _first, caller } = World::new(|_| {}).await;
    let mut others = Vec::new();
    for name in ["node2.example.net", "node3.example.net"] {
        let blueprint = Blueprint::new(organisation.node(name));
        others.push(TestNode::start(&organisation, &server, blueprint).await);
    }
    let busy = Blueprint {
        limits: muster_host::CallLimits {
            concurrency: 0,
            queue: 0,
            ..muster_host::CallLimits::default()
        },
        ..Blueprint::new(organisation.node("busy.example.net"))
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
