//! Policies of real nodes: which requests they allow, what a denial reports, and that temporary rules and tokens end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use muster_calls::{CallTarget, RpcCall};
use muster_filter::NodeFilter;
use muster_node::config::PolicyOptions;
use muster_node::ground::clock::WallClock;
use muster_tests::nats_server::NETWORK_TIMEOUT;
use muster_tests::organisation::options;
use muster_tests::{await_state, poll_until_ok};
use muster_wire::status::{ReplyReason, ReplyStatus};
use muster_wire::token::UserRole;
use serde_json::{Value, json};

use crate::node_fixture::{NodeFixture, TestCaller};

const NODE: &str = "node1.example.net";
const POLICY: &str = "policy default deny\n\
    deny\t*\tget_fact\t(environment=production and not maintenance) or customer=globex\n\
    allow\tadmins /ci-\\d+/\tget_fact\tcustomer=acme\n\
    allow\toncall\tget_fact\t*\tapache or mysql::master\n";

/// A node with a policy for `rpcutil`, with facts and a class.
async fn policy_fixture(policy: &str, environment: &str) -> NodeFixture {
    NodeFixture::new(|setup| {
        setup.facts = json!({"customer": "acme", "environment": environment});
        setup.classes = vec!["mysql::master".to_owned()];
        setup.policies = vec![
            ("rpcutil.policy".to_owned(), policy.to_owned()),
            ("groups".to_owned(), "admins rip anna\n".to_owned()),
        ];
    })
    .await
}

async fn connect_caller(fixture: &NodeFixture, name: &str) -> TestCaller {
    let signer = fixture.organisation.caller(name);
    TestCaller::connect(&fixture.organisation, &fixture.server, signer).await
}

/// The rule that denied the call, or `None` if it was allowed.
async fn denial_rule(caller: &TestCaller) -> Option<String> {
    let data = json!({"fact": "customer"});
    let reply = caller.call_action(NODE, "rpcutil", "get_fact", data).await.reply;
    if let Some(ReplyReason::Denied { rule }) = reply.reason {
        assert_eq!(reply.statuscode, ReplyStatus::Other);
        assert!(reply.statusmsg.raw().ends_with(&rule), "{}", reply.statusmsg.raw());
        return Some(rule);
    }
    assert_eq!(reply.statuscode, ReplyStatus::Ok, "{}", reply.statusmsg.raw());
    None
}

#[tokio::test]
async fn policy_lines_decide_and_denials_name_their_line() {
    let development = policy_fixture(POLICY, "development").await;
    for (name, rule) in [
        ("rip", None),
        ("anna", None),
        ("ci-7", None),
        ("oncall", None),
        ("ci-7x", Some("rpcutil.policy:1 (default)")),
        ("admins", Some("rpcutil.policy:1 (default)")),
        ("ripley", Some("rpcutil.policy:1 (default)")),
    ] {
        let found = denial_rule(&connect_caller(&development, name).await).await;
        assert_eq!(found.as_deref(), rule, "{name}");
    }
    let production = policy_fixture(POLICY, "production").await;
    let rule = denial_rule(&production.caller).await;
    assert_eq!(rule.as_deref(), Some("rpcutil.policy:2"));
    let audit = production.node.audit_records();
    assert_eq!(
        (&audit[0]["verdict"], &audit[0]["rule"]),
        (&json!("denied"), &json!("rpcutil.policy:2"))
    );
}

#[tokio::test]
async fn malformed_line_denies_what_earlier_lines_allow() {
    let organisation = muster_tests::organisation::Organisation::new(&["muster"]);
    let server = organisation.start_broker().await;
    let setup = muster_tests::fleet::NodeSetup::new(organisation.node(NODE));
    let node = muster_tests::fleet::TestNode::start(&organisation, &server, setup).await;
    let rip = TestCaller::connect(&organisation, &server, organisation.caller("rip")).await;
    assert_eq!(denial_rule(&rip).await, None);
    // As a reload does; the harness does not start a node with an invalid policy.
    let scratch = tempfile::tempdir().unwrap();
    std::fs::write(scratch.path().join("rpcutil.policy"), "allow\trip\t*\t*\ndeny eve * *\n")
        .unwrap();
    let (policy, problems) = muster_node::trust::policy::load_policies(
        scratch.path(),
        muster_policy::RuleVerdict::Allow,
    );
    assert!(
        problems[0].to_string().contains("rpcutil.policy:2:1: the fields are separated by spaces"),
        "{}",
        problems[0]
    );
    node.core.offer.policy.set(policy);
    assert_eq!(denial_rule(&rip).await.as_deref(), Some("rpcutil.policy:2: malformed"));
}

