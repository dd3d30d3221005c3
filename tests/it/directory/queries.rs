//! What the directory knows, as `rpc find`, `rpc nodes`, `rpc node` and requests show it.

use std::time::Duration;

use muster_tests::command::{RpcCommand, describe_output};
use muster_tests::poll_until_ok;
use muster_tests::published_schemas::{SchemaMode, check_schema};
use serde_json::{Value, json};

use super::fixture::{DirectoryFixture, FleetNode, lines};

const NAMES: [&str; 4] = ["db1.acme.net", "db2.acme.net", "dir1.acme.net", "web1.initech.net"];

struct QueryFleet {
    fleet: DirectoryFixture,
    _nodes: [FleetNode; 4],
}

impl QueryFleet {
    async fn start() -> Self {
        let fleet = DirectoryFixture::start().await;
        let nodes = [
            fleet.start_directory("dir1.acme.net", "directory1"),
            fleet.start_node(
                "web1.initech.net",
                r#"{"customer": "initech", "environment": "development", "a.b": 1}"#,
                "common\napache\n",
            ),
            fleet.start_node(
                "db2.acme.net",
                r#"{"customer": "acme", "environment": "production", "cpus": 16}"#,
                "common\nmysql::master\n",
            ),
            fleet.start_node(
                "db1.acme.net",
                r#"{"customer": "acme", "environment": "development", "cpus": 4, "secret": {"key": "x"}}"#,
                "common\nMysql::Master\n",
            ),
        ];
        fleet.await_present(&NAMES).await;
        Self { fleet, _nodes: nodes }
    }

    /// The standard output of a command with this exit code, by line.
    async fn run(&self, arguments: &[&str], code: i32) -> Vec<String> {
        let output = self.fleet.rpc.run(arguments).await;
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", describe_output(&output));
        lines(&output.stdout)
    }

    /// Checks the JSON documents against their published schemas.
    async fn check_documents(&self) {
        let commands: [(&str, &[&str]); 3] = [
            ("muster.registered-nodes.v1", &["nodes", "--fields", "customer"]),
            ("muster.registered-facets.v1", &["nodes", "--facets", "customer"]),
            ("muster.node.v1", &["node", "db1.acme.net", "--verify"]),
        ];
        for (schema, arguments) in commands {
            let (document, code) = self.fleet.rpc.run_json(arguments).await;
            assert_eq!(code, 0, "{document}");
            check_schema(schema, &document, SchemaMode::Strict).unwrap();
        }
    }

