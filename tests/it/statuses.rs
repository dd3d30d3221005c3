//! The status codes of real requests, policies, filters, and missing nodes.

use std::collections::BTreeSet;

use muster_calls::{CallTarget, RpcCall};
use muster_filter::NodeFilter;
use muster_tests::fleet::{NodeSetup, TestNode};
use muster_wire::identity::Identity;
use muster_wire::request::Request;
use muster_wire::status::{ReplyReason, ReplyStatus};
use serde_json::json;

use crate::node_fixture::{NodeFixture, TestCaller};

const NODE: &str = "node1.example.net";

#[tokio::test]
async fn a8_5_each_status_is_returned_by_a_real_request() {
    let fixture = NodeFixture::new(|_| {}).await;
    let cases = [
        ("rpcutil", "ping", json!({}), ReplyStatus::Ok),
        ("puppetral", "do", json!({"type": "exec", "name": "/bin/false"}), ReplyStatus::Failed),
        ("ghost", "ping", json!({}), ReplyStatus::UnknownAction),
        ("rpcutil", "fly", json!({}), ReplyStatus::UnknownAction),
        ("rpcutil", "get_fact", json!({}), ReplyStatus::MissingData),
        ("rpcutil", "get_fact", json!({"fact": 7}), ReplyStatus::InvalidData),
        ("rpcutil", "get_fact", json!({"fact": "x".repeat(4000)}), ReplyStatus::InvalidData),
        ("rpcutil", "get_fact", json!({"fact": "os", "more": "x"}), ReplyStatus::InvalidData),
        ("puppetral", "do", json!({"type": "unicorn", "name": "x"}), ReplyStatus::InvalidData),
        (
            "puppetral",
            "do",
            json!({"type": "user", "name": "x", "wings": "2"}),
            ReplyStatus::InvalidData,
        ),
        (
            "puppetral",
            "do",
            json!({"type": "user", "name": "x", "uid": "many"}),
            ReplyStatus::InvalidData,
        ),
    ];
    for (agent, action, data, status) in cases {
        let answer = fixture.caller.call_action(NODE, agent, action, data.clone()).await;
        assert_eq!(
            answer.reply.statuscode,
            status,
            "{agent} {action} {data}: {}",
            answer.reply.statusmsg.raw()
        );
    }
    let passwd = std::fs::read_to_string(fixture.node.root().join("etc/passwd")).unwrap();
    assert!(!passwd.contains("x:x:"), "an invalid request changed something: {passwd}");
}

#[tokio::test]
async fn denial_names_its_rule_and_is_audited() {
    let fixture = NodeFixture::new(|setup| {
        let text = "policy default deny\nallow\tbob\t*\t*\nallow\t*\tfind\t*\n";
        setup.policies = vec![("puppetral.policy".to_owned(), text.to_owned())];
    })
    .await;
    let data = json!({"type": "group", "name": "staff"});
    let denied = fixture.caller.call_action(NODE, "puppetral", "do", data.clone()).await.reply;
    let Some(ReplyReason::Denied { rule }) = &denied.reason else { panic!("{denied:?}") };
    assert!(rule.starts_with("puppetral.policy"), "{rule}");
    assert_eq!(denied.statuscode, ReplyStatus::Other);
    assert_eq!(
        fixture.caller.call_action(NODE, "puppetral", "find", data).await.reply.statuscode,
        ReplyStatus::Ok
    );
    // Names match completely: `bobby` is not `bob`.
    let bobby = TestCaller::connect(
        &fixture.organisation,
        &fixture.server,
        fixture.organisation.caller("bobby"),
    )
    .await;
    let data = json!({"type": "group", "name": "staff"});
    assert_eq!(
        bobby.call_action(NODE, "puppetral", "do", data).await.reply.statuscode,
        ReplyStatus::Other
    );
    let verdicts: Vec<_> =
        fixture.node.audit_records().iter().map(|record| record["verdict"].clone()).collect();
    assert_eq!(verdicts, ["denied", "executed", "denied"]);
    assert_eq!(fixture.node.core.snapshot_counters().denied, 2);
}

