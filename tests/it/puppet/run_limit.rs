//! The limit of concurrent runs, measured on the nodes: with the real Puppet, with runs of other programs, and when a
//! permit is lost.

#![expect(clippy::disallowed_types, reason = "starts a process of another program")]

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

use super::puppet_node::{PuppetNode, has_puppet, run_once};

const STATE_TIMEOUT: Duration = Duration::from_mins(1);

struct PuppetLimitFixture {
    organisation: Organisation,
    server: NatsServer,
}

impl PuppetLimitFixture {
    async fn new() -> Self {
        let organisation = Organisation::new(&["muster"]);
        let server = organisation.start_broker_with_stores().await;
        Self { organisation, server }
    }

    async fn permit_client(&self, name: &str) -> PermitClient {
        let signer = self.organisation.node(name);
        let permits = PermitClient::new(signer.identity().clone());
        permits.connect(connect(&self.server, &signer).await);
        permits
    }

    async fn create_plugin(&self, node: &PuppetNode, name: &str) -> (PuppetPlugin, PermitClient) {
        let permits = self.permit_client(name).await;
        (node.create_plugin(permits.clone()), permits)
    }
}

fn pool() -> SubjectName {
    SubjectName::parse("puppet").unwrap()
}

/// The highest number of runs that overlap.
fn max_overlap(outcomes: &[Value]) -> usize {
    let at = |outcome: &Value, name: &str| outcome[name].as_u64().unwrap();
    let starts = outcomes.iter().map(|outcome| at(outcome, "started_at"));
    let during = |time: u64| {
        let is_running = |outcome: &&Value| {
            at(outcome, "started_at") <= time && time < at(outcome, "finished_at")
        };
        outcomes.iter().filter(is_running).count()
    };
    starts.map(during).max().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a2_1_six_real_puppets_run_at_most_two_at_once() {
    if !has_puppet() {
        return;
    }
    let fixture = PuppetLimitFixture::new().await;
    let mut runs = tokio::task::JoinSet::new();
    for number in 0..6 {
        let name = format!("n{number}");
        let node = PuppetNode::new(&name);
        let file = node.path("w/file");
        node.write_catalog(&json!({"name": name, "catalog_format": 1, "environment": "production", "resources": [
            {"type": "File", "title": file, "parameters": {"ensure": "file", "content": "x"}}], "edges": []}));
        let (puppet, _) = fixture.create_plugin(&node, &name).await;
        runs.spawn(async move {
            let outcome = run_once(&puppet, json!({"limit": 2})).await;
            assert_eq!(outcome["class"], "changed", "{outcome}");
            assert!(node.path("w/file").exists());
            outcome
        });
    }
    let outcomes = runs.join_all().await;
    assert_eq!(max_overlap(&outcomes), 2, "{outcomes:#?}");
    let mut fences: Vec<u64> =
        outcomes.iter().map(|outcome| outcome["fence"].as_u64().unwrap()).collect();
    fences.sort_unstable();
    fences.dedup();
    assert_eq!(fences.len(), 6, "each run must have its own fence");
}

/// Waits for a file, and ends on SIGTERM.
const WAITING_PUPPET: &str = "touch \"$(dirname \"$0\")/begun\"; trap 'exit 0' TERM; while [ ! -e \"$(dirname \"$0\")/go\" ]; do sleep 0.05; done";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a2_4_foreign_run_occupies_a_slot_of_the_pool() {
    let fixture = PuppetLimitFixture::new().await;
    let (cron, waits) =
        (PuppetNode::scripted("n1", "exit 1"), PuppetNode::scripted("n2", "exit 1"));
    let (puppet, permits) = fixture.create_plugin(&cron, "n1").await;
    let stop = CancellationToken::new();
    let monitor = puppet.build_monitor(Arc::new(RealSystem::new("/".into())));
    let monitor = tokio::spawn(monitor.run(stop.clone()));
    // Another program runs Puppet on n1: a process of that name holds Puppet's lock.
    let program = cron.path("bin-puppet");
    std::fs::copy("/bin/sleep", &program).unwrap();
    let mut foreign = std::process::Command::new(&program).arg("600").spawn().unwrap();
    std::fs::write(cron.path("var/state/agent_catalog_run.lock"), foreign.id().to_string())
        .unwrap();
    poll_until_ok("n1 occupies a slot", STATE_TIMEOUT, async || {
        let (_, holders, _) =
            permits.inspect_pool(&pool()).await.map_err(|error| error.to_string())?;
        if holders.is_empty() { Err("no holder".to_owned()) } else { Ok(()) }
    })
    .await;
    let (other, _) = fixture.create_plugin(&waits, "n2").await;
    let refused = run_once(&other, json!({"limit": 1, "wait": 1})).await;
    assert_eq!(refused["reason"], "no_permit", "{refused}");
    assert!(refused["error"].as_str().unwrap().contains("n1"), "{refused}");
    foreign.kill().unwrap();
    foreign.wait().unwrap();
    let outcome = run_once(&other, json!({"limit": 1, "wait": 120})).await;
    assert_eq!(
        outcome["reason"], "not_started",
        "the run must get its permit, and the script must fail: {outcome}"
    );
    stop.cancel();
    monitor.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_without_its_permit_is_stopped_and_reported() {
    let fixture = PuppetLimitFixture::new().await;
    let node = PuppetNode::scripted("n1", WAITING_PUPPET);
    let (puppet, permits) = fixture.create_plugin(&node, "n1").await;
    let (outcome, ()) = tokio::join!(run_once(&puppet, json!({"limit": 1})), async {
        poll_until_ok("the run begins", STATE_TIMEOUT, async || {
            node.path("begun").exists().then_some(()).ok_or("not yet")
        })
        .await;
        assert_eq!(permits.revoke_permits(&pool(), None), 1);
    });
    assert_eq!(
        (&outcome["state"], &outcome["reason"]),
        (&json!("aborted"), &json!("fenced")),
        "{outcome}"
    );
    let (_, holders, _) = permits.inspect_pool(&pool()).await.unwrap();
    assert!(holders.is_empty(), "the permit must be free");
    assert!(Duration::from_millis(outcome["finished_at"].as_u64().unwrap()) > Duration::ZERO);
}
