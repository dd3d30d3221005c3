//! Filters and policies with data sources: which nodes match, who may query, and the effect on other requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use muster_api::{ActionError, CallContext, ValidatedDataSource};
use muster_calls::Client;
use muster_filter::NodeFilter;
use muster_tests::command::{RpcCommand, describe_output};
use muster_tests::fleet::{NodeSetup, TestNode};
use muster_tests::nats_server::NETWORK_TIMEOUT;
use muster_wire::identity::Identity;
use muster_wire::request::{Request, RequestTarget};
use muster_wire::status::{ReplyReason, ReplyStatus};
use serde::Serialize;
use serde_json::json;
use tokio::sync::Notify;

use crate::node_fixture::{NodeFixture, TestCaller};

const NODE: &str = "node1.example.net";

/// A data source that counts its queries, and optionally never replies.
#[derive(Debug, Clone, Default)]
struct CountingSource {
    query_count: Arc<AtomicUsize>,
    cancelled: Arc<Notify>,
    hangs: bool,
}

#[derive(Debug, Serialize)]
struct SourceOutput {
    value: u64,
}

async fn query_source(
    source: CountingSource,
    _: CallContext,
    _: String,
) -> Result<SourceOutput, ActionError> {
    source.query_count.fetch_add(1, Ordering::SeqCst);
    let _guard = CancelGuard(Arc::clone(&source.cancelled));
    if source.hangs {
        std::future::pending::<()>().await;
    }
    Ok(SourceOutput { value: 7 })
}

/// Sends a notification when the query ends or is dropped.
struct CancelGuard(Arc<Notify>);

impl Drop for CancelGuard {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

impl CountingSource {
    fn to_data_source(&self) -> ValidatedDataSource {
        let ddl = json!({
            "metadata": {"name": "probe", "timeout": 4},
            "query": {"prompt": "anything", "type": "string", "optional": true},
            "output": {"value": {"type": "integer"}},
        });
        ValidatedDataSource::new(&ddl.to_string(), self, query_source).unwrap()
    }

