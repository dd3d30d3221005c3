//! The limit holds, measured on the nodes: with the real Puppet, with runs of somebody else, and when a permit is lost.

#![expect(clippy::disallowed_types, reason = "somebody else's process is started")]

use std::sync::Arc;
use std::time::Duration;

use muster_api::system::real::RealSystem;
use muster_permits::PermitClient;
use muster_puppet::PuppetPlugin;
use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::{Organisation, connect};
use muster_tests::poll_until_ok;
use muster_wire::identity::SubjectName;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::rig::{Node, has_puppet, run};

const PATIENCE: Duration = Duration::from_mins(1);

struct World {
    organisation: Organisation,
    server: NatsServer,
}

impl World {
    async fn new() -> Self {
        let organisation = Organisation::new(&["muster"]);
        let server = organisation.start_broker_with_stores().await;
        Self { organisation, server }
    }

    async fn desk(&self, name: &str) -> PermitClient {
        let signer = self.organisation.node(name);
        let desk = PermitClient::new(signer.identity().clone());
        desk.connect(connect(&self.server, &signer).await);
        desk
    }

    async fn puppet(&self, node: &Node, name: &str) -> (PuppetPlugin, PermitClient) {
        let desk = self.desk(name).await;
        (node.puppet(desk.clone()), desk)
    }
}

fn pool() -> SubjectName {
    SubjectName::parse("puppet").unwrap()
}

/// The most runs that went on at the same moment.
fn overlap(outcomes: &[Value]) -> usize {
    let at = |outcome: &Value, name: &str| outcome[name].as_u64().unwrap();
    let starts = outcomes.iter().map(|outcome| at(outcome, "started_at"));
    let during = |moment: u64| {
        let goes_on = |outcome: &&Value| {
            at(outcome, "started_at") <= moment && moment < at(outcome, "finished_at")
        };
        outcomes.iter().filter(goes_on).count()
    };
    starts.map(during).max().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a2_1_six_real_puppets_never_run_more_than_two_at_once() {
    if !has_puppet() {
        return;
    }
    let world = World::new().await;
    let mut runs = tokio::task::JoinSet::new();
    for number in 0..6 {
        let name = format!("n{number}");
        let node = Node::new(&name);
        let file = node.path("w/file");
        node.catalog(&json!({"name": name, "catalog_format": 1, "environment": "production", "resources": [
            {"type": "File", "title": file, "parameters": {"ensure": "file", "content": "x"}}], "edges": []}));
        let (puppet, _) = world.puppet(&node, &name).await;
        runs.spawn(async move {
            let outcome = run(&puppet, json!({"limit": 2})).await;
            assert_eq!(outcome["class"], "changed", "{outcome}");
            assert!(node.path("w/file").exists());
            outcome
        });
    }
    let outcomes = runs.join_all().await;
    assert_eq!(overlap(&outcomes), 2, "{outcomes:#?}");
    let mut fences: Vec<u64> =
        outcomes.iter().map(|outcome| outcome["fence"].as_u64().unwrap()).collect();
    fences.sort_unstable();
    fences.dedup();
    assert_eq!(fences.len(), 6, "each run had a fence of its own");
}

/// Waits for a file, and says nothing that would make the run end by itself.
const ENDLESS: &str = "touch \"$(dirname \"$0\")/begun\"; trap 'exit 0' TERM; while [ ! -e \"$(dirname \"$0\")/go\" ]; do sleep 0.05; done";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a2_4_a_run_that_somebody_else_started_takes_room_in_the_pool() {
    let world = World::new().await;
    let (cron, waits) = (Node::scripted("n1", "exit 1"), Node::scripted("n2", "exit 1"));
    let (puppet, desk) = world.puppet(&cron, "n1").await;
    let stop = CancellationToken::new();
    let resident = puppet.build_monitor(Arc::new(RealSystem::new("/".into())));
    let resident = tokio::spawn(resident.run(stop.clone()));
    // Somebody runs Puppet on n1: a process of that name holds Puppet's lock.
    let program = cron.path("bin-puppet");
    std::fs::copy("/bin/sleep", &program).unwrap();
    let mut foreign = std::process::Command::new(&program).arg("600").spawn().unwrap();
    std::fs::write(cron.path("var/state/agent_catalog_run.lock"), foreign.id().to_string())
        .unwrap();
    poll_until_ok("n1 takes room", PATIENCE, async || {
        let (_, held, _) = desk.inspect_pool(&pool()).await.map_err(|error| error.to_string())?;
        if held.is_empty() { Err("nobody".to_owned()) } else { Ok(()) }
    })
    .await;
    let (other, _) = world.puppet(&waits, "n2").await;
    let refused = run(&other, json!({"limit": 1, "wait": 1})).await;
    assert_eq!(refused["reason"], "no_permit", "{refused}");
    assert!(refused["error"].as_str().unwrap().contains("n1"), "{refused}");
    foreign.kill().unwrap();
    foreign.wait().unwrap();
    let begun = run(&other, json!({"limit": 1, "wait": 120})).await;
    assert_eq!(
        begun["reason"], "not_started",
        "it had its permit, and the script gave up: {begun}"
    );
    stop.cancel();
    resident.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_whose_permit_is_lost_is_ended_and_says_so() {
    let world = World::new().await;
    let node = Node::scripted("n1", ENDLESS);
    let (puppet, desk) = world.puppet(&node, "n1").await;
    let (outcome, ()) = tokio::join!(run(&puppet, json!({"limit": 1})), async {
        poll_until_ok("the run begins", PATIENCE, async || {
            node.path("begun").exists().then_some(()).ok_or("not yet")
        })
        .await;
        assert_eq!(desk.revoke_permits(&pool(), None), 1);
    });
    assert_eq!(
        (&outcome["state"], &outcome["reason"]),
        (&json!("aborted"), &json!("fenced")),
        "{outcome}"
    );
    let (_, held, _) = desk.inspect_pool(&pool()).await.unwrap();
    assert!(held.is_empty(), "and its place is free");
    assert!(Duration::from_millis(outcome["finished_at"].as_u64().unwrap()) > Duration::ZERO);
}
