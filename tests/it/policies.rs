//! Policies of real nodes: whom they let ask what, what a denial tells, and that what is granted for a time ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use muster_agent::clock::WallClock;
use muster_agent::core::PolicyOptions;
use muster_client::{CallTarget, RpcCall};
use muster_filter::NodeFilter;
use muster_tests::nats_server::PATIENCE;
use muster_tests::organisation::options;
use muster_tests::{await_answer, await_state};
use muster_wire::status::{ReplyReason, ReplyStatus};
use muster_wire::token::UserRole;
use serde_json::{Value, json};

use crate::ask::{Caller, World};

const NODE: &str = "node1.example.net";
const POLICY: &str = "policy default deny\n\
    deny\t*\tget_fact\t(environment=production and not maintenance) or customer=globex\n\
    allow\tadmins /ci-\\d+/\tget_fact\tcustomer=acme\n\
    allow\toncall\tget_fact\t*\tapache or mysql::master\n";

/// A node with a policy for `rpcutil`, and what is known of it.
async fn world(policy: &str, environment: &str) -> World {
    World::new(|blueprint| {
        blueprint.facts = json!({"customer": "acme", "environment": environment});
        blueprint.classes = vec!["mysql::master".to_owned()];
        blueprint.policies = vec![
            ("rpcutil.policy".to_owned(), policy.to_owned()),
            ("groups".to_owned(), "admins rip anna\n".to_owned()),
        ];
    })
    .await
}

async fn caller(world: &World, name: &str) -> Caller {
    let signer = world.organisation.caller(name);
    Caller::connect(&world.organisation, &world.server, signer).await
}

/// The rule that denies, or nothing if it is allowed.
async fn denied(caller: &Caller) -> Option<String> {
    let data = json!({"fact": "customer"});
    let reply = caller.ask(NODE, "rpcutil", "get_fact", data).await.reply;
    if let Some(ReplyReason::Denied { rule }) = reply.reason {
        assert_eq!(reply.statuscode, ReplyStatus::Other);
        assert!(reply.statusmsg.ends_with(&rule), "{}", reply.statusmsg);
        return Some(rule);
    }
    assert_eq!(reply.statuscode, ReplyStatus::Ok, "{}", reply.statusmsg);
    None
}

#[tokio::test]
async fn groups_expressions_and_compounds_decide_and_a_denial_names_its_line() {
    let development = world(POLICY, "development").await;
    for (name, rule) in [
        ("rip", None),
        ("anna", None),
        ("ci-7", None),
        ("oncall", None),
        ("ci-7x", Some("rpcutil.policy:1 (default)")),
        ("admins", Some("rpcutil.policy:1 (default)")),
        ("ripley", Some("rpcutil.policy:1 (default)")),
    ] {
        let found = denied(&caller(&development, name).await).await;
        assert_eq!(found.as_deref(), rule, "{name}");
    }
    let production = world(POLICY, "production").await;
    let rule = denied(&production.caller).await;
    assert_eq!(rule.as_deref(), Some("rpcutil.policy:2"));
    let audit = production.node.audit();
    assert_eq!(
        (&audit[0]["verdict"], &audit[0]["rule"]),
        (&json!("denied"), &json!("rpcutil.policy:2"))
    );
}

#[tokio::test]
async fn a_malformed_line_denies_what_the_lines_before_it_allow() {
    let organisation = muster_tests::organisation::Organisation::new(&["muster"]);
    let server = organisation.broker().await;
    let blueprint = muster_tests::fleet::Blueprint::new(organisation.node(NODE));
    let node = muster_tests::fleet::TestNode::start(&organisation, &server, blueprint).await;
    let rip = Caller::connect(&organisation, &server, organisation.caller("rip")).await;
    assert_eq!(denied(&rip).await, None);
    // As a reload would: the harness refuses to start a node with a policy that is wrong.
    let scratch = tempfile::tempdir().unwrap();
    std::fs::write(scratch.path().join("rpcutil.policy"), "allow\trip\t*\t*\ndeny eve * *\n")
        .unwrap();
    let (policy, problems) =
        muster_agent::policy::load_policies(scratch.path(), muster_policy::RuleVerdict::Allow);
    assert!(
        problems[0].to_string().contains("rpcutil.policy:2:1: the fields are separated by spaces"),
        "{}",
        problems[0]
    );
    node.core.policy.set(policy);
    assert_eq!(denied(&rip).await.as_deref(), Some("rpcutil.policy:2: malformed"));
}