#[tokio::test]
async fn a8_4_request_without_reply_gets_none() {
    let fixture = NodeFixture::new(|_| {}).await;
    let request = Request { reply: false, ..fixture.caller.ping_request() };
    let signed = fixture.caller.sign_request(&request);
    assert_eq!(
        fixture.caller.count_replies(&TestCaller::request_subject(&request), signed).await,
        0
    );
    assert_eq!(fixture.node.audit_records().len(), 2);
}

#[tokio::test]
async fn replies_go_only_to_the_callers_inbox() {
    let fixture = NodeFixture::new(|_| {}).await;
    let request = fixture.caller.ping_request();
    let before = fixture.node.core.snapshot_counters().replies;
    let foreign_inbox = "_R.UAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA.x";
    fixture
        .caller
        .bus
        .publish_with_reply(
            &TestCaller::request_subject(&request),
            foreign_inbox,
            fixture.caller.sign_request(&request),
        )
        .await
        .unwrap();
    assert_eq!(
        fixture.caller.send(&fixture.caller.ping_request()).await.statuscode,
        ReplyStatus::Ok
    );
    assert_eq!(fixture.node.core.snapshot_counters().replies, before + 1);
}

#[tokio::test]
async fn discovery_matches_facts_classes_agents_and_identity() {
    let NodeFixture { organisation, server, node: _first, caller } = NodeFixture::new(|_| {}).await;
    let mut nodes = Vec::new();
    for (name, environment, class) in [
        ("db1.acme.net", "development", "mysql::master"),
        ("db2.acme.net", "production", "mysql::master"),
        ("web1.acme.net", "development", "apache"),
    ] {
        let mut setup = NodeSetup::new(organisation.node(name));
        setup.facts = json!({"environment": environment, "customer": "acme", "deep": {"er": 7}});
        setup.classes = vec!["common".to_owned(), class.to_owned()];
        nodes.push(TestNode::start(&organisation, &server, setup).await);
    }
    let filter = NodeFilter::default;
    for (filter, expected) in [
        (
            filter().with_words("environment=development customer=acme mysql::master"),
            vec!["db1.acme.net"],
        ),
        (filter().with_words("customer=acme /^mysql/"), vec!["db1.acme.net", "db2.acme.net"]),
        (
            filter().with_fact("environment!=production"),
            vec!["db1.acme.net", "node1.example.net", "web1.acme.net"],
        ),
        (filter().with_fact("deep.er>=7"), vec!["db1.acme.net", "db2.acme.net", "web1.acme.net"]),
        (filter().with_identity("/^db/"), vec!["db1.acme.net", "db2.acme.net"]),
        (
            filter().with_select(
                "(mysql::master or fact('deep.er') > 7) and not environment=production",
            ),
            vec!["db1.acme.net"],
        ),
        (filter().with_agent("unicorn"), vec![]),
        (filter().with_identity("web1.acme.net"), vec!["web1.acme.net"]),
    ] {
        let found = caller.client.discover_nodes(&filter.unwrap()).await.unwrap();
        let names: Vec<_> = found.nodes.iter().map(Identity::as_str).collect();
        assert_eq!(names, expected);
    }
}

#[tokio::test]
async fn reports_an_unconnected_node_immediately() {
    let fixture = NodeFixture::new(|_| {}).await;
    let nodes: BTreeSet<Identity> =
        [NODE, "gone.example.net"].iter().map(|name| Identity::parse(name).unwrap()).collect();
    let call = RpcCall::new("rpcutil", "ping", CallTarget::Nodes(nodes)).unwrap();
    let (answers, stats) = fixture.caller.call(call).await;
    assert_eq!(answers.len(), 1);
    assert_eq!(stats.absent.iter().map(Identity::as_str).collect::<Vec<_>>(), ["gone.example.net"]);
    assert_eq!(stats.missing, stats.absent);
    assert!(stats.waiting.as_secs() < 5, "waited for an unconnected node: {stats:?}");
}
