//! Query documents (`-Q`) with the real `rpc` and `rpcd`: live nodes and an inventory of them give the same answers.

use std::time::Duration;

use muster_tests::command::{RpcCommand, describe_output};
use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::Organisation;
use muster_tests::rpcd::{DaemonHome, Rpcd};
use muster_tests::{await_state, poll_until_ok};
use muster_wire::identity::SubjectName;
use muster_wire::request::{NodeFilter, RequestTarget};
use muster_wire::sign::{EnvelopeKind, sign_envelope};
use serde_json::json;

use crate::node_fixture::{TestCaller, to_object};

/// The query of the original article, after the substitution of its variables.
const ARTICLE_QUERY: &str =
    "{'facts.customer': 'acme', 'facts.environment':development, classes: 'mysql::master'}";

/// Name, facts and classes of each node.
const NODES: [(&str, &str, &str); 3] = [
    (
        "db1.acme.net",
        r#"{"customer": "acme", "environment": "development", "cpus": 4, "ports": [22, 3306],
            "disks": [{"name": "sda", "size": 100}, {"name": "sdb", "size": 900}],
            "a.b": 1, "$cost": "5", "labels": {"app.io/name": "shop", "$x": true}}"#,
        "common\nMysql::Master\n",
    ),
    (
        "db2.acme.net",
        r#"{"customer": "acme", "environment": "production", "cpus": 16, "ports": [22, 3306, 9100],
            "disks": [{"name": "sda", "size": 900}], "a": {"b": 2}}"#,
        "common\nmysql::master\n",
    ),
    (
        "web1.initech.net",
        r#"{"customer": "initech", "environment": "development", "cpus": "8", "ports": [22, 80],
            "disks": [], "labels": {"app.io/name": "web"}}"#,
        "common\napache\n",
    ),
];

/// Three nodes, a caller, and an inventory that the caller has exported.
struct QueryFixture {
    rpc: RpcCommand,
    _nodes: Vec<Rpcd>,
    _server: NatsServer,
}

impl QueryFixture {
    async fn start() -> Self {
        let organisation = Organisation::new(&["muster"]);
        let server = organisation.start_broker().await;
        let start_node = |(name, facts, classes): (&str, &str, &str)| {
            let node = organisation.node(name);
            let home = DaemonHome::new(&organisation, &node, &server.url(), "");
            home.write("facts.d/site.json", facts, 0o644);
            home.write("classes.txt", classes, 0o644);
            home.start()
        };
        let nodes = NODES.into_iter().map(start_node).collect();
        let rpc = RpcCommand::new(&server, &organisation, &organisation.caller("rip"), "");
        poll_until_ok("all nodes reply", Duration::from_mins(1), async || {
            match rpc.run(&["find", "-I", "/./"]).await {
                output if lines(&output.stdout).len() == NODES.len() => Ok(()),
                output => Err(describe_output(&output)),
            }
        })
        .await;
        let exported =
            rpc.run(&["inventory", "--export", rpc.path("fleet.json").to_str().unwrap()]).await;
        assert!(exported.status.success(), "{}", describe_output(&exported));
        Self { rpc, _nodes: nodes, _server: server }
    }

    /// The nodes that a query finds by broadcast, which must be those of the inventory.
    async fn find(&self, query: &[&str]) -> Vec<String> {
        let option = format!("file={}", self.rpc.path("fleet.json").display());
        let inventory = ["--dm", "inventory", "--do", &option];
        let live = self.rpc.run(&[&["find"], query].concat()).await;
        let stored = self.rpc.run(&[&["find"], &inventory[..], query].concat()).await;
        let found = lines(&live.stdout);
        for output in [&live, &stored] {
            let expected_code = i32::from(found.is_empty());
            assert_eq!(
                output.status.code(),
                Some(expected_code),
                "{query:?}: {}",
                describe_output(output)
            );
        }
        assert_eq!(lines(&stored.stdout), found, "{query:?}");
        found
    }

    async fn check(&self, cases: &[(&[&str], &str)]) {
        for (query, expected) in cases {
            let found = self.find(query).await;
            let found: Vec<_> = found.iter().filter_map(|name| name.split('.').next()).collect();
            assert_eq!(found.join(" "), *expected, "{query:?}");
        }
    }

    /// The standard error of a refused command.
    async fn refusal(&self, arguments: &[&str]) -> String {
        let output = self.rpc.run(arguments).await;
        assert_eq!(output.status.code(), Some(4), "{arguments:?}: {}", describe_output(&output));
        String::from_utf8_lossy(&output.stderr).into_owned()
    }
}

