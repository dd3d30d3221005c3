//! Organisations of the earlier version, before and after `rpc org push` of this one, and organisations of this version.

use std::time::Duration;

use muster_tests::command::describe_output;
use muster_tests::poll_until_ok;
use muster_tests::program_version::ProgramVersion::{self, Earlier, Present};
use muster_tests::rpcd::DaemonHome;
use serde_json::json;

use super::fixture::{CENTRAL_SERVICES, SkewFleet, start_daemon};
use super::matrix::{ALL_NODES, EARLIER_NODE, PRESENT_NODE, SkewCell, SkewNodes, senders};

/// What the token of a service of this version has, and that of an earlier one has not.
const NO_RIGHT: &str = "have no right to serve `directory`";

/// Both versions serve an organisation of this version.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn organisation_of_this_version_serves_both() {
    let fleet = SkewFleet::create(Present).await;
    let nodes = SkewNodes::start(&fleet, Present).await;
    add_services(&fleet, Present, &[]).await;
    fleet.enable_services(&nodes.central);
    fleet.run(Present, &["org", "push"]).await;
    add_first_schedule(&fleet, &nodes, Present).await;
    nodes.check_services(&fleet).await;
    assert_earlier_commands_are_refused(&fleet).await;
    compare_jobs(&fleet).await;
}

/// Nodes and `rpc` of this version work in an organisation of the earlier version, as long as nothing of the organisation is upgraded. Its directory serves
/// `rpc` of the earlier version only.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn organisation_of_the_earlier_version_serves_both() {
    let fleet = SkewFleet::create(Earlier).await;
    let nodes = SkewNodes::start(&fleet, Earlier).await;
    add_services(&fleet, Earlier, &[]).await;
    fleet.enable_services(&nodes.central);
    assert_directory_is_refused(&nodes.central).await;

    let _host = start_daemon(&nodes.central, Earlier).await;
    fleet.await_registered(Earlier, &ALL_NODES).await;
    let demanded = fleet.output(Present, &["find", "--dm", "directory"]).await;
    let printed = describe_output(&demanded);
    assert!(!demanded.status.success() && printed.contains("without the right to"), "{printed}");
    assert!(printed.contains("rpc org add service directory1 --serve directory --renew"));
    // Without that demand, the nodes are asked.
    let found = fleet.lines(Present, &["find", "-F", "site=earlier"]).await;
    assert_eq!(found, [EARLIER_NODE]);
    for caller in ProgramVersion::BOTH {
        let cell = SkewCell { fleet: &fleet, caller, directory: Earlier };
        cell.check_ping().await;
        cell.check_read().await;
        cell.check_change().await;
        cell.check_denial().await;
        cell.check_discovery("broadcast").await;
        cell.check_large_reply().await;
        cell.check_late_reply().await;
    }
    let cell = SkewCell { fleet: &fleet, caller: Earlier, directory: Earlier };
    cell.check_discovery("directory").await;
}

/// `rpc org push` moves the stores, and the nodes connect again. With new credentials of its service, the directory of either version serves both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn upgraded_organisation_serves_both() {
    let fleet = SkewFleet::create(Earlier).await;
    let nodes = SkewNodes::start(&fleet, Earlier).await;
    add_services(&fleet, Earlier, &[]).await;
    fleet.enable_services(&nodes.central);
    add_first_schedule(&fleet, &nodes, Earlier).await;
    let mut host = start_daemon(&nodes.central, Earlier).await;
    fleet.await_registered(Earlier, &ALL_NODES).await;

    let pushed = fleet.run(Present, &["org", "push"]).await;
    assert!(pushed.contains("moved the stores to an account of their own"), "{pushed}");
    for (_, service) in CENTRAL_SERVICES {
        let named = format!("the credentials of the service {service} have no right");
        assert!(pushed.contains(&named), "{pushed}");
    }
    for caller in ProgramVersion::BOTH {
        assert_only_services_are_refused(&fleet, caller).await;
    }
    host.stop_and_wait().await;

    add_services(&fleet, Present, &["--renew"]).await;
    fleet.enable_services(&nodes.central);
    let pushed = fleet.run(Present, &["org", "push"]).await;
    assert!(!pushed.contains("have no right"), "{pushed}");
    nodes.check_services(&fleet).await;
    assert_earlier_commands_are_refused(&fleet).await;
}

