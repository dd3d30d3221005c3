//! `rpc doctor` with the real command: each problem is reported with its subject and place.

use std::process::Output;

use muster_api::FindingLevel;
use muster_node::ground::clock::WallClock;
use muster_tests::command::RpcCommand;
use muster_tests::fleet::{NodeSetup, TestNode};
use muster_tests::organisation::Organisation;
use muster_wire::token::UserRole;
use serde_json::Value;

/// The findings of one check, as `level: message nodes`.
#[expect(clippy::indexing_slicing, reason = "a missing JSON key is null")]
fn findings(output: &Output, check: &str) -> Vec<String> {
    let document: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    assert_eq!(document["schema"], "muster.doctor.v1");
    let sections = document["sections"].as_array().unwrap();
    let all = sections.iter().flat_map(|section| section["findings"].as_array().unwrap());
    let lines = all.filter(|finding| finding["check"] == check).map(|finding| {
        let text = |key: &str| finding[key].as_str().unwrap_or_default().to_owned();
        let nodes = finding.get("nodes").map(ToString::to_string);
        format!("{}: {} {}", text("level"), text("message"), nodes.unwrap_or_default())
    });
    lines.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn healthy_fleet_has_no_errors() {
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker_with_stores().await;
    organisation.publish_account(&server, &organisation.account_token()).await;
    let node = NodeSetup::new(organisation.node("web1"));
    let _node = TestNode::start(&organisation, &server, node).await;
    let rpc = RpcCommand::new(&server, &organisation, &organisation.caller("rip"), "");
    let output = rpc.run(&["doctor", "-j"]).await;
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["errors"], 0, "{document:#}");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(findings(&output, "server").len(), 1);
    let text = rpc.run(&["doctor"]).await;
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("Fleet: 1 node"), "{text}");
    assert!(!text.contains('\u{1b}'), "output to a pipe must have no colours: {text:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn finds_duplicate_names_wrong_clocks_and_node_findings() {
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker().await;
    let copied = organisation.node("web1");
    let mut slow = NodeSetup::new(organisation.node("db1"));
    slow.clock = WallClock::new(|| muster_tests::now() - 25_000);
    let one = TestNode::start(&organisation, &server, NodeSetup::new(copied.clone())).await;
    let _copy = TestNode::start(&organisation, &server, NodeSetup::new(copied)).await;
    let slow_node = TestNode::start(&organisation, &server, slow).await;
    let findings_of_node = ["service.policy:3: there is no group `ops`".to_owned()];
    slow_node.core.health.set_findings("policies", FindingLevel::Error, &findings_of_node);
    one.core.health.set_findings("facts", FindingLevel::Warning, &[]);

    let rpc = RpcCommand::new(&server, &organisation, &organisation.caller("rip"), "");
    let output = rpc.run(&["doctor", "-j"]).await;
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        findings(&output, "identities"),
        ["error: more than one daemon replies under the same name [\"web1\"]"]
    );
    let clocks = findings(&output, "clocks");
    assert!(clocks.len() == 1 && clocks[0].starts_with("warning: up to 2"), "{clocks:?}");
    assert!(clocks[0].ends_with("[\"db1\"]"), "{clocks:?}");
    assert_eq!(
        findings(&output, "policies"),
        ["error: service.policy:3: there is no group `ops` [\"db1\"]"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn local_problems_are_reported_separately() {
    let mut organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker().await;
    let node = NodeSetup::new(organisation.node("web1"));
    let _node = TestNode::start(&organisation, &server, node).await;

    let restricted = organisation.user(UserRole::Caller, "blind", &["agent:service"]);
    let output =
        RpcCommand::new(&server, &organisation, &restricted, "").run(&["doctor", "-j"]).await;
    assert_eq!(output.status.code(), Some(1));
    assert!(findings(&output, "permissions")[0].starts_with("error: "));

    let caller = RpcCommand::new(&server, &organisation, &organisation.caller("rip"), "");
    set_mode(&caller.home().join("caller.creds"), 0o644);
    let output = caller.run(&["doctor", "-j"]).await;
    assert_eq!(output.status.code(), Some(1));
    let found = findings(&output, "credentials");
    assert!(
        found[0].contains("is accessible to other users (mode 0644); run `chmod 600 "),
        "{found:?}"
    );

    let revoked = organisation.caller("gone");
    organisation.revoke_user(&revoked);
    let output = RpcCommand::new(&server, &organisation, &revoked, "").run(&["doctor", "-j"]).await;
    let found = findings(&output, "credentials");
    assert!(found[0].contains("revoked"), "{found:?}");

    let url = server.url();
    drop(server);
    let config = caller.home().join("rpc.toml");
    assert!(std::fs::read_to_string(config).unwrap().contains(&url));
    let output = caller.run(&["doctor", "-j"]).await;
    let found = findings(&output, "connection");
    assert!(found[0].contains("no address accepts a connection"), "{found:?}");
}

fn set_mode(path: &std::path::Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}