    fn query_count(&self) -> usize {
        self.query_count.load(Ordering::SeqCst)
    }
}

async fn fixture_with_policy(probe: &CountingSource, policy: &str) -> NodeFixture {
    NodeFixture::new(|setup| {
        setup.data.push(probe.to_data_source());
        setup.facts = json!({"country": "uk"});
        let policy = ("data.policy".to_owned(), policy.to_owned());
        setup.policies.push(policy);
    })
    .await
}

fn parse_filter(text: &str) -> NodeFilter {
    NodeFilter::default().with_select(text).unwrap()
}

async fn discover(client: &Client, text: &str) -> Vec<String> {
    let discovery = client.discover_nodes(&parse_filter(text)).await.unwrap();
    discovery.nodes.iter().map(Identity::to_string).collect()
}

/// A ping for the nodes that match the expression.
fn filtered_ping(caller: &TestCaller, text: &str) -> Request {
    Request { target: RequestTarget::Filter(parse_filter(text)), ..caller.ping_request() }
}

#[tokio::test]
async fn finds_only_nodes_whose_data_sources_match() {
    let open = ("data.policy".to_owned(), "policy default allow\n".to_owned());
    let fixture = NodeFixture::new(|setup| setup.policies.push(open.clone())).await;
    std::fs::write(fixture.node.root().join("etc/motd"), "hello").unwrap();
    let mut setup = NodeSetup::new(fixture.organisation.node("node2.example.net"));
    setup.policies.push(open.clone());
    let _second = TestNode::start(&fixture.organisation, &fixture.server, setup).await;
    let (one, two) = ("node1.example.net", "node2.example.net");
    for (text, nodes) in [
        ("fstat('/etc/motd').md5=/^5d41402a/", vec![one]),
        ("not fstat('/etc/motd').present", vec![two]),
        ("fstat('/etc/motd').size < 6", vec![one]),
        ("fstat('/etc/motd').size != 5", vec![two]),
        ("fstat('/etc/motd').present and collective('muster').member", vec![one]),
        // An unknown value is neither true nor false: no such source, no such output, a refused query, no Puppet.
        ("nosuch().x=1", vec![]),
        ("not nosuch().x=1", vec![]),
        ("fstat('/etc/motd').nosuch != 1", vec![]),
        ("fstat('relative').size != 1", vec![]),
        ("puppet().enabled or not puppet().enabled", vec![]),
        ("nosuch().x=1 or fstat('/etc/motd').present", vec![one]),
        ("'rpcutil' in agents or nosuch().x=1", vec![one, two]),
        ("process('nginx').count = 0 and not (nosuch().x=1 and apache)", vec![one, two]),
    ] {
        assert_eq!(discover(&fixture.caller.client, text).await, nodes, "{text}");
    }
}

#[tokio::test]
async fn each_source_is_queried_once_and_only_if_needed() {
    let probe = CountingSource::default();
    let fixture = fixture_with_policy(&probe, "policy default allow\n").await;
    let client = &fixture.caller.client;
    for (text, nodes, query_count) in [
        ("country=uk or probe().value=7", vec![NODE], 0),
        ("probe().value=7 and country=de", vec![], 0),
        ("probe().value=7 and probe().value > 6 and not probe().value=8", vec![NODE], 1),
        ("probe('a').value=8 and probe('b').value=7", vec![], 1),
        ("probe('a').value=7 and probe('b').value=7", vec![NODE], 2),
    ] {
        let before = probe.query_count();
        assert_eq!(discover(client, text).await, nodes, "{text}");
        assert_eq!(probe.query_count() - before, query_count, "{text}");
    }
}

#[tokio::test]
async fn hanging_source_times_out_without_delaying_others() {
    let probe = CountingSource { hangs: true, ..CountingSource::default() };
    let fixture = fixture_with_policy(&probe, "policy default allow\n").await;
    let caller = &fixture.caller;
    let waiting = filtered_ping(caller, "probe().value=7");
    let (inbox, _replies) = caller.subscribe_inbox(&waiting).await;
    let subject = TestCaller::request_subject(&waiting);
    caller.bus.publish_with_reply(&subject, &inbox, caller.sign_request(&waiting)).await.unwrap();
    // Received after the request with the hanging source, and answered while the source still hangs.
    let reply = caller.send(&caller.ping_request()).await;
    assert_eq!(reply.statuscode, ReplyStatus::Ok);
    let filtered = fixture.node.core.snapshot_counters().filtered;
    tokio::time::timeout(NETWORK_TIMEOUT, probe.cancelled.notified()).await.unwrap();
    assert_eq!((filtered, probe.query_count()), (0, 1));
    // An unknown value does not affect an expression that is decided by known values.
    let reply = caller.send(&filtered_ping(caller, "not (probe().value=7 and country=de)")).await;
    assert_eq!(reply.statuscode, ReplyStatus::Ok);
    let reply = caller
        .send(&filtered_ping(caller, "probe().value=7 or fstat('/etc/passwd').present"))
        .await;
    assert_eq!(reply.statuscode, ReplyStatus::Ok);
}

/// A node for which an expression is unknown does not reply; it was once missing from the result without a message.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rpc_find_names_the_nodes_that_could_not_answer() {
    let fixture = NodeFixture::new(|setup| {
        setup.facts = json!({"country": "uk"});
        let policy = "deny\t*\tfstat\tcountry=uk\nallow\t*\t*\t*\n";
        setup.policies.push(("data.policy".to_owned(), policy.to_owned()));
    })
    .await;
    let mut setup = NodeSetup::new(fixture.organisation.node("node2.example.net"));
    setup.facts = json!({"country": "de"});
    let _second = TestNode::start(&fixture.organisation, &fixture.server, setup).await;
    let caller = fixture.organisation.caller("joe");
    let rpc = RpcCommand::new(&fixture.server, &fixture.organisation, &caller, "");
    let (found, exit) = rpc.run_json(&["find", "-S", "fstat('/etc/passwd').present"]).await;
    assert_eq!((exit, &found["nodes"]), (0, &json!(["node2.example.net"])), "{found}");
    let reason = found["unanswered"][NODE][0].as_str().unwrap();
    assert!(reason.starts_with("fstat(\"/etc/passwd\"): "), "{reason}");
    let output = rpc.run(&["find", "-S", "not fstat('/etc/passwd').present"]).await;
    let text = describe_output(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.contains(
            "1 node could not evaluate the expression, and may match or not: node1.example.net"
        ),
        "{text}"
    );
    assert!(text.contains("fstat(\"/etc/passwd\"): ") && text.contains("data.policy:1"), "{text}");
    // The country decides, whatever the source returns.
    let output = rpc.run(&["find", "-S", "country=fr and fstat('/etc/passwd').present"]).await;
    assert!(
        !describe_output(&output).contains("could not evaluate"),
        "{}",
        describe_output(&output)
    );
}

