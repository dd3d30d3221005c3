//! Sensitive inputs are encrypted for each node, so that they are not visible in the broker's traffic.

use std::collections::BTreeSet;

use muster_calls::{CallEvent, CallTarget, ClientError, RpcCall};
use muster_filter::NodeFilter;
use muster_tests::fleet::{NodeSetup, TestNode};
use muster_tests::nats_server::NETWORK_TIMEOUT;
use muster_wire::encrypted_inputs::InputEncryptor;
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::request::RequestTarget;
use muster_wire::status::ReplyStatus;
use muster_wire::token::PublicKey;
use serde_json::json;
use uuid::Uuid;

use crate::node_fixture::{NodeFixture, to_object};

const PASSWORD: &str = "$6$very$secretindeed";
const NODES: [&str; 2] = ["node1.example.net", "node2.example.net"];

fn parse_identity(name: &str) -> Identity {
    Identity::parse(name).unwrap()
}

/// A call that changes a password. As in `rpc`, the sensitive inputs are listed from the schema.
fn password_call(target: CallTarget) -> RpcCall {
    let mut call = RpcCall::new("puppetral", "do", target).unwrap();
    call.data = to_object(json!({"type": "user", "name": "rip", "password": PASSWORD}));
    call.sensitive = BTreeSet::from(["password".to_owned()]);
    call
}

