//! Metrics and health over HTTP, and the log of the real daemon, with regular and hostile clients on loopback.

#![expect(clippy::indexing_slicing, reason = "a missing JSON key is null")]

use std::collections::{BTreeMap, BTreeSet};

use muster_calls::{CallTarget, RpcCall};
use muster_tests::nats_server::{NETWORK_TIMEOUT, NatsServer};
use muster_tests::organisation::Organisation;
use muster_tests::rpcd::{DaemonHome, Rpcd};
use muster_tests::{await_state, poll_until_ok};
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::request::Request;
use muster_wire::status::ReplyStatus;
use muster_wire::trace::TraceContext;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::node_fixture::{TestCaller, to_object};

const NODE: &str = "node1.example.net";
pub(crate) const METRICS_CONFIG: &str = "[metrics]\nlisten = \"0\"\n[log]\nformat = \"json\"\n";

/// An organisation, its broker, and the home of a node that is not started; `more` is added to its configuration.
pub(crate) async fn prepare_node(more: &str) -> (Organisation, NatsServer, DaemonHome) {
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker().await;
    let node = organisation.node(NODE);
    let home = DaemonHome::new(&organisation, &node, &server.url(), more);
    (organisation, server, home)
}

/// The address on which a daemon serves metrics, from its log.
pub(crate) async fn await_metrics_address(node: &mut Rpcd) -> String {
    let mut found = None;
    await_state("the daemon serves metrics", || {
        assert!(node.is_running(), "rpcd ended: {}", node.log());
        let lines = node.log_lines();
        let entry = lines.iter().find(|line| line["fields"]["message"] == "serving metrics");
        found = entry.map(|line| line["fields"]["address"].as_str().unwrap().to_owned());
        found.is_some()
    })
    .await;
    found.unwrap()
}

/// Sends bytes and returns the complete response.
pub(crate) async fn exchange(address: &str, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // A server that refuses the request may close the connection before it was written completely.
    let _ = stream.write_all(request).await;
    let mut answer = Vec::new();
    let read = tokio::time::timeout(NETWORK_TIMEOUT, stream.read_to_end(&mut answer)).await;
    read.unwrap().unwrap();
    String::from_utf8(answer).unwrap()
}

