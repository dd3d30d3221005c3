//! What changed on a node, and when: `rpc node --history` and `--diff`.

use std::time::Duration;

use muster_tests::command::describe_output;
use muster_tests::poll_until_ok;
use muster_tests::published_schemas::{SchemaMode, check_schema};
use serde_json::{Value, json};

use super::fixture::{DirectoryFixture, FleetNode, lines};

const NODE: &str = "db1.acme.net";

/// Waits until the directory knows this fact of the node.
async fn await_fact(fleet: &DirectoryFixture, fact: &str) {
    poll_until_ok(fact, Duration::from_mins(1), async || {
        let output = fleet.rpc.run(&["find", "--dm", "directory", "-F", fact]).await;
        if lines(&output.stdout) == [NODE] { Ok(()) } else { Err(describe_output(&output)) }
    })
    .await;
}

async fn read_changes(fleet: &DirectoryFixture) -> Vec<Value> {
    let (document, code) = fleet.rpc.run_json(&["node", NODE, "--history"]).await;
    check_schema("muster.node-history.v1", &document, SchemaMode::Strict).unwrap();
    let changes = document["changes"].as_array().unwrap().clone();
    assert_eq!(code, i32::from(changes.is_empty()), "{document:#}");
    changes
}

/// A change is kept when the node, the directory and the broker's connection start again. Facts that always change are in no change, and neither
/// is what the configuration excludes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_facts_and_classes_are_kept_across_restarts() {
    let fleet = DirectoryFixture::start().await;
    let mut directory = fleet.start_directory("dir1.acme.net", "directory1");
    let signer = fleet.organisation.node(NODE);
    let start = |facts: &str, classes: &str| {
        let home = fleet.node_home(&signer, facts, classes);
        home.write("conf.d/secret.toml", "[registration]\nexcluded_facts = [\"token\"]\n", 0o644);
        FleetNode { signer: signer.clone(), daemon: home.start() }
    };
    let mut node = start(
        r#"{"tier": "test", "token": "hunter1", "os": {"release": "12.5"}}"#,
        "common\nntp\n",
    );
    await_fact(&fleet, "tier=test").await;
    assert_eq!(read_changes(&fleet).await, [Value::Null; 0]);
    let output = fleet.rpc.run(&["node", NODE, "--history"]).await;
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(message.contains("db1.acme.net has noted no change yet"), "{message}");

    // A change while the daemon runs.
    node.daemon.home().write(
        "facts.d/site.json",
        r#"{"tier": "stage", "token": "hunter2", "os": {"release": "12.6"}}"#,
        0o644,
    );
    node.daemon.home().write("classes.txt", "apache\ncommon\n", 0o644);
    node.reload();
    await_fact(&fleet, "tier=stage").await;

    // A change while it was down, and a directory that has seen none of it.
    node.daemon.kill_and_wait();
    directory.daemon.kill_and_wait();
    let directory = fleet.start_directory("dir1.acme.net", "directory2");
    let node = start(
        r#"{"tier": "test", "token": "hunter3", "os": {"release": "12.6"}}"#,
        "apache\ncommon\n",
    );
    await_fact(&fleet, "tier=test").await;

    let changes = read_changes(&fleet).await;
    // Classes may be read after facts, then they are a change of their own.
    let values: Vec<Value> =
        changes.iter().flat_map(|change| change["values"].as_array().unwrap().clone()).collect();
    let value = |path: &str, before: Value, after: Value| {
        let mut value = json!({ "path": path });
        for (name, side) in [("before", before), ("after", after)] {
            if !side.is_null() {
                value[name] = side;
            }
        }
        value
    };
    let expected = [
        value("classes", "ntp".into(), Value::Null),
        value("classes", Value::Null, "apache".into()),
        value("facts.os.release", "12.5".into(), "12.6".into()),
        value("facts.tier", "test".into(), "stage".into()),
        value("facts.tier", "stage".into(), "test".into()),
    ];
    for expected in &expected {
        assert!(values.contains(expected), "{expected} in {values:#?}");
    }
    assert_eq!(values.len(), expected.len(), "{values:#?}");
    assert!(!values.iter().any(|value| value.to_string().contains("hunter")), "{values:#?}");

    // The text, and what differs between two times.
    let output = fleet.rpc.run(&["node", NODE, "--history"]).await;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.starts_with("TIME ") && text.contains("12.5 -> 12.6"), "{text}");
    let (document, code) = fleet.rpc.run_json(&["node", NODE, "--diff", "1h", "now"]).await;
    check_schema("muster.node-difference.v1", &document, SchemaMode::Strict).unwrap();
    assert_eq!((code, &document["complete"]), (0, &json!(true)), "{document:#}");
    let differences = json!([expected[1], expected[0], expected[2]]);
    assert_eq!(document["values"], differences, "the tier is again what it was");
    let output = fleet.rpc.run(&["node", NODE, "--diff", "2001-01-01", "2001-02-01"]).await;
    assert_eq!(output.status.code(), Some(1), "{}", describe_output(&output));
    let output = fleet.rpc.run(&["node", NODE, "--diff", "tomorrow", "now"]).await;
    assert_eq!(output.status.code(), Some(4), "{}", describe_output(&output));
    drop((node, directory));
}