#[tokio::test]
async fn node_can_hide_its_rules() {
    let fixture = NodeFixture::new(|setup| {
        let text = "policy default deny\n".to_owned();
        setup.policies = vec![("rpcutil.policy".to_owned(), text)];
        setup.authority = PolicyOptions { tell_rules: false, ..PolicyOptions::default() };
    })
    .await;
    let data = json!({"fact": "customer"});
    let reply = fixture.caller.call_action(NODE, "rpcutil", "get_fact", data).await.reply;
    let text = serde_json::to_string(&reply).unwrap();
    assert!(matches!(reply.reason, Some(ReplyReason::Denied { .. })), "{text}");
    assert!(!text.contains("rpcutil.policy"), "{text}");
    assert_eq!(fixture.node.audit_records()[0]["rule"], "rpcutil.policy:1 (default)");
}

#[tokio::test]
async fn filter_with_unknown_value_selects_no_node() {
    let fixture = policy_fixture("policy default allow\n", "production").await;
    let filter = |text: &str| NodeFilter::default().with_select(text).unwrap();
    let count_matches = async |filter: NodeFilter| {
        let mut call = RpcCall::new("rpcutil", "ping", CallTarget::Filter(filter)).unwrap();
        call.wait = Duration::from_millis(1500);
        fixture.caller.call(call).await.0.len()
    };
    for (text, answers) in [
        ("environment=production", 1),
        ("no_such_fact=production", 0),
        ("no_such_fact<7", 0),
        ("no_such_fact=~/./", 0),
        ("no_such_class", 0),
        ("environment=production and agent('no_such_agent')", 0),
    ] {
        assert_eq!(count_matches(filter(text)).await, answers, "{text}");
    }
    // A filter with only an agent is not empty.
    assert_eq!(count_matches(NodeFilter::default().with_agent("no_such_agent").unwrap()).await, 0);
    assert_eq!(count_matches(NodeFilter::default().with_agent("rpcutil").unwrap()).await, 1);
}

#[tokio::test]
async fn policy_line_expires_by_the_nodes_clock() {
    let offset = Arc::new(AtomicU64::new(0));
    let shared = Arc::clone(&offset);
    let start_millis = muster_tests::now();
    let fixture = NodeFixture::new(|setup| {
        // The node's clock is stopped one second before the expiry.
        setup.clock = WallClock::new(move || start_millis + shared.load(Ordering::SeqCst));
        let text =
            format!("allow\trip\tget_fact\t*\t*\tuntil={}\n", policy_time(start_millis + 1000));
        setup.policies = vec![("rpcutil.policy".to_owned(), text)];
    })
    .await;
    assert_eq!(denial_rule(&fixture.caller).await, None);
    offset.store(1000, Ordering::SeqCst);
    assert_eq!(
        denial_rule(&fixture.caller).await.as_deref(),
        Some("rpcutil.policy (no line matches)")
    );
}

/// A time in the format of policies.
fn policy_time(at: u64) -> String {
    let at = i64::try_from(at).unwrap();
    jiff::Timestamp::from_millisecond(at).unwrap().to_string()
}

#[tokio::test]
async fn expired_token_is_refused_by_broker_and_node() {
    let offset = Arc::new(AtomicU64::new(0));
    let shared = Arc::clone(&offset);
    let fixture = NodeFixture::new(|setup| {
        setup.clock = WallClock::new(move || muster_tests::now() + shared.load(Ordering::SeqCst));
    })
    .await;
    // Long enough for one request on a busy machine; the test waits for the broker.
    let expiry = muster_tests::now() / 1000 + 15;
    let signer =
        fixture.organisation.user_until(UserRole::Caller, "anna", &["agent:rpcutil"], Some(expiry));
    let anna = TestCaller::connect(&fixture.organisation, &fixture.server, signer.clone()).await;
    assert_eq!(denial_rule(&anna).await, None);
    // The node uses its own clock, with the permitted skew.
    offset.store(20_000 + muster_wire::fresh::CLOCK_SKEW_MILLIS, Ordering::SeqCst);
    let request = anna.ping_request();
    let envelope = anna.sign_request(&request);
    let (inbox, mut replies) = anna.subscribe_inbox(&request).await;
    anna.bus
        .publish_with_reply(&TestCaller::request_subject(&request), &inbox, envelope)
        .await
        .unwrap();
    let expired = |record: &Value| record["reason"] == "token_expired";
    await_state("the node refuses the token", || fixture.node.audit_records().iter().any(expired))
        .await;
    assert!(replies.try_next().is_none(), "a request with an expired token was answered");
    // The broker refuses the token as well.
    let timeout = NETWORK_TIMEOUT + Duration::from_secs(15);
    poll_until_ok("the broker refuses the token", timeout, async || {
        match options(&fixture.server, &signer).connect().await {
            Ok(_) => Err("the broker accepted the token"),
            Err(_) => Ok(()),
        }
    })
    .await;
}
