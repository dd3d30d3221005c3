//! `rpc stats`: messages that a daemon refuses without a reply are counted and shown.

use muster_filter::NodeFilter;
use muster_tests::command::RpcCommand;
use muster_tests::now;
use muster_wire::identity::SubjectName;
use muster_wire::request::{Request, RequestTarget};
use muster_wire::sign::{EnvelopeKind, sign_envelope};
use muster_wire::subject;
use serde_json::Value;

use crate::node_fixture::{NodeFixture, TestCaller};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a8_3_silently_refused_messages_are_counted_and_shown() {
    let fixture = NodeFixture::new(|_| {}).await;
    let caller = &fixture.caller;
    let signer = fixture.organisation.caller("anna");
    let rpc = RpcCommand::new(&fixture.server, &fixture.organisation, &signer, "");
    let fetch_counts = async || {
        let (document, code) = rpc.run_json(&["stats"]).await;
        assert_eq!(code, 0, "{document:#}");
        document["nodes"][0].clone()
    };
    let before = fetch_counts().await;

    let good = caller.ping_request();
    let to = TestCaller::request_subject(&good);
    let foreign_caller = muster_tests::organisation::Organisation::new(&["muster"]).caller("rip");
    let forged = sign_envelope(EnvelopeKind::Request, &good, &foreign_caller).unwrap();
    let text = String::from_utf8(caller.sign_request(&good).to_vec()).unwrap();
    let broken = text.replace("\"ttl\":60000", "\"ttl\":60001");
    let other_collective = caller.sign_request(&Request {
        collective: SubjectName::parse("other").unwrap(),
        ..good.clone()
    });
    for payload in [forged.into(), broken.into(), other_collective] {
        assert_eq!(caller.count_replies(&to, payload).await, 0);
    }

    let stale = Request { issued_at: now() - 3_600_000, ..caller.ping_request() };
    caller.send(&stale).await;

    let once = caller.ping_request();
    caller.send(&once).await;
    assert_eq!(caller.count_replies(&to, caller.sign_request(&once)).await, 0);

    let no_node = NodeFilter::default().with_class("nobody").unwrap();
    let unmatched = Request { target: RequestTarget::Filter(no_node), ..caller.ping_request() };
    let subject =
        subject::broadcast_request(&unmatched.collective, &unmatched.agent, &unmatched.action);
    let envelope = caller.sign_request(&unmatched);
    assert_eq!(caller.count_replies(&subject, envelope).await, 0);

    let after = fetch_counts().await;
    let more = |name: &str| number(&after, name) - number(&before, name);
    assert_eq!(more("refused"), 3, "{before} {after}");
    assert_eq!(more("expired"), 1, "{before} {after}");
    assert_eq!(more("replayed"), 1, "{before} {after}");
    assert_eq!(more("others"), 1, "{before} {after}");
    let text = rpc.run(&["stats"]).await;
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("REPLAYED") && text.contains("node1.example.net"), "{text}");
}

fn number(counts: &Value, name: &str) -> u64 {
    counts[name].as_u64().unwrap()
}
