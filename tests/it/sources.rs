//! Expressions with data sources: who is found by what only a node can look up, who may ask, and what it costs others.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use muster_api::{ActionError, CallContext, ValidatedDataSource};
use muster_client::Client;
use muster_filter::NodeFilter;
use muster_tests::fleet::{Blueprint, TestNode};
use muster_tests::nats_server::PATIENCE;
use muster_wire::identity::Identity;
use muster_wire::request::{Request, RequestTarget};
use muster_wire::status::{ReplyReason, ReplyStatus};
use serde::Serialize;
use serde_json::json;
use tokio::sync::Notify;

use crate::ask::{Caller, World};

const NODE: &str = "node1.example.net";

/// A data source that counts how often it is asked, and may never answer.
#[derive(Debug, Clone, Default)]
struct Probe {
    asked: Arc<AtomicUsize>,
    given_up: Arc<Notify>,
    hangs: bool,
}

#[derive(Debug, Serialize)]
struct Values {
    value: u64,
}

async fn query(probe: Probe, _: CallContext, _: String) -> Result<Values, ActionError> {
    probe.asked.fetch_add(1, Ordering::SeqCst);
    let _told = GivenUp(Arc::clone(&probe.given_up));
    if probe.hangs {
        std::future::pending::<()>().await;
    }
    Ok(Values { value: 7 })
}

/// Tells when an answer is no longer worked at.
struct GivenUp(Arc<Notify>);

