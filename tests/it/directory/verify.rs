//! `rpc find --verify`: the directory and the nodes agree, or each difference is named.

use std::time::Duration;

use muster_tests::command::describe_output;
use muster_tests::poll_until_ok;
use muster_tests::published_schemas::{SchemaMode, check_schema};
use serde_json::json;

use super::fixture::{DirectoryFixture, FleetNode, lines};

const SILENT: &str = "db1.acme.net  is registered and does not answer";
const UNREGISTERED: &str = "new1.acme.net  answers and is not registered";

/// A node that does not register itself.
fn start_unregistered_node(fleet: &DirectoryFixture) -> FleetNode {
    let signer = fleet.organisation.node("new1.acme.net");
    let home = fleet.node_home(&signer, "{}", "common\n");
    home.write("conf.d/unregistered.toml", "[registration]\nenabled = false\n", 0o644);
    FleetNode { signer, daemon: home.start() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn differences_between_directory_and_nodes_are_named() {
    let fleet = DirectoryFixture::start().await;
    let _directory = fleet.start_directory("dir1.acme.net", "directory1");
    let mut database = fleet.start_node("db1.acme.net", r#"{"tier": "test"}"#, "common\n");
    fleet.await_present(&["db1.acme.net", "dir1.acme.net"]).await;
    let await_lines = async |arguments: &[&str], code: i32, expected: &[&str]| {
        poll_until_ok("the differences", Duration::from_mins(1), async || {
            let output = fleet.rpc.run(&[&["find", "--verify"], arguments].concat()).await;
            let is_expected =
                lines(&output.stdout) == expected && output.status.code() == Some(code);
            if is_expected { Ok(()) } else { Err(describe_output(&output)) }
        })
        .await;
    };
    await_lines(&[], 0, &[]).await;
    await_lines(&["-F", "tier=test"], 0, &[]).await;
    await_lines(&["-F", "tier=production"], 0, &[]).await;

    let _new = start_unregistered_node(&fleet);
    await_lines(&[], 2, &[UNREGISTERED]).await;
    database.daemon.kill_and_wait();
    await_lines(&[], 2, &[SILENT, UNREGISTERED]).await;
    await_lines(&["-F", "tier=test"], 2, &[SILENT]).await;
    let (document, code) = fleet.rpc.run_json(&["find", "--verify"]).await;
    assert_eq!(code, 2, "{document:#}");
    assert_eq!(document["silent"], json!(["db1.acme.net"]));
    assert_eq!(document["unregistered"], json!(["new1.acme.net"]));
    check_schema("muster.verified-nodes.v1", &document, SchemaMode::Strict).unwrap();
}