/// `fstat` reads any path as root, so without `data.policy` it is denied to filters and to `get_data`.
#[tokio::test]
async fn fstat_is_denied_without_a_policy_line() {
    let fixture = NodeFixture::new(|setup| {
        let rpcutil = ("rpcutil.policy".to_owned(), "policy default allow\n".to_owned());
        setup.policies = vec![rpcutil];
    })
    .await;
    std::fs::write(fixture.node.root().join("etc/motd"), "hello").unwrap();
    let client = &fixture.caller.client;
    assert!(discover(client, "fstat('/etc/motd').present").await.is_empty());
    assert!(discover(client, "fstat('/etc/motd').md5=/^5d41/").await.is_empty());
    let data = json!({"source": "fstat", "query": "/etc/motd"});
    let rule = denial_rule(&fixture.caller, "get_data", data).await;
    assert!(rule.is_some_and(|rule| rule.contains("data")));
    assert_eq!(discover(client, "collective('muster').member").await, [NODE]);
}

#[tokio::test]
async fn denied_source_is_unknown_and_audited() {
    let probe = CountingSource::default();
    let fixture = fixture_with_policy(&probe, "policy default allow\ndeny\trip\tprobe\t*\n").await;
    let client = &fixture.caller.client;
    assert!(discover(client, "probe().value=7").await.is_empty());
    assert!(discover(client, "not probe().value=7").await.is_empty());
    let either = "probe().value=7 or fstat('/etc/passwd').present";
    assert_eq!(discover(client, either).await, [NODE]);
    assert_eq!((probe.query_count(), fixture.node.core.snapshot_counters().denied), (0, 3));
    let audit = fixture.node.audit_records();
    let denied = audit.iter().find(|record| record["verdict"] == "denied").unwrap();
    assert_eq!(
        (&denied["agent"], &denied["action"], &denied["rule"]),
        (&json!("data"), &json!("probe"), &json!("data.policy:2"))
    );

    let anna = fixture.organisation.caller("anna");
    let anna = TestCaller::connect(&fixture.organisation, &fixture.server, anna).await;
    assert_eq!(discover(&anna.client, "probe().value=7").await, [NODE]);
}

#[tokio::test]
async fn stale_or_forged_requests_query_no_source() {
    let probe = CountingSource::default();
    let fixture = fixture_with_policy(&probe, "policy default allow\n").await;
    let caller = &fixture.caller;
    let stale = Request {
        issued_at: muster_tests::now() - 3_600_000,
        ..filtered_ping(caller, "probe().value=7")
    };
    let subject = TestCaller::request_subject(&stale);
    assert_eq!(caller.count_replies(&subject, caller.sign_request(&stale)).await, 0);
    let good = caller.sign_request(&filtered_ping(caller, "probe().value=7"));
    let text = String::from_utf8_lossy(&good).replace("value", "valve");
    assert_eq!(caller.count_replies(&subject, text.into_bytes().into()).await, 0);
    assert_eq!(probe.query_count(), 0);
    // The same request, fresh and unmodified, queries the source once.
    let reply = caller.send(&filtered_ping(caller, "probe().value=7")).await;
    assert_eq!((reply.statuscode, probe.query_count()), (ReplyStatus::Ok, 1));
}

/// A fixture whose policy for `rpcutil` queries the source.
async fn fixture_with_rpcutil_policy(probe: &CountingSource, policy: &str) -> NodeFixture {
    NodeFixture::new(|setup| {
        setup.data.push(probe.to_data_source());
        setup.facts = json!({"country": "uk"});
        let policy = ("rpcutil.policy".to_owned(), policy.to_owned());
        setup.policies.push(policy);
    })
    .await
}

/// The rule that denied the call, or `None` if it was allowed.
async fn denial_rule(caller: &TestCaller, action: &str, data: serde_json::Value) -> Option<String> {
    let reply = caller.call_action(NODE, "rpcutil", action, data).await.reply;
    if let Some(ReplyReason::Denied { rule }) = reply.reason {
        return Some(rule);
    }
    assert_eq!(reply.statuscode, ReplyStatus::Ok, "{}", reply.statusmsg.raw());
    None
}

#[tokio::test]
async fn policy_decides_by_the_value_of_a_source() {
    let probe = CountingSource::default();
    let policy = "deny\t*\tget_facts\tprobe('facts').value=7\n\
                  allow\trip\tget_fact\tcountry=uk or probe('nothing').value=7\n\
                  allow\trip\tget_facts collective_info\tprobe().value=7 and country=uk\n\
                  allow\trip\tdaemon_stats\tprobe().value=8\n\
                  deny\t*\tagent_inventory\tnosuch().x=1\nallow\t*\tagent_inventory inventory\t*\n";
    let fixture = fixture_with_rpcutil_policy(&probe, policy).await;
    let caller = &fixture.caller;
    let rule = async |action: &str| denial_rule(caller, action, json!({})).await;
    assert_eq!(denial_rule(caller, "get_fact", json!({"fact": "country"})).await, None);
    assert_eq!(probe.query_count(), 0, "the facts must decide");
    assert_eq!(rule("collective_info").await, None);
    assert_eq!(probe.query_count(), 1);
    let by_line = |line: &str| Some(format!("rpcutil.policy{line}"));
    let facts = denial_rule(caller, "get_facts", json!({"facts": "country"})).await;
    assert_eq!(facts, by_line(":1"));
    assert_eq!(rule("daemon_stats").await, by_line(" (no line matches)"));
    // A missing source is unknown, so the action is denied; other actions are not affected.
    let unknown = rule("agent_inventory").await;
    assert_eq!(unknown, by_line(":5 (unknown: nosuch().x==1)"));
    assert_eq!(rule("inventory").await, None);
    let audit = fixture.node.audit_records();
    let denied = audit.iter().filter(|record| record["verdict"] == "denied");
    assert_eq!(denied.count(), 3);
}

