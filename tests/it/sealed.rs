//! Sensitive inputs on the way: sealed for each node, so that whoever sees the broker's traffic does not see them.

use std::collections::BTreeSet;

use muster_client::{CallEvent, CallTarget, ClientError, RpcCall};
use muster_filter::NodeFilter;
use muster_tests::fleet::{Blueprint, TestNode};
use muster_tests::nats_server::PATIENCE;
use muster_wire::encrypted_inputs::InputEncryptor;
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::request::RequestTarget;
use muster_wire::status::ReplyStatus;
use muster_wire::token::PublicKey;
use serde_json::json;
use uuid::Uuid;

use crate::ask::{World, object};

const PASSWORD: &str = "$6$very$secretindeed";
const NODES: [&str; 2] = ["node1.example.net", "node2.example.net"];

fn identity(name: &str) -> Identity {
    Identity::parse(name).unwrap()
}

/// A call that changes a password, as `rpc` makes it: it knows from the schema what is sensitive.
fn change(aim: CallTarget) -> RpcCall {
    let mut call = RpcCall::new("puppetral", "do", aim).unwrap();
    call.data = object(json!({"type": "user", "name": "rip", "password": PASSWORD}));
    call.sensitive = BTreeSet::from(["password".to_owned()]);
    call
}

fn known() -> CallTarget {
    CallTarget::Nodes(NODES.map(identity).into())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_broker_carries_never_holds_the_password_and_every_node_reads_it() {
    let world = World::new(|_| {}).await;
    let second = Blueprint::new(world.organisation.node(NODES[1]));
    let second = TestNode::start(&world.organisation, &world.server, second).await;
    let (_spy, mut captured) = world.organisation.spy(&world.server).await;
    let (answers, stats) = world.caller.call(change(known())).await;
    assert!(stats.missing.is_empty(), "{stats:?}");
    for (node, answer) in &answers {
        assert_eq!(answer.reply.statuscode, ReplyStatus::Ok, "{node}: {answer:?}");
    }
    for node in [&world.node, &second] {
        let shadow = std::fs::read_to_string(node.root().join("etc/shadow")).unwrap();
        assert!(shadow.contains(PASSWORD));
        let audit = serde_json::to_string(&node.audit()).unwrap();
        assert!(!audit.contains(PASSWORD) && audit.contains("[redacted]"), "{audit}");
    }
    // The requests themselves must be among what was seen, or nothing is shown.
    let mut requests = 0;
    while requests < 2 {
        let message = tokio::time::timeout(PATIENCE, captured.next()).await;
        let message = message.unwrap().unwrap();
        let text = String::from_utf8_lossy(message.payload()).into_owned();
        assert!(!text.contains("secretindeed"), "{text}");
        requests += usize::from(text.contains("\"sealed\":{") && text.contains("puppetral"));
    }
}

/// A request by hand to `node1`, whose password is sealed with this key for this node's name.
async fn answer(
    world: &World,
    key: PublicKey,
    moved: bool,
    tamper: impl FnOnce(String) -> String,
) -> (ReplyStatus, String) {
    let mut request = world.caller.request();
    request.agent = SubjectName::parse("puppetral").unwrap();
    request.action = SubjectName::parse("do").unwrap();
    request.target = RequestTarget::Nodes([identity(NODES[0])].into());
    request.data = object(json!({"type": "user", "name": "rip"}));
    let id = if moved { Uuid::now_v7() } else { request.id };
    let secret = object(json!({"password": PASSWORD}));
    let sealed =
        InputEncryptor::new(id).unwrap().encrypt_inputs([(&identity(NODES[0]), &key)], &secret);
    let text = tamper(serde_json::to_string(&sealed.unwrap()).unwrap());
    request.sealed = Some(serde_json::from_str(&text).unwrap());
    let reply = world.caller.send(&request).await;
    (reply.statuscode, reply.statusmsg)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_sealed_for_another_node_or_request_or_altered_is_refused_in_words() {
    let world = World::new(|_| {}).await;
    let own = world.node.core.signer.public_key();
    let other = world.organisation.node(NODES[1]).public_key();
    let flip = |text: String| {
        let at = text.rfind("\"}").unwrap() - 4;
        let (before, rest) = text.split_at(at);
        let changed = if rest.starts_with('A') { "B" } else { "A" };
        format!("{before}{changed}{}", rest.split_at(1).1)
    };
    let other = answer(&world, other, false, |text| text).await;
    let moved = answer(&world, own, true, |text| text).await;
    let altered = answer(&world, own, false, flip).await;
    for (status, message) in [other, moved, altered] {
        assert_eq!(status, ReplyStatus::InvalidData, "{message}");
        assert!(message.contains("cannot decrypt the input `password`"), "{message}");
        assert!(!message.contains(PASSWORD));
    }
    let (status, message) = answer(&world, own, false, |text| text).await;
    assert_eq!(status, ReplyStatus::Ok, "{message}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broadcast_with_a_secret_is_not_sent_and_a_node_without_a_key_is_missing() {
    let world = World::new(|_| {}).await;
    let everybody = change(CallTarget::Filter(NodeFilter::default()));
    let mut events = world.caller.client.call(everybody);
    let Some(CallEvent::Failed(error)) = events.next().await else {
        panic!("a secret was broadcast");
    };
    assert!(matches!(error, ClientError::SecretBroadcast { .. }), "{error}");
    // The second node is not there.
    let (answers, stats) = world.caller.call(change(known())).await;
    assert_eq!(answers.len(), 1);
    assert_eq!(stats.missing, [identity(NODES[1])].into());
    assert_eq!(stats.expected, Some(2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_in_clear_is_refused_unless_the_node_is_told_to_take_it() {
    for (plain_secrets, expected) in [(false, ReplyStatus::InvalidData), (true, ReplyStatus::Ok)] {
        let world = World::new(|blueprint| blueprint.plain_secrets = plain_secrets).await;
        let mut careless = change(CallTarget::Nodes([identity(NODES[0])].into()));
        careless.sensitive.clear();
        let (answers, _) = world.caller.call(careless).await;
        let reply = &answers[&identity(NODES[0])].reply;
        assert_eq!(reply.statuscode, expected, "{reply:?}");
        let refused = reply.statusmsg.contains("`password` is sensitive");
        assert_eq!(refused, !plain_secrets, "{reply:?}");
        let audit = serde_json::to_string(&world.node.audit()).unwrap();
        assert!(!audit.contains(PASSWORD), "{audit}");
        let shadow = std::fs::read_to_string(world.node.root().join("etc/shadow"));
        let changed = shadow.is_ok_and(|text| text.contains(PASSWORD));
        assert_eq!(changed, plain_secrets);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_input_that_came_sealed_and_in_clear_is_refused() {
    let world = World::new(|blueprint| blueprint.plain_secrets = true).await;
    let mut request = world.caller.request();
    request.agent = SubjectName::parse("puppetral").unwrap();
    request.action = SubjectName::parse("do").unwrap();
    request.target = RequestTarget::Nodes([identity(NODES[0])].into());
    request.data = object(json!({"type": "user", "name": "rip", "password": "$6$other"}));
    let sealer = InputEncryptor::new(request.id).unwrap();
    let key = world.node.core.signer.public_key();
    let secret = object(json!({"password": PASSWORD}));
    let both = sealer.encrypt_inputs([(&identity(NODES[0]), &key)], &secret);
    request.sealed = Some(both.unwrap());
    let reply = world.caller.send(&request).await;
    assert_eq!(reply.statuscode, ReplyStatus::InvalidData);
    assert!(reply.statusmsg.contains("is given twice"), "{reply:?}");
}