/// Status and body of a page.
pub(crate) async fn get(address: &str, path: &str) -> (u16, String) {
    let head = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nAccept: */*\r\n\r\n");
    let answer = exchange(address, head.as_bytes()).await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let length = format!("Content-Length: {}", body.len());
    assert!(head.contains(&length), "{head}");
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body.to_owned())
}

/// Waits until a page has this status; returns its body.
pub(crate) async fn await_status(address: &str, path: &str, status: u16) -> String {
    poll_until_ok(&format!("{path} is {status}"), 2 * NETWORK_TIMEOUT, async || {
        match get(address, path).await {
            (found, body) if found == status => Ok(body),
            other => Err(other),
        }
    })
    .await
}

/// Parses a page strictly by the exposition format: each metric has exactly one help and type line before its samples,
/// and no sample is repeated.
fn parse_samples(page: &str) -> BTreeMap<String, String> {
    let (mut with_help, mut current_type, mut found) = (BTreeSet::new(), "", BTreeMap::new());
    assert!(page.ends_with('\n'));
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            assert!(name.starts_with("muster_") && !help.is_empty(), "{line}");
            assert!(with_help.insert(name), "{name} is repeated");
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(with_help.contains(name) && current_type != name, "{line}");
            assert!(["counter", "gauge", "summary"].contains(&kind), "{line}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            current_type = name;
        } else {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let name = series.split('{').next().unwrap();
            let name = name.strip_suffix("_sum").unwrap_or(name);
            assert_eq!(name.strip_suffix("_count").unwrap_or(name), current_type, "{line}");
            assert!(series.contains('{') == series.ends_with('}'), "{line}");
            assert!(value.parse::<f64>().unwrap().is_finite(), "{line}");
            let previous = found.insert(series.to_owned(), value.to_owned());
            assert_eq!(previous, None, "{series} is repeated");
        }
    }
    found
}

pub(crate) async fn scrape(address: &str) -> BTreeMap<String, String> {
    let (status, page) = get(address, "/metrics").await;
    assert_eq!(status, 200, "{page}");
    parse_samples(&page)
}

/// Waits until a metric has this value.
pub(crate) async fn await_sample(address: &str, series: &str, value: &str) {
    poll_until_ok(&format!("{series} is {value}"), 2 * NETWORK_TIMEOUT, async || {
        match scrape(address).await.remove(series) {
            Some(found) if found == value => Ok(()),
            other => Err(other),
        }
    })
    .await;
}

/// A request for an action without inputs, which the node may not offer.
pub(crate) fn agent_request(caller: &TestCaller, agent: &str, action: &str) -> Request {
    Request {
        agent: SubjectName::parse(agent).unwrap(),
        action: SubjectName::parse(action).unwrap(),
        ..caller.ping_request()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_count_requests_and_connections() {
    let (organisation, server, home) = prepare_node(METRICS_CONFIG).await;
    home.write("policies/service.policy", "policy default deny\n", 0o644);
    let mut node = home.start();
    let address = await_metrics_address(&mut node).await;
    assert!(address.starts_with("127.0.0.1:"), "{address}");
    assert_eq!(get(&address, "/healthz").await, (200, "ok\n".to_owned()));
    assert_eq!(await_status(&address, "/readyz", 200).await, "ready\n");
    let before = scrape(&address).await;
    let last_request = "muster_last_request_timestamp_seconds";
    assert!(!before.contains_key(last_request), "{before:?}");
    // Prometheus computes no increase from a series that begins with its first refusal.
    for (stage, reason) in [
        ("verify", "malformed"),
        ("verify", "unknown_issuer"),
        ("fresh", "replayed"),
        ("authorise", "denied"),
    ] {
        let series = format!("muster_refusals_total{{stage=\"{stage}\",reason=\"{reason}\"}}");
        assert_eq!(before.get(&series).map(String::as_str), Some("0"), "{series}");
    }

    let caller = TestCaller::connect(&organisation, &server, organisation.caller("rip")).await;
    for _ in 0..2 {
        caller.call_action(NODE, "rpcutil", "ping", json!({})).await;
    }
    let denied = caller.call_action(NODE, "service", "status", json!({"service": "cron"})).await;
    assert_eq!(denied.reply.statuscode, ReplyStatus::Other);
    for number in 0..20 {
        let agent = format!("invented{number}");
        let reply = caller.send(&agent_request(&caller, &agent, "thing")).await;
        assert_eq!(reply.statuscode, ReplyStatus::UnknownAction);
    }
    caller.send(&agent_request(&caller, "rpcutil", "thing")).await;
    let good = caller.ping_request();
    caller.send(&good).await;
    let to = TestCaller::request_subject(&good);
    // The first repetition gets the reply again, at the address of the request; the next one at once is a replay.
    for _ in 0..2 {
        assert_eq!(caller.count_replies(&to, caller.sign_request(&good)).await, 0);
    }
    assert_eq!(caller.count_replies(&to, "no JSON".into()).await, 0);

    let (_, page) = get(&address, "/metrics").await;
    assert!(!page.contains("invented"), "{page}");
    let now = parse_samples(&page);
    let value = |series: &str| {
        let found = now.get(series).map(String::as_str);
        found.unwrap_or_else(|| panic!("{series}: {page}"))
    };
    let number = |series: &str| value(series).parse::<f64>().unwrap();
    let requests = |what: &str| value(&format!("muster_requests_total{{{what}}}"));
    let ping = r#"agent="rpcutil",action="ping""#;
    // Two calls of the test, the ping that was then replayed, and the three probes of `count_replies`.
    assert_eq!(requests(&format!(r#"{ping},status="0",reason="""#)), "6");
    let action_count = format!("muster_action_seconds_count{{{ping}}}");
    assert_eq!(value(&action_count), "6");
    assert_eq!(requests(r#"agent="_other",action="_other",status="2",reason="""#), "20");
    assert_eq!(requests(r#"agent="rpcutil",action="_other",status="2",reason="""#), "1");
    assert_eq!(requests(r#"agent="service",action="status",status="5",reason="denied""#), "1");
    let refused = |what: &str| value(&format!("muster_refusals_total{{{what}}}"));
    assert_eq!(refused(r#"stage="verify",reason="malformed""#), "1");
    assert_eq!(refused(r#"stage="fresh",reason="replayed""#), "1");
    assert_eq!(refused(r#"stage="validate",reason="""#), "21");
    assert_eq!(refused(r#"stage="authorise",reason="denied""#), "1");
    assert_eq!(value("muster_broker_connected"), "1");
    assert_eq!(value("muster_broker_reconnects_total"), "0");
    assert_eq!(value("muster_audit_failing"), "0");
    for log in ["changes", "refusals", "reads"] {
        let last = number(&format!("muster_audit_last_line{{log=\"{log}\"}}"));
        assert!(last >= 0.0, "{log}");
    }
    assert!(number(r#"muster_audit_last_line{log="reads"}"#) >= 1.0);
    assert_eq!(value("muster_seen_journal_lost"), "0");
    assert_eq!(value("muster_log_lines_left_out_total"), "0");
    assert!(number(last_request) >= number("muster_start_time_seconds"));
    assert_eq!(value(r#"muster_agent_running_limit{agent="rpcutil"}"#), "10");
    assert!(number(r#"muster_broker_bytes_total{direction="in"}"#) > 1000.0);
    let version = format!(r#"muster_build_info{{version="{}"}}"#, env!("CARGO_PKG_VERSION"));
    assert_eq!(value(&version), "1");

    let server = server.restart().await;
    let again = "muster_broker_reconnects_total";
    await_sample(&address, again, "1").await;
    await_status(&address, "/readyz", 200).await;
    drop((server, caller));
    let body = await_status(&address, "/readyz", 503).await;
    assert!(body.contains("- not connected to the broker\n"), "{body}");
    assert_eq!(get(&address, "/healthz").await.0, 200);
    await_sample(&address, "muster_broker_connected", "0").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_with_a_failing_audit_log_is_not_ready() {
    let more = format!("{METRICS_CONFIG}[paths]\naudit = \"/dev/full\"\n");
    let (organisation, server, home) = prepare_node(&more).await;
    let mut node = home.start();
    let address = await_metrics_address(&mut node).await;
    let caller = TestCaller::connect(&organisation, &server, organisation.caller("rip")).await;
    await_state("the node is ready", || node.log().contains("\"ready\"")).await;
    caller.call_action(NODE, "rpcutil", "ping", json!({})).await;
    let body = await_status(&address, "/readyz", 503).await;
    assert!(body.contains("- audit: the audit log cannot"), "{body}");
    let now = scrape(&address).await;
    assert_eq!(now.get("muster_audit_failing"), Some(&"1".to_owned()));
    assert_eq!(now.get("muster_ready"), Some(&"0".to_owned()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_http_clients_do_not_block_others() {
    let (organisation, server, home) = prepare_node(METRICS_CONFIG).await;
    let mut node = home.start();
    let address = await_metrics_address(&mut node).await;
    await_status(&address, "/readyz", 200).await;

    // More connections than permitted at once; none sends its complete request head.
    let mut slow = Vec::new();
    for _ in 0..60 {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nX: ").await.unwrap();
        slow.push(stream);
    }
    scrape(&address).await;
    let endless = [b"GET / HTTP/1.1\r\nX: ".as_slice(), &vec![b'x'; 100_000]].concat();
    let answer = exchange(&address, &endless).await;
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    for (request, status) in [
        ("POST /metrics HTTP/1.1\r\nContent-Length: 9999999\r\n\r\n", 405),
        ("GET /../etc/passwd HTTP/1.1\r\n\r\n", 404),
        ("\0\u{1}nonsense\r\n\r\n", 400),
        ("HEAD /healthz HTTP/1.1\r\n\r\n", 200),
    ] {
        let answer = exchange(&address, request.as_bytes()).await;
        let expected = format!("HTTP/1.1 {status} ");
        assert!(answer.starts_with(&expected), "{request:?}: {answer}");
    }
    // The server closes the connections after their timeout.
    for mut stream in slow {
        let mut answer = Vec::new();
        let requests = tokio::time::timeout(NETWORK_TIMEOUT, stream.read_to_end(&mut answer)).await;
        let _ = requests.expect("a slow client was not disconnected");
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408 "), "{answer}");
    }
    let caller = TestCaller::connect(&organisation, &server, organisation.caller("rip")).await;
    caller.call_action(NODE, "rpcutil", "ping", json!({})).await;
    assert!(node.is_running());
}

const TALKER_AGENT: &str = r#"#!/bin/sh
[ "$CHORIA_EXTERNAL_PROTOCOL" = io.choria.mcorpc.external.v1.activation_request ] && {
    echo '{"activate": true}' > "$CHORIA_EXTERNAL_REPLY"; exit
}
echo "the disk is nearly full" >&2
echo '{"statuscode": 0, "data": {}}' > "$CHORIA_EXTERNAL_REPLY"
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_lines_contain_their_request() {
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker().await;
    let more = "[log]\nformat = \"json\"\nlevel = \"debug\"\n";
    let home = DaemonHome::new(&organisation, &organisation.node(NODE), &server.url(), more);
    let ddl = json!({"metadata": {"name": "talker", "description": "d", "author": "a", "license": "l", "version": "1",
                                  "url": "u", "timeout": 20, "provider": "external"},
                     "actions": [{"action": "talk", "input": {}, "output": {}}]});
    home.write("ddl/talker.json", &ddl.to_string(), 0o644);
    home.write("ddl/talker", TALKER_AGENT, 0o755);
    home.write("policies/service.policy", "policy default deny\n", 0o644);
    let node = home.start();
    await_state("the node is ready", || node.log().contains("\"ready\"")).await;

    let caller = TestCaller::connect(&organisation, &server, organisation.caller("rip")).await;
    let nodes = [Identity::parse(NODE).unwrap()].into();
    let mut call = RpcCall::new("talker", "talk", CallTarget::Nodes(nodes)).unwrap();
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    call.traceparent = Some(TraceContext::parse(parent).unwrap());
    let (answers, stats) = caller.call(call).await;
    assert_eq!(answers.len(), 1, "{stats:?}");
    let line = find_log_line(&node, "the disk is nearly full").await;
    assert_eq!(line["level"], "WARN");
    let expected = json!({"name": "request", "request": stats.request.to_string(), "caller": "rip", "agent": "talker",
                          "action": "talk", "trace": "4bf92f3577b34da6a3ce929d0e0e4736"});
    assert_eq!(line["span"], expected, "{line}");
    let line = find_log_line(&node, "answered").await;
    assert_eq!(line["span"], expected, "{line}");
    assert_eq!(line["fields"]["status"], 0);

    caller.call_action(NODE, "service", "status", json!({"service": "cron"})).await;
    let line = find_log_line(&node, "refused").await;
    let span = to_object(line["span"].clone());
    assert_eq!((&span["caller"], &span["agent"]), (&json!("rip"), &json!("service")));
    assert!(!span.contains_key("trace"), "{line}");
    assert_eq!(line["fields"]["reason"], "denied");
    assert_eq!(line["fields"]["stage"], "authorise");
}

/// Waits for the first line of a daemon's log with this message.
async fn find_log_line(node: &Rpcd, message: &str) -> Value {
    let mut found = None;
    await_state("the log has the line", || {
        let mut lines = node.log_lines().into_iter();
        found = lines.find(|line| line["fields"]["message"] == message);
        found.is_some()
    })
    .await;
    found.unwrap()
}