impl Drop for GivenUp {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

impl Probe {
    fn data(&self) -> ValidatedDataSource {
        let ddl = json!({
            "metadata": {"name": "probe", "timeout": 4},
            "query": {"prompt": "anything", "type": "string", "optional": true},
            "output": {"value": {"type": "integer"}},
        });
        ValidatedDataSource::new(&ddl.to_string(), self, query).unwrap()
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

async fn world(probe: &Probe, policy: &str) -> World {
    World::new(|blueprint| {
        blueprint.data.push(probe.data());
        blueprint.facts = json!({"country": "uk"});
        let policy = ("data.policy".to_owned(), policy.to_owned());
        blueprint.policies.push(policy);
    })
    .await
}

fn select(text: &str) -> NodeFilter {
    NodeFilter::default().with_select(text).unwrap()
}

async fn found(client: &Client, text: &str) -> Vec<String> {
    let found = client.discover_nodes(&select(text)).await.unwrap();
    found.nodes.iter().map(Identity::to_string).collect()
}

/// A ping of whoever the expression means.
fn request(caller: &Caller, text: &str) -> Request {
    Request { target: RequestTarget::Filter(select(text)), ..caller.request() }
}

#[tokio::test]
async fn only_nodes_that_look_up_what_is_demanded_are_found() {
    let open = ("data.policy".to_owned(), "policy default allow\n".to_owned());
    let world = World::new(|blueprint| blueprint.policies.push(open.clone())).await;
    std::fs::write(world.node.root().join("etc/motd"), "hello").unwrap();
    let mut blueprint = Blueprint::new(world.organisation.node("node2.example.net"));
    blueprint.policies.push(open.clone());
    let _second = TestNode::start(&world.organisation, &world.server, blueprint).await;
    let (one, two) = ("node1.example.net", "node2.example.net");
    for (text, nodes) in [
        ("fstat('/etc/motd').md5=/^5d41402a/", vec![one]),
        ("not fstat('/etc/motd').present", vec![two]),
        ("fstat('/etc/motd').size < 6", vec![one]),
        ("fstat('/etc/motd').size != 5", vec![two]),
        ("fstat('/etc/motd').present and collective('muster').member", vec![one]),
        // What a node cannot tell is neither true nor false: no such source, no such output, a refused query, no Puppet.
        ("nosuch().x=1", vec![]),
        ("not nosuch().x=1", vec![]),
        ("fstat('/etc/motd').nosuch != 1", vec![]),
        ("fstat('relative').size != 1", vec![]),
        ("puppet().enabled or not puppet().enabled", vec![]),
        ("nosuch().x=1 or fstat('/etc/motd').present", vec![one]),
        ("'rpcutil' in agents or nosuch().x=1", vec![one, two]),
        ("process('nginx').count = 0 and not (nosuch().x=1 and apache)", vec![one, two]),
    ] {
        assert_eq!(found(&world.caller.client, text).await, nodes, "{text}");
    }
}

#[tokio::test]
async fn each_question_is_asked_once_and_only_when_nothing_else_decides() {
    let probe = Probe::default();
    let world = world(&probe, "policy default allow\n").await;
    let client = &world.caller.client;
    for (text, nodes, asked) in [
        ("country=uk or probe().value=7", vec![NODE], 0),
        ("probe().value=7 and country=de", vec![], 0),
        ("probe().value=7 and probe().value > 6 and not probe().value=8", vec![NODE], 1),
        ("probe('a').value=8 and probe('b').value=7", vec![], 1),
        ("probe('a').value=7 and probe('b').value=7", vec![NODE], 2),
    ] {
        let before = probe.asked();
        assert_eq!(found(client, text).await, nodes, "{text}");
        assert_eq!(probe.asked() - before, asked, "{text}");
    }
}

#[tokio::test]
async fn a_source_that_hangs_meets_its_deadline_and_delays_nobody() {
    let probe = Probe { hangs: true, ..Probe::default() };
    let world = world(&probe, "policy default allow\n").await;
    let caller = &world.caller;
    let waiting = request(caller, "probe().value=7");
    let (inbox, _replies) = caller.inbox(&waiting).await;
    let subject = Caller::subject(&waiting);
    caller.bus.publish_with_reply(&subject, &inbox, caller.seal(&waiting)).await.unwrap();
    // Taken after the one that hangs, and answered while it still does.
    let reply = caller.send(&caller.request()).await;
    assert_eq!(reply.statuscode, ReplyStatus::Ok);
    let filtered = world.node.core.snapshot_counters().filtered;
    tokio::time::timeout(PATIENCE, probe.given_up.notified()).await.unwrap();
    assert_eq!((filtered, probe.asked()), (0, 1));
    // An unknown value does not stand in the way of what is known.
    let reply = caller.send(&request(caller, "not (probe().value=7 and country=de)")).await;
    assert_eq!(reply.statuscode, ReplyStatus::Ok);
    let reply =
        caller.send(&request(caller, "probe().value=7 or fstat('/etc/passwd').present")).await;
    assert_eq!(reply.statuscode, ReplyStatus::Ok);
}

/// `fstat` looks at any path as root, so that a node without `data.policy` closes it, to filters and to `get_data`.
#[tokio::test]
async fn fstat_is_closed_to_callers_without_a_policy_line() {
    let world = World::new(|blueprint| {
        let rpcutil = ("rpcutil.policy".to_owned(), "policy default allow\n".to_owned());
        blueprint.policies = vec![rpcutil];
    })
    .await;
    std::fs::write(world.node.root().join("etc/motd"), "hello").unwrap();
    let client = &world.caller.client;
    assert!(found(client, "fstat('/etc/motd').present").await.is_empty());
    assert!(found(client, "fstat('/etc/motd').md5=/^5d41/").await.is_empty());
    let data = json!({"source": "fstat", "query": "/etc/motd"});
    let rule = denied(&world.caller, "get_data", data).await;
    assert!(rule.is_some_and(|rule| rule.contains("data")));
    assert_eq!(found(client, "collective('muster').member").await, [NODE]);
}

#[tokio::test]
async fn a_denied_source_is_unknown_and_audited() {
    let probe = Probe::default();
    let world = world(&probe, "policy default allow\ndeny\trip\tprobe\t*\n").await;
    let client = &world.caller.client;
    assert!(found(client, "probe().value=7").await.is_empty());
    assert!(found(client, "not probe().value=7").await.is_empty());
    let either = "probe().value=7 or fstat('/etc/passwd').present";
    assert_eq!(found(client, either).await, [NODE]);
    assert_eq!((probe.asked(), world.node.core.snapshot_counters().denied), (0, 3));
    let audit = world.node.audit();
    let denied = audit.iter().find(|record| record["verdict"] == "denied").unwrap();
    assert_eq!(
        (&denied["agent"], &denied["action"], &denied["rule"]),
        (&json!("data"), &json!("probe"), &json!("data.policy:2"))
    );

    let anna = world.organisation.caller("anna");
    let anna = Caller::connect(&world.organisation, &world.server, anna).await;
    assert_eq!(found(&anna.client, "probe().value=7").await, [NODE]);
}

#[tokio::test]
async fn nothing_is_looked_up_for_stale_or_forged_requests() {
    let probe = Probe::default();
    let world = world(&probe, "policy default allow\n").await;
    let caller = &world.caller;
    let stale = Request {
        issued_at: muster_tests::now() - 3_600_000,
        ..request(caller, "probe().value=7")
    };
    let subject = Caller::subject(&stale);
    assert_eq!(caller.answers_to(&subject, caller.seal(&stale)).await, 0);
    let good = caller.seal(&request(caller, "probe().value=7"));
    let text = String::from_utf8_lossy(&good).replace("value", "valve");
    assert_eq!(caller.answers_to(&subject, text.into_bytes().into()).await, 0);
    assert_eq!(probe.asked(), 0);
    // The same, fresh and whole, is looked up: once, for it is not taken twice.
    let reply = caller.send(&request(caller, "probe().value=7")).await;
    assert_eq!((reply.statuscode, probe.asked()), (ReplyStatus::Ok, 1));
}

/// A node whose policy for `rpcutil` asks the probe.
async fn governed(probe: &Probe, policy: &str) -> World {
    World::new(|blueprint| {
        blueprint.data.push(probe.data());
        blueprint.facts = json!({"country": "uk"});
        let policy = ("rpcutil.policy".to_owned(), policy.to_owned());
        blueprint.policies.push(policy);
    })
    .await
}

/// The rule that denies, or nothing if it is allowed.
async fn denied(caller: &Caller, action: &str, data: serde_json::Value) -> Option<String> {
    let reply = caller.ask(NODE, "rpcutil", action, data).await.reply;
    if let Some(ReplyReason::Denied { rule }) = reply.reason {
        return Some(rule);
    }
    assert_eq!(reply.statuscode, ReplyStatus::Ok, "{}", reply.statusmsg);
    None
}

#[tokio::test]
async fn a_policy_decides_by_what_a_source_answers() {
    let probe = Probe::default();
    let policy = "deny\t*\tget_facts\tprobe('facts').value=7\n\
                  allow\trip\tget_fact\tcountry=uk or probe('nothing').value=7\n\
                  allow\trip\tget_facts collective_info\tprobe().value=7 and country=uk\n\
                  allow\trip\tdaemon_stats\tprobe().value=8\n\
                  deny\t*\tagent_inventory\tnosuch().x=1\nallow\t*\tagent_inventory inventory\t*\n";
    let world = governed(&probe, policy).await;
    let caller = &world.caller;
    let rule = async |action: &str| denied(caller, action, json!({})).await;
    assert_eq!(denied(caller, "get_fact", json!({"fact": "country"})).await, None);
    assert_eq!(probe.asked(), 0, "facts had decided");
    assert_eq!(rule("collective_info").await, None);
    assert_eq!(probe.asked(), 1);
    let by_line = |line: &str| Some(format!("rpcutil.policy{line}"));
    let facts = denied(caller, "get_facts", json!({"facts": "country"})).await;
    assert_eq!(facts, by_line(":1"));
    assert_eq!(rule("daemon_stats").await, by_line(" (no line matches)"));
    // A source that the node has not got cannot tell, and that is denied; others are not touched by it.
    let unknown = rule("agent_inventory").await;
    assert_eq!(unknown, by_line(":5 (unknown: nosuch().x==1)"));
    assert_eq!(rule("inventory").await, None);
    let audit = world.node.audit();
    let denied = audit.iter().filter(|record| record["verdict"] == "denied");
    assert_eq!(denied.count(), 3);
}

#[tokio::test]
async fn a_source_that_hangs_denies_and_delays_nobody() {
    let probe = Probe { hangs: true, ..Probe::default() };
    let policy = "allow\trip\tping\t*\ndeny\t*\tget_fact\tprobe().value=7\nallow\trip\tget_fact\t*\n\
                  allow\trip\tcollective_info\tprobe('x').value=7\n";
    let world = governed(&probe, policy).await;
    let caller = &world.caller;
    let slow = denied(caller, "get_fact", json!({"fact": "country"}));
    let others = async {
        // Taken in while the source hangs, and answered before it gives up.
        tokio::time::timeout(PATIENCE, async {
            while probe.asked() == 0 {
                tokio::task::yield_now().await;
            }
        })
        .await
        .unwrap();
        let given_up = probe.given_up.notified();
        let reply = caller.send(&caller.request()).await;
        assert_eq!(reply.statuscode, ReplyStatus::Ok);
        let mut given_up = std::pin::pin!(given_up);
        assert!(!given_up.as_mut().enable(), "the source gave up before");
    };
    let (rule, ()) = tokio::join!(slow, others);
    let expected = "rpcutil.policy:2 (unknown: probe().value==7)";
    assert_eq!(rule.as_deref(), Some(expected));
    let rule = denied(caller, "collective_info", json!({})).await;
    assert_eq!(rule.as_deref(), Some("rpcutil.policy (no line matches)"));
}

#[tokio::test]
async fn what_a_filter_has_asked_is_not_asked_again_for_a_policy() {
    let probe = Probe::default();
    let world = governed(&probe, "allow\trip\t*\tprobe().value=7\n").await;
    let caller = &world.caller;
    let reply = caller.send(&request(caller, "probe().value=7")).await;
    assert_eq!((reply.statuscode, probe.asked()), (ReplyStatus::Ok, 1));
}

#[tokio::test]
async fn a_denied_source_blinds_the_caller_and_not_the_policy() {
    let probe = Probe::default();
    let world = World::new(|blueprint| {
        blueprint.data.push(probe.data());
        for (name, policy) in [
            ("rpcutil.policy", "allow\trip\t*\tprobe().value=7\n"),
            (
                "data.policy",
                "deny\trip\tprobe\tprobe('rule').value=7\nallow\trip\tfact\t*\t*\tapproved-by=anna\npolicy default allow\n",
            ),
        ] {
            blueprint.policies.push((name.to_owned(), policy.to_owned()));
        }
    })
    .await;
    let caller = &world.caller;
    // The filter may not ask; the policy of the data sources, and that of the agent, may.
    let either = "probe().value=7 or fstat('/etc/passwd').present";
    let reply = caller.send(&request(caller, either)).await;
    assert_eq!((reply.statuscode, probe.asked()), (ReplyStatus::Ok, 2));
    // Nor may it be read by an action, or what nobody could approve.
    let read = async |source: &str| {
        let data = json!({"source": source, "query": "/etc/passwd"});
        denied(caller, "get_data", data).await
    };
    assert_eq!(read("probe").await.as_deref(), Some("data.policy:1"));
    assert_eq!(read("fact").await.as_deref(), Some("data.policy:2"));
    assert_eq!(read("fstat").await, None);
    let data = json!({"source": "nosuch"});
    let reply = caller.ask(NODE, "rpcutil", "get_data", data).await.reply;
    assert_eq!(reply.statuscode, ReplyStatus::InvalidData, "{}", reply.statusmsg);
    let audit = world.node.audit();
    let record = audit.iter().rfind(|record| record["rule"] == "data.policy:1");
    assert_eq!(record.unwrap()["action"], "get_data");
}