#[tokio::test]
async fn hanging_source_denies_without_delaying_others() {
    let probe = CountingSource { hangs: true, ..CountingSource::default() };
    let policy = "allow\trip\tping\t*\ndeny\t*\tget_fact\tprobe().value=7\nallow\trip\tget_fact\t*\n\
                  allow\trip\tcollective_info\tprobe('x').value=7\n";
    let fixture = fixture_with_rpcutil_policy(&probe, policy).await;
    let caller = &fixture.caller;
    let slow = denial_rule(caller, "get_fact", json!({"fact": "country"}));
    let others = async {
        // Received while the source hangs, and answered before it times out.
        tokio::time::timeout(NETWORK_TIMEOUT, async {
            while probe.query_count() == 0 {
                tokio::task::yield_now().await;
            }
        })
        .await
        .unwrap();
        let cancelled = probe.cancelled.notified();
        let reply = caller.send(&caller.ping_request()).await;
        assert_eq!(reply.statuscode, ReplyStatus::Ok);
        let mut cancelled = std::pin::pin!(cancelled);
        assert!(!cancelled.as_mut().enable(), "the source was cancelled too early");
    };
    let (rule, ()) = tokio::join!(slow, others);
    let expected = "rpcutil.policy:2 (unknown: probe().value==7)";
    assert_eq!(rule.as_deref(), Some(expected));
    let rule = denial_rule(caller, "collective_info", json!({})).await;
    assert_eq!(rule.as_deref(), Some("rpcutil.policy (no line matches)"));
}

#[tokio::test]
async fn policy_reuses_the_value_that_a_filter_queried() {
    let probe = CountingSource::default();
    let fixture = fixture_with_rpcutil_policy(&probe, "allow\trip\t*\tprobe().value=7\n").await;
    let caller = &fixture.caller;
    let reply = caller.send(&filtered_ping(caller, "probe().value=7")).await;
    assert_eq!((reply.statuscode, probe.query_count()), (ReplyStatus::Ok, 1));
}

#[tokio::test]
async fn denied_source_is_hidden_from_callers_but_not_from_policies() {
    let probe = CountingSource::default();
    let fixture = NodeFixture::new(|setup| {
        setup.data.push(probe.to_data_source());
        for (name, policy) in [
            ("rpcutil.policy", "allow\trip\t*\tprobe().value=7\n"),
            (
                "data.policy",
                "deny\trip\tprobe\tprobe('rule').value=7\nallow\trip\tfact\t*\t*\tapproved-by=anna\npolicy default allow\n",
            ),
        ] {
            setup.policies.push((name.to_owned(), policy.to_owned()));
        }
    })
    .await;
    let caller = &fixture.caller;
    // The filter may not query the source; the policy of the data sources and that of the agent may.
    let either = "probe().value=7 or fstat('/etc/passwd').present";
    let reply = caller.send(&filtered_ping(caller, either)).await;
    assert_eq!((reply.statuscode, probe.query_count()), (ReplyStatus::Ok, 2));
    // An action may not read it either, nor a source that requires an approval.
    let read = async |source: &str| {
        let data = json!({"source": source, "query": "/etc/passwd"});
        denial_rule(caller, "get_data", data).await
    };
    assert_eq!(read("probe").await.as_deref(), Some("data.policy:1"));
    assert_eq!(read("fact").await.as_deref(), Some("data.policy:2"));
    assert_eq!(read("fstat").await, None);
    let data = json!({"source": "nosuch"});
    let reply = caller.call_action(NODE, "rpcutil", "get_data", data).await.reply;
    assert_eq!(reply.statuscode, ReplyStatus::InvalidData, "{}", reply.statusmsg.raw());
    let audit = fixture.node.audit_records();
    let record = audit.iter().rfind(|record| record["rule"] == "data.policy:1");
    assert_eq!(record.unwrap()["action"], "get_data");
}
