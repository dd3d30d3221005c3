//! `rpc doctor` with the real command: what is wrong is named, with what and where.

use std::process::Output;

use muster_agent::clock::WallClock;
use muster_api::FindingLevel;
use muster_tests::command::Command;
use muster_tests::fleet::{Blueprint, TestNode};
use muster_tests::organisation::Organisation;
use muster_wire::token::UserRole;
use serde_json::Value;

/// The findings of one check, as `level: message nodes`.
#[expect(clippy::indexing_slicing, reason = "what is missing is null")]
fn findings(output: &Output, check: &str) -> Vec<String> {
    let document: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    assert_eq!(document["schema"], "muster.doctor.v1");
    let sections = document["sections"].as_array().unwrap();
    let all = sections.iter().flat_map(|section| section["findings"].as_array().unwrap());
    let told = all.filter(|finding| finding["check"] == check).map(|finding| {
        let text = |key: &str| finding[key].as_str().unwrap_or_default().to_owned();
        let nodes = finding.get("nodes").map(ToString::to_string);
        format!("{}: {} {}", text("level"), text("message"), nodes.unwrap_or_default())
    });
    told.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_healthy_fleet_has_nothing_to_complain_of() {
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.broker().await;
    let node = Blueprint::new(organisation.node("web1"));
    let _node = TestNode::start(&organisation, &server, node).await;
    let rpc = Command::new(&server, &organisation, &organisation.caller("rip"), "");
    let output = rpc.run(&["doctor", "-j"]).await;
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["errors"], 0, "{document:#}");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(findings(&output, "server").len(), 1);
    let text = rpc.run(&["doctor"]).await;
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("Fleet: 1 node"), "{text}");
    assert!(!text.contains('\u{1b}'), "a pipe gets no colours: {text:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn doubles_wrong_clocks_and_what_nodes_say_of_themselves_are_found() {
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.broker().await;
    let copied = organisation.node("web1");
    let mut slow = Blueprint::new(organisation.node("db1"));
    slow.clock = WallClock::new(|| muster_tests::now() - 20_000);
    let one = TestNode::start(&organisation, &server, Blueprint::new(copied.clone())).await;
    let _copy = TestNode::start(&organisation, &server, Blueprint::new(copied)).await;
    let sick = TestNode::start(&organisation, &server, slow).await;
    let words = ["service.policy:3: there is no group `ops`".to_owned()];
    sick.core.health.set_findings("policies", FindingLevel::Error, &words);
    one.core.health.set_findings("facts", FindingLevel::Warning, &[]);

    let rpc = Command::new(&server, &organisation, &organisation.caller("rip"), "");
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
async fn trouble_on_this_side_is_told_apart() {
    let mut organisation = Organisation::new(&["muster"]);
    let server = organisation.broker().await;
    let node = Blueprint::new(organisation.node("web1"));
    let _node = TestNode::start(&organisation, &server, node).await;

    let blind = organisation.user(UserRole::Caller, "blind", &["agent:service"]);
    let output = Command::new(&server, &organisation, &blind, "").run(&["doctor", "-j"]).await;
    assert_eq!(output.status.code(), Some(1));
    assert!(findings(&output, "permissions")[0].starts_with("error: "));

    let open = Command::new(&server, &organisation, &organisation.caller("rip"), "");
    set_mode(&open.home().join("caller.creds"), 0o644);
    let output = open.run(&["doctor", "-j"]).await;
    assert_eq!(output.status.code(), Some(1));
    let found = findings(&output, "credentials");
    assert!(
        found[0].contains("is accessible to other users (mode 0644); run `chmod 600 "),
        "{found:?}"
    );

    let gone = organisation.caller("gone");
    organisation.revoke(&gone);
    let output = Command::new(&server, &organisation, &gone, "").run(&["doctor", "-j"]).await;
    let found = findings(&output, "credentials");
    assert!(found[0].contains("revoked"), "{found:?}");

    let url = server.url();
    drop(server);
    let closed = open.home().join("rpc.toml");
    assert!(std::fs::read_to_string(closed).unwrap().contains(&url));
    let output = open.run(&["doctor", "-j"]).await;
    let found = findings(&output, "connection");
    assert!(found[0].contains("no address accepts a connection"), "{found:?}");
}

fn set_mode(path: &std::path::Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}