#[tokio::test]
async fn a_node_may_keep_its_rules_to_itself() {
    let world = World::new(|blueprint| {
        let text = "policy default deny\n".to_owned();
        blueprint.policies = vec![("rpcutil.policy".to_owned(), text)];
        blueprint.authority = PolicyOptions { tell_rules: false, ..PolicyOptions::default() };
    })
    .await;
    let data = json!({"fact": "customer"});
    let reply = world.caller.ask(NODE, "rpcutil", "get_fact", data).await.reply;
    let told = serde_json::to_string(&reply).unwrap();
    assert!(matches!(reply.reason, Some(ReplyReason::Denied { .. })), "{told}");
    assert!(!told.contains("rpcutil.policy"), "{told}");
    assert_eq!(world.node.audit()[0]["rule"], "rpcutil.policy:1 (default)");
}

#[tokio::test]
async fn a_filter_that_is_not_known_to_hold_asks_nobody() {
    let world = world("policy default allow\n", "production").await;
    let filter = |text: &str| NodeFilter::default().with_select(text).unwrap();
    let asked = async |filter: NodeFilter| {
        let mut call = RpcCall::new("rpcutil", "ping", CallTarget::Filter(filter)).unwrap();
        call.wait = Duration::from_millis(1500);
        world.caller.call(call).await.0.len()
    };
    for (text, answers) in [
        ("environment=production", 1),
        ("no_such_fact=production", 0),
        ("no_such_fact<7", 0),
        ("no_such_fact=~/./", 0),
        ("no_such_class", 0),
        ("environment=production and agent('no_such_agent')", 0),
    ] {
        assert_eq!(asked(filter(text)).await, answers, "{text}");
    }
    // An agent alone is a filter, too, and not the empty one.
    assert_eq!(asked(NodeFilter::default().with_agent("no_such_agent").unwrap()).await, 0);
    assert_eq!(asked(NodeFilter::default().with_agent("rpcutil").unwrap()).await, 1);
}

#[tokio::test]
async fn a_line_ends_at_its_instant_by_the_nodes_clock() {
    let offset = Arc::new(AtomicU64::new(0));
    let shared = Arc::clone(&offset);
    let begun = muster_tests::now();
    let world = World::new(|blueprint| {
        // The node's time stands still, a second before the end.
        blueprint.clock = WallClock::new(move || begun + shared.load(Ordering::SeqCst));
        let text = format!("allow\trip\tget_fact\t*\t*\tuntil={}\n", written(begun + 1000));
        blueprint.policies = vec![("rpcutil.policy".to_owned(), text)];
    })
    .await;
    assert_eq!(denied(&world.caller).await, None);
    offset.store(1000, Ordering::SeqCst);
    assert_eq!(denied(&world.caller).await.as_deref(), Some("rpcutil.policy (no line matches)"));
}

/// An instant as policies have it.
fn written(at: u64) -> String {
    let at = i64::try_from(at).unwrap();
    jiff::Timestamp::from_millisecond(at).unwrap().to_string()
}

#[tokio::test]
async fn a_token_for_a_time_ends_at_the_broker_and_at_the_node() {
    let offset = Arc::new(AtomicU64::new(0));
    let shared = Arc::clone(&offset);
    let world = World::new(|blueprint| {
        blueprint.clock =
            WallClock::new(move || muster_tests::now() + shared.load(Ordering::SeqCst));
    })
    .await;
    // Long enough for a busy machine to ask once; the broker is waited for.
    let ends = muster_tests::now() / 1000 + 15;
    let signer =
        world.organisation.user_until(UserRole::Caller, "anna", &["agent:rpcutil"], Some(ends));
    let anna = Caller::connect(&world.organisation, &world.server, signer.clone()).await;
    assert_eq!(denied(&anna).await, None);
    // The node goes by its own clock, with the skew that clocks may have.
    offset.store(20_000 + muster_wire::fresh::CLOCK_SKEW_MILLIS, Ordering::SeqCst);
    let request = anna.request();
    let sealed = anna.seal(&request);
    let (inbox, mut replies) = anna.inbox(&request).await;
    anna.bus.publish_with_reply(&Caller::subject(&request), &inbox, sealed).await.unwrap();
    let expired = |record: &Value| record["reason"] == "token_expired";
    await_state("the node refuses the token", || world.node.audit().iter().any(expired)).await;
    assert!(replies.try_next().is_none(), "a token that is over was answered");
    // And the broker lets it in no more.
    let patience = PATIENCE + Duration::from_secs(15);
    await_answer("the broker lets it in no more", patience, async || {
        match options(&world.server, &signer).connect().await {
            Ok(_) => Err("it is let in"),
            Err(_) => Ok(()),
        }
    })
    .await;
}