fn lines(output: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(output).lines().map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a4_1_query_of_the_article_finds_the_node_live_and_in_a_file() {
    let fixture = QueryFixture::start().await;
    assert_eq!(fixture.find(&["-Q", ARTICLE_QUERY]).await, ["db1.acme.net"]);
    let ping = ["rpcutil", "ping", "--senders", "-Q", ARTICLE_QUERY];
    let output = fixture.rpc.run(&ping).await;
    assert_eq!(lines(&output.stdout), ["db1.acme.net"], "{}", describe_output(&output));

    let code = "{ classes: 'common', $where: 'sleep(1)' }";
    let message = fixture.refusal(&["find", "-Q", code]).await;
    assert!(
        message.contains("queries contain no code") && message.contains("column 22"),
        "{message}"
    );
    for (method, option) in
        [("external", "command=/bin/true"), ("puppetdb", "url=http://127.0.0.1:1")]
    {
        let message =
            fixture.refusal(&["find", "--dm", method, "--do", option, "-Q", ARTICLE_QUERY]).await;
        let expected = format!(
            "{method} does not support query documents (-Q); use auto, directory, broadcast or inventory"
        );
        assert!(message.contains(&expected), "{message}");
    }
    let message = fixture.refusal(&["find", "--loose", "-C", "common"]).await;
    assert!(message.contains("--query"), "{message}");
    let explained = fixture.rpc.run(&["filter", "explain", "-Q", ARTICLE_QUERY]).await;
    assert_eq!(
        lines(&explained.stdout),
        [
            r#"nodes whose fact customer equals "acme", whose fact environment equals "development" and that have class "mysql::master""#
        ]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a4_2_operators_find_the_same_nodes_live_and_in_a_file() {
    let fixture = QueryFixture::start().await;
    fixture
        .check(&[
            (&["-Q", "{}"], "db1 db2 web1"),
            (&["-Q", "{ 'facts.ports': 3306 }"], "db1 db2"),
            (&["-Q", "{ 'facts.ports': { $size: 2 }, classes: { $ne: 'apache' } }"], "db1"),
            (
                &["-Q", "{ 'facts.disks': { $elemMatch: { name: 'sda', size: { $gt: 500 } } } }"],
                "db2",
            ),
            (&["-Q", "{ 'facts.disks.size': { $gt: 500 } }"], "db1 db2"),
            (
                &["-Q", "{ $or: [ { identity: /^web/ }, { 'facts.environment': 'production' } ] }"],
                "db2 web1",
            ),
            (&["-Q", "{ $nor: [ { classes: { $in: ['apache', /^none/] } } ] }"], "db1 db2"),
            (&["-Q", "{ 'facts.nosuch': null, agents: 'rpcutil' }"], "db1 db2 web1"),
            (&["-Q", "{ 'facts.nosuch': { $exists: true } }"], ""),
            (&["-Q", "{ 'facts.cpus': { $gte: 8 } }"], "db2"),
            (&["-Q", "{ 'facts.cpus': { $gte: 8 } }", "--loose"], "db2 web1"),
            (&["-Q", "{ 'facts.customer': acme }", "-Q", "{ 'facts.cpus': { $lt: 10 } }"], "db1"),
            (&["-Q", "{ 'facts.customer': acme }", "-F", "environment=production"], "db2"),
            (&["-Q", "{ classes: 'mysql::master' }", "-S", "not cpus=16"], "db1"),
        ])
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a4_3_keys_with_dots_and_dollars_are_found_live_and_in_a_file() {
    let fixture = QueryFixture::start().await;
    fixture
        .check(&[
            (&["-Q", "{ facts.\"a.b\": 1 }"], "db1"),
            (&["-Q", "{ 'facts.a.b': { $gte: 1 } }"], "db1 db2"),
            (&["-Q", "{ 'facts.labels.\"app.io/name\"': 'shop' }"], "db1"),
            (&["-Q", "{ facts.labels.'app.io/name': { $exists: true } }"], "db1 web1"),
            (&["-Q", "{ facts.$cost: '5' }"], "db1"),
            (&["-Q", "{ facts.labels.\"$x\": true }"], "db1"),
        ])
        .await;
}

/// A filter of a later version, as `$pql` is for nodes of earlier ones. Wherever the operator is, and whatever surrounds it would match, nothing is executed
/// and nothing is sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn request_with_an_operator_of_a_later_version_is_refused() {
    const NODE: &str = "node1.example.net";
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker().await;
    let home = DaemonHome::new(&organisation, &organisation.node(NODE), &server.url(), "");
    home.write("conf.d/root.toml", "[paths]\nroot = \"../root\"\n", 0o644);
    home.write("root/tmp/kept", "", 0o644);
    let node = home.start();
    let rpc = RpcCommand::new(&server, &organisation, &organisation.caller("rip"), "");
    poll_until_ok("the node replies", Duration::from_mins(1), async || {
        let output = rpc.run(&["find", "-I", "/./"]).await;
        if output.status.success() { Ok(()) } else { Err(describe_output(&output)) }
    })
    .await;
    let caller = TestCaller::connect(&organisation, &server, organisation.caller("anna")).await;
    let mut request = caller.ping_request();
    request.agent = SubjectName::parse("filemgr").unwrap();
    request.action = SubjectName::parse("touch").unwrap();
    request.target = RequestTarget::Filter(NodeFilter::default());
    let refused = [
        json!({ "query": "{\"$later\":\"nodes { }\"}" }),
        json!({ "query": "{\"$or\":[{\"identity\":\"node1.example.net\"},{\"$later\":1}]}" }),
        json!({ "query": "{\"$nor\":[{\"$later\":\"nodes { }\"}]}" }),
        json!({ "query": "{\"identity\":{\"$not\":{\"$later\":1}}}" }),
        json!({ "later": ["x"] }),
    ];
    // The last one is readable: it shows that the node had read the others.
    let readable = json!({ "query": "{\"identity\":\"node1.example.net\"}" });
    for (number, filter) in refused.iter().chain([&readable]).enumerate() {
        request.id = uuid::Uuid::now_v7();
        request.data = to_object(json!({ "path": format!("/tmp/{number}") }));
        let mut body = serde_json::to_value(&request).unwrap();
        body["target"] = json!({ "filter": filter });
        let signed = sign_envelope(EnvelopeKind::Request, &body, &caller.signer).unwrap();
        caller.count_replies(&TestCaller::request_subject(&request), signed.into()).await;
    }
    // The action takes longer than the ping after it.
    let path = |number: usize| node.home().path(&format!("root/tmp/{number}"));
    await_state("the readable request is executed", || path(refused.len()).exists()).await;
    for (number, filter) in refused.iter().enumerate() {
        assert!(!path(number).exists(), "{filter}");
    }
    assert!(node.log().contains("$later"), "{}", node.log());
}