    async fn errors(&self, arguments: &[&str], code: i32) -> String {
        let output = self.fleet.rpc.run(arguments).await;
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", describe_output(&output));
        String::from_utf8_lossy(&output.stderr).into_owned()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a4_4_names_and_documents_are_sorted_and_exit_codes_tell_none_and_several() {
    let fleet = QueryFleet::start().await;
    fleet.check_documents().await;
    assert_eq!(fleet.run(&["find", "--dm", "directory"], 0).await, NAMES);
    assert_eq!(fleet.run(&["nodes", "-o", "name"], 0).await, NAMES);
    let masters = ["-Q", "{ 'facts.customer': acme, classes: 'mysql::master' }"];
    assert_eq!(fleet.run(&[&["find"], &masters[..]].concat(), 0).await, NAMES[..2]);
    assert_eq!(fleet.run(&["find", "-F", "customer=none"], 1).await, [""; 0]);
    assert_eq!(fleet.run(&["nodes", "-F", "customer=none"], 1).await, ["NODE  STATE  SEEN"]);

    // Full documents, also of all that a node has told.
    let (document, code) = fleet.fleet.rpc.run_json(&["node", "db1.acme.net", "--verify"]).await;
    assert_eq!(code, 0, "{document:#}");
    assert_eq!(document["verified"], true);
    assert_eq!(document["classes"], json!(["common", "mysql::master"]));
    assert_eq!(document["facts"]["cpus"], 4);
    assert!(document["agents"].get("rpcutil").is_some(), "{document:#}");
    let message = fleet.errors(&["node", "db9.acme.net"], 1).await;
    assert!(message.contains("knows no node `db9.acme.net`"), "{message}");

    // Nodes as arguments: short names, ranges, and names together with conditions.
    assert_eq!(fleet.run(&["find", "db1", "web[1-9].initech.net"], 0).await, [NAMES[0], NAMES[3]]);
    assert_eq!(fleet.run(&["nodes", "-o", "name", "db[1-9].acme.net"], 0).await, NAMES[..2]);
    assert_eq!(fleet.run(&["find", "db", "d"], 1).await, [""; 0]);
    assert_eq!(fleet.run(&["find", "web1", "-F", "customer=acme"], 1).await, [""; 0]);

    let (document, code) = fleet.fleet.rpc.run_json(&["node", "web1"]).await;
    assert_eq!(code, 0, "the short name of a node that was seen: {document:#}");

    // One node, or a failure that says how many there are.
    let one =
        ["find", "--exactly-one", "-W", "environment=development customer=acme mysql::master"];
    assert_eq!(fleet.run(&one, 0).await, ["db1.acme.net"]);
    let several = [&["find", "--exactly-one"], &masters[..]].concat();
    assert_eq!(fleet.run(&several, 2).await, [""; 0]);
    let message = fleet.errors(&several, 2).await;
    assert!(message.contains("2 nodes match") && message.contains("db1.acme.net"), "{message}");
    assert_eq!(fleet.run(&["find", "--one", "-F", "customer=none"], 1).await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a4_4_selected_fields_values_and_requests_come_from_the_directory() {
    let fleet = QueryFleet::start().await;
    let query = ["nodes", "-F", "customer=acme", "--fields", "cpus,environment"];
    let (document, _) = fleet.fleet.rpc.run_json(&query).await;
    let fields = |index: usize| document["nodes"][index]["fields"].clone();
    assert_eq!(fields(0), json!({"cpus": 4, "environment": "development"}));
    assert_eq!(fields(1), json!({"cpus": 16, "environment": "production"}));

    let sorted = fleet.run(&["nodes", "-o", "name", "-C", "common", "--sort=-cpus"], 0).await;
    assert_eq!(sorted, ["db2.acme.net", "db1.acme.net", "web1.initech.net"]);
    let path = "jsonpath={.nodes[?@.fields.cpus > 8].node}";
    let selected = fleet.run(&["nodes", "--fields", "cpus", "-o", path], 0).await;
    assert_eq!(selected, ["db2.acme.net"]);
    let yaml = fleet.run(&["nodes", "-C", "apache", "-o", "yaml"], 0).await;
    assert!(yaml.contains(&"- node: web1.initech.net".to_owned()), "{yaml:?}");

    let counted = fleet.run(&["nodes", "--facets", "environment"], 0).await;
    let expected = ["NODES  VALUE", "2      development", "1      production", "1      (no value)"];
    assert_eq!(counted, expected);

    let unknown = fleet.errors(&["nodes", "--fields", "enviroment,cpus"], 0).await;
    assert_eq!(unknown, "warning: no listed node has `enviroment`\n");
    let nowhere = fleet.errors(&["nodes", "--facets", "enviroment"], 1).await;
    assert!(nowhere.contains("none of 4 nodes has a value of the fact `enviroment`"), "{nowhere}");

    let found = fleet.run(&["rpcutil", "ping", "--senders", "-F", "cpus>8"], 0).await;
    assert_eq!(found, ["db2.acme.net"]);
    let message = fleet.errors(&["find", "-v", "-C", "apache"], 0).await;
    assert!(message.contains("using the directory discovery method"), "{message}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a4_6_live_stored_and_file_give_equal_answers() {
    let fleet = QueryFleet::start().await;
    let file = fleet.fleet.rpc.path("fleet.json");
    let export = ["inventory", "--export", file.to_str().unwrap()];
    let exported = fleet.fleet.rpc.run(&export).await;
    assert!(exported.status.success(), "{}", describe_output(&exported));
    let option = format!("file={}", file.display());
    let filters: [&[&str]; 9] = [
        &[],
        &["-W", "environment=development customer=acme mysql::master"],
        &["-F", "cpus>=4", "-A", "rpcutil"],
        &["-F", "environment!=production"],
        &["-C", "/^my/"],
        &["-I", "/^db/"],
        &["-S", "apache or (customer=acme and not cpus=16)"],
        &["-Q", "{ facts.\"a.b\": 1 }"],
        &["-Q", "{ 'facts.cpus': { $exists: false }, classes: { $nin: ['nosuch'] } }"],
    ];
    for filter in filters {
        let mut answers = Vec::new();
        for method in
            [&["--dm", "directory"][..], &["--dm", "mc"], &["--dm", "inventory", "--do", &option]]
        {
            let output = fleet.fleet.rpc.run(&[&["find"], filter, method].concat()).await;
            answers.push((lines(&output.stdout), output.status.code()));
        }
        assert!(!answers[0].0.is_empty(), "{filter:?}: {answers:?}");
        assert_eq!(answers[0], answers[1], "{filter:?}");
        assert_eq!(answers[0], answers[2], "{filter:?}");
    }
}

/// Excluded facts are not published, and hashed ones can be compared but not read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn excluded_and_hashed_facts_stay_on_the_node() {
    let fleet = DirectoryFixture::start().await;
    let _directory = fleet.start_directory("dir1.acme.net", "directory1");
    let signer = fleet.organisation.node("db1.acme.net");
    let facts = r#"{"token": "hunter2", "owner": {"mail": "rip@example.net", "name": "rip"}}"#;
    let home = fleet.node_home(&signer, facts, "");
    let options = "[registration]\nexcluded_facts = [\"token\"]\nhashed_facts = [\"owner.m*\"]\n";
    home.write("conf.d/test2.toml", options, 0o644);
    let _node = home.start();
    fleet.await_present(&["db1.acme.net", "dir1.acme.net"]).await;
    let (document, code) = fleet.rpc.run_json(&["node", "db1.acme.net", "--verify"]).await;
    assert_eq!(code, 0);
    let facts = &document["facts"];
    assert_eq!(facts.get("token"), None);
    assert_eq!(facts["owner"]["name"], "rip");
    let hashed = facts["owner"]["mail"].as_str().unwrap();
    assert!(hashed.starts_with("sha256:") && !hashed.contains("rip"), "{hashed}");
}

/// A changed fact and a changed class are in the directory without a restart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changed_facts_and_classes_are_published() {
    let fleet = DirectoryFixture::start().await;
    let _directory = fleet.start_directory("dir1.acme.net", "directory1");
    let node = fleet.start_node("db1.acme.net", r#"{"tier": "test"}"#, "common\n");
    fleet.await_present(&["db1.acme.net", "dir1.acme.net"]).await;
    node.daemon.home().write("facts.d/site.json", r#"{"tier": "production"}"#, 0o644);
    node.daemon.home().write("classes.txt", "common\napache\n", 0o644);
    node.reload();
    poll_until_ok("the change is known", Duration::from_mins(1), async || {
        let output = fleet.rpc.run(&["find", "-F", "tier=production", "-C", "apache"]).await;
        match lines(&output.stdout).as_slice() {
            [name] if name == "db1.acme.net" => Ok(()),
            _ => Err(describe_output(&output)),
        }
    })
    .await;
    let (document, _) = fleet.rpc.run_json(&["node", "db1.acme.net"]).await;
    assert_eq!(document["facts"]["tier"], Value::from("production"));
}

/// Completion offers nodes that no command has seen yet. Without a directory it is silent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn completion_offers_nodes_of_the_directory() {
    let mut fleet = DirectoryFixture::start().await;
    let complete = async |rpc: &RpcCommand, line: &str| {
        let output = rpc.run(&["complete", "bash", "--", line]).await;
        assert!(
            output.status.success() && output.stderr.is_empty(),
            "{}",
            describe_output(&output)
        );
        lines(&output.stdout)
    };
    assert_eq!(complete(&fleet.rpc, "rpc find -I db").await, [""; 0]);
    let _directory = fleet.start_directory("dir1.acme.net", "directory1");
    let _node = fleet.start_node("db1.acme.net", "{}", "");
    fleet.await_present(&["db1.acme.net", "dir1.acme.net"]).await;
    // Another caller, without a cache.
    fleet.rpc = RpcCommand::new(&fleet.server, &fleet.organisation, &fleet.caller, "");
    // Completion waits for the directory for 300 ms only, and offers nothing after that: the user presses the key again.
    for (line, node) in [("rpc find -I db", "db1.acme.net"), ("rpc node di", "dir1.acme.net")] {
        poll_until_ok("completion offers the node", Duration::from_mins(1), async || {
            let offered = complete(&fleet.rpc, line).await;
            if offered == [node] { Ok(()) } else { Err(offered) }
        })
        .await;
    }
    assert_eq!(complete(&fleet.rpc, "rpc node /d").await, [""; 0]);
}