fn both_nodes() -> CallTarget {
    CallTarget::Nodes(NODES.map(parse_identity).into())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a10_6_broker_traffic_contains_no_password_and_nodes_decrypt_it() {
    let fixture = NodeFixture::new(|_| {}).await;
    let second = NodeSetup::new(fixture.organisation.node(NODES[1]));
    let second = TestNode::start(&fixture.organisation, &fixture.server, second).await;
    let (_spy, mut captured) = fixture.organisation.subscribe_all(&fixture.server).await;
    let (answers, stats) = fixture.caller.call(password_call(both_nodes())).await;
    assert!(stats.missing.is_empty(), "{stats:?}");
    for (node, answer) in &answers {
        assert_eq!(answer.reply.statuscode, ReplyStatus::Ok, "{node}: {answer:?}");
    }
    for node in [&fixture.node, &second] {
        let shadow = std::fs::read_to_string(node.root().join("etc/shadow")).unwrap();
        assert!(shadow.contains(PASSWORD));
        let audit = serde_json::to_string(&node.audit_records()).unwrap();
        assert!(!audit.contains(PASSWORD) && audit.contains("[redacted]"), "{audit}");
    }
    // The check is valid only if the requests are among the captured messages.
    let mut requests = 0;
    while requests < 2 {
        let message = tokio::time::timeout(NETWORK_TIMEOUT, captured.next()).await;
        let message = message.unwrap().unwrap();
        let text = String::from_utf8_lossy(message.payload()).into_owned();
        assert!(!text.contains("secretindeed"), "{text}");
        requests += usize::from(text.contains("\"sealed\":{") && text.contains("puppetral"));
    }
}

/// Sends a hand-made request to `node1` whose password is encrypted with this key for this node's name.
async fn send_encrypted(
    fixture: &NodeFixture,
    key: PublicKey,
    other_request: bool,
    tamper: impl FnOnce(String) -> String,
) -> (ReplyStatus, String) {
    let mut request = fixture.caller.ping_request();
    request.agent = SubjectName::parse("puppetral").unwrap();
    request.action = SubjectName::parse("do").unwrap();
    request.target = RequestTarget::Nodes([parse_identity(NODES[0])].into());
    request.data = to_object(json!({"type": "user", "name": "rip"}));
    let id = if other_request { Uuid::now_v7() } else { request.id };
    let secret = to_object(json!({"password": PASSWORD}));
    let encrypted = InputEncryptor::new(id)
        .unwrap()
        .encrypt_inputs([(&parse_identity(NODES[0]), &key)], &secret);
    let text = tamper(serde_json::to_string(&encrypted.unwrap()).unwrap());
    request.sealed = Some(serde_json::from_str(&text).unwrap());
    let reply = fixture.caller.send(&request).await;
    (reply.statuscode, reply.statusmsg.raw().to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inputs_encrypted_for_others_or_altered_are_refused() {
    let fixture = NodeFixture::new(|_| {}).await;
    let own = fixture.node.core.trust.signer.public_key();
    let other = fixture.organisation.node(NODES[1]).public_key();
    let flip = |text: String| {
        let at = text.rfind("\"}").unwrap() - 4;
        let (before, rest) = text.split_at(at);
        let changed = if rest.starts_with('A') { "B" } else { "A" };
        format!("{before}{changed}{}", rest.split_at(1).1)
    };
    let other = send_encrypted(&fixture, other, false, |text| text).await;
    let other_request = send_encrypted(&fixture, own, true, |text| text).await;
    let altered = send_encrypted(&fixture, own, false, flip).await;
    for (status, message) in [other, other_request, altered] {
        assert_eq!(status, ReplyStatus::InvalidData, "{message}");
        assert!(message.contains("cannot decrypt the input `password`"), "{message}");
        assert!(!message.contains(PASSWORD));
    }
    let (status, message) = send_encrypted(&fixture, own, false, |text| text).await;
    assert_eq!(status, ReplyStatus::Ok, "{message}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broadcast_with_a_secret_fails_and_absent_node_is_missing() {
    let fixture = NodeFixture::new(|_| {}).await;
    let broadcast = password_call(CallTarget::Filter(NodeFilter::default()));
    let mut events = fixture.caller.client.call(broadcast);
    let Some(CallEvent::Failed(error)) = events.next().await else {
        panic!("a secret was broadcast");
    };
    assert!(matches!(error, ClientError::SecretBroadcast { .. }), "{error}");
    // The second node is not connected.
    let (answers, stats) = fixture.caller.call(password_call(both_nodes())).await;
    assert_eq!(answers.len(), 1);
    assert_eq!(stats.missing, [parse_identity(NODES[1])].into());
    assert_eq!(stats.expected, Some(2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plain_secret_is_refused_unless_configured() {
    for (plain_secrets, expected) in [(false, ReplyStatus::InvalidData), (true, ReplyStatus::Ok)] {
        let fixture = NodeFixture::new(|setup| setup.plain_secrets = plain_secrets).await;
        let mut unencrypted = password_call(CallTarget::Nodes([parse_identity(NODES[0])].into()));
        unencrypted.sensitive.clear();
        let (answers, _) = fixture.caller.call(unencrypted).await;
        let reply = &answers[&parse_identity(NODES[0])].reply;
        assert_eq!(reply.statuscode, expected, "{reply:?}");
        let refused = reply.statusmsg.raw().contains("`password` is sensitive");
        assert_eq!(refused, !plain_secrets, "{reply:?}");
        let audit = serde_json::to_string(&fixture.node.audit_records()).unwrap();
        assert!(!audit.contains(PASSWORD), "{audit}");
        let shadow = std::fs::read_to_string(fixture.node.root().join("etc/shadow"));
        let changed = shadow.is_ok_and(|text| text.contains(PASSWORD));
        assert_eq!(changed, plain_secrets);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn input_given_encrypted_and_plain_is_refused() {
    let fixture = NodeFixture::new(|setup| setup.plain_secrets = true).await;
    let mut request = fixture.caller.ping_request();
    request.agent = SubjectName::parse("puppetral").unwrap();
    request.action = SubjectName::parse("do").unwrap();
    request.target = RequestTarget::Nodes([parse_identity(NODES[0])].into());
    request.data = to_object(json!({"type": "user", "name": "rip", "password": "$6$other"}));
    let encryptor = InputEncryptor::new(request.id).unwrap();
    let key = fixture.node.core.trust.signer.public_key();
    let secret = to_object(json!({"password": PASSWORD}));
    let both = encryptor.encrypt_inputs([(&parse_identity(NODES[0]), &key)], &secret);
    request.sealed = Some(both.unwrap());
    let reply = fixture.caller.send(&request).await;
    assert_eq!(reply.statuscode, ReplyStatus::InvalidData);
    assert!(reply.statusmsg.raw().contains("is given twice"), "{reply:?}");
}