/// The broker has closed all connections once. The nodes come back and answer, and are found without the directory, which the broker refuses.
async fn assert_only_services_are_refused(fleet: &SkewFleet, caller: ProgramVersion) {
    poll_until_ok("all nodes are connected again", Duration::from_mins(1), async || {
        let (document, code) = fleet.run_json(caller, &["ping"]).await;
        let is_complete = senders(&document) == ALL_NODES && code == 0;
        if is_complete { Ok(()) } else { Err(document) }
    })
    .await;
    let demanded = fleet.output(caller, &["find", "--dm", "directory"]).await;
    assert!(!demanded.status.success(), "{}", describe_output(&demanded));
    let found = fleet.lines(caller, &["find", "-F", "site=present"]).await;
    assert_eq!(found, [PRESENT_NODE]);
}

/// Creates credentials for the services. Those of the earlier version have no rights.
async fn add_services(fleet: &SkewFleet, version: ProgramVersion, more: &[&str]) {
    for (right, service) in CENTRAL_SERVICES {
        let rights = if version == Present { &["--serve", right][..] } else { &[] };
        fleet.run(version, &[&["org", "add", "service", service], rights, more].concat()).await;
    }
}

/// Adds a schedule while the services run in this version.
async fn add_first_schedule(fleet: &SkewFleet, nodes: &SkewNodes, version: ProgramVersion) {
    let mut host = start_daemon(&nodes.central, version).await;
    muster_tests::await_state("the scheduler leads", || host.log().contains("became the leader"))
        .await;
    fleet.await_registered(version, &ALL_NODES).await;
    SkewNodes::add_schedule(fleet, version).await;
    host.stop_and_wait().await;
}

/// The daemon of this version does not start with credentials of the earlier version for its directory, and says what to do.
async fn assert_directory_is_refused(home: &DaemonHome) {
    let mut host = home.clone().start_version(Present);
    muster_tests::await_state("the daemon ends", || !host.is_running()).await;
    assert_eq!(host.exit_status().unwrap().code(), Some(1), "{}", host.log());
    assert!(host.log().contains(NO_RIGHT), "{}", host.log());
    assert!(host.log().contains("rpc org add service directory1 --serve directory --renew"));
}

/// Commands of the earlier version refuse the directory of an organisation of this version before they change anything.
async fn assert_earlier_commands_are_refused(fleet: &SkewFleet) {
    let files =
        || ["account.jwt", "organisation.toml", "issued.jsonl"].map(|name| read(fleet, name));
    let before = files();
    for command in [&["org", "push"][..], &["org", "list"], &["org", "add", "user", "eve"]] {
        let refused = fleet.output(Earlier, command).await;
        let printed = describe_output(&refused);
        assert_eq!(refused.status.code(), Some(1), "{printed}");
        assert!(printed.contains("storage_account"), "{command:?}: {printed}");
    }
    assert_eq!(files(), before);
}

fn read(fleet: &SkewFleet, name: &str) -> String {
    std::fs::read_to_string(fleet.path("acme").join(name)).unwrap()
}

/// Each version lists the jobs of both.
async fn compare_jobs(fleet: &SkewFleet) {
    let mut lists = Vec::new();
    for version in ProgramVersion::BOTH {
        let (document, code) = fleet.run_json(version, &["job", "list"]).await;
        assert_eq!(code, 0, "{document}");
        let jobs = document["jobs"].as_array().unwrap();
        assert!(jobs.len() > 4, "{document}");
        let ids: Vec<_> = jobs.iter().map(|job| job["id"].clone()).collect();
        for id in &ids {
            let shown = fleet.run_json(version, &["job", "show", id.as_str().unwrap()]).await.0;
            let replies = shown["replies"].as_array().map(Vec::len);
            assert!(replies.is_some(), "{version:?}: {shown}");
        }
        lists.push(json!(ids));
    }
    assert_eq!(lists[0], lists[1]);
}
