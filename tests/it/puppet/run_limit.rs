//! The limit of concurrent runs, measured on the nodes: with the real Puppet, with runs of other programs, and when a
//! permit is lost.

#![expect(clippy::disallowed_types, reason = "starts a process of another program")]

use std::sync::Arc;
use std::time::Duration;

use muster_api::system::real::RealSystem;
use muster_puppet::PuppetPlugin;
use muster_puppet::permits::{PermitClient, PermitRequest};
use muster_tests::command::{RpcCommand, describe_output};
use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::{Organisation, connect};
use muster_tests::rpcd::Rpcd;
use muster_tests::{await_state, poll_until_ok};
use muster_wire::identity::SubjectName;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::puppet_node::{PuppetNode, context, has_puppet, run_once};

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

impl PuppetLimitFixture {
    /// The real `rpc`.
    fn rpc(&self) -> RpcCommand {
        let caller = self.organisation.caller("rip");
        RpcCommand::new(&self.server, &self.organisation, &caller, "confirm = \"never\"")
    }

    async fn start_daemon(&self, node: &PuppetNode, rpc: &RpcCommand) -> Rpcd {
        node.start_daemon((&self.organisation, &self.server), rpc).await
    }
}

async fn await_file(node: &PuppetNode, name: &str) {
    await_state(&format!("{name} exists"), || node.path(name).exists()).await;
}

/// A2.1 with the real programs: `runonce` without a limit waits for the limit of a `runall`, and both report the
/// maximum of all runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runonce_keeps_the_limit_of_a_runall() {
    let fixture = PuppetLimitFixture::new().await;
    let rpc = fixture.rpc();
    let [first, second] = ["n1", "n2"].map(|name| PuppetNode::scripted(name, WAITING_PUPPET));
    let _daemons =
        (fixture.start_daemon(&first, &rpc).await, fixture.start_daemon(&second, &rpc).await);
    let observer = fixture.permit_client("observer").await;
    let limited = rpc.run_json(&["puppet", "runall", "1", "-I", "n1"]);
    let free = async {
        await_file(&first, "begun").await;
        let (result, ()) = tokio::join!(rpc.run_json(&["puppet", "runonce", "-I", "n2"]), async {
            poll_until_ok("n2 waits for its turn", STATE_TIMEOUT, async || {
                assert!(!second.path("begun").exists(), "n2 runs beside the limited run");
                let (_, _, waiting) =
                    observer.inspect_pool(&pool()).await.map_err(|error| error.to_string())?;
                if waiting.len() == 1 { Ok(()) } else { Err(format!("{waiting:?}")) }
            })
            .await;
            std::fs::write(first.path("go"), "").unwrap();
            await_file(&second, "begun").await;
            std::fs::write(second.path("go"), "").unwrap();
        });
        result
    };
    for (document, exit) in <[_; 2]>::from(tokio::join!(limited, free)) {
        assert_eq!(exit, 2, "the script writes no report: {document}");
        assert_eq!(document["proof"]["highest_concurrency"], 1, "{document}");
        assert_eq!(document["nodes"][0]["data"]["pool_highest"], 1, "{document}");
    }
}

/// A run that another program starts while a run of the agent waits for its permit counts at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn foreign_run_counts_while_a_run_of_the_node_waits() {
    let fixture = PuppetLimitFixture::new().await;
    let node = PuppetNode::scripted("n1", "exit 1");
    let (puppet, permits) = fixture.create_plugin(&node, "n1").await;
    let stop = CancellationToken::new();
    let monitor = puppet.build_monitor(Arc::new(RealSystem::new("/".into())));
    let monitor = tokio::spawn(monitor.run(stop.clone()));
    let holder = fixture.permit_client("holder").await;
    let limit = std::num::NonZeroU32::new(1).unwrap();
    let request = PermitRequest::new(pool(), limit, Uuid::now_v7(), STATE_TIMEOUT);
    let held = holder.acquire_permit(request, &stop).await.unwrap();
    let await_members = async |what: &str, holders: usize, waiting: usize| {
        poll_until_ok(what, STATE_TIMEOUT, async || {
            let members = permits.inspect_pool(&pool()).await.map_err(|error| error.to_string())?;
            let counts = (members.1.len(), members.2.len());
            if counts == (holders, waiting) { Ok(()) } else { Err(format!("{counts:?}")) }
        })
        .await;
    };
    let (outcome, ()) = tokio::join!(run_once(&puppet, json!({"limit": 1})), async {
        await_members("n1 waits", 1, 1).await;
        let program = node.path("bin-puppet");
        std::fs::copy("/bin/sleep", &program).unwrap();
        let mut foreign = std::process::Command::new(&program).arg("600").spawn().unwrap();
        let lock = node.path("var/state/agent_catalog_run.lock");
        std::fs::write(lock, foreign.id().to_string()).unwrap();
        await_members("the foreign run counts", 2, 0).await;
        assert_eq!(held.highest_count(), 2);
        foreign.kill().unwrap();
        foreign.wait().unwrap();
        await_members("n1 waits again", 1, 1).await;
        held.release().await;
    });
    assert_eq!(outcome["reason"], "not_started", "the script fails: {outcome}");
    stop.cancel();
    monitor.await.unwrap();
}

/// `runall` states why no node can run, and does not succeed when Puppet is disabled on a node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runall_states_why_nodes_do_not_run() {
    let fixture = PuppetLimitFixture::new().await;
    let rpc = fixture.rpc();
    let node = PuppetNode::scripted("n1", "exit 1");
    let daemon = fixture.start_daemon(&node, &rpc).await;
    let lock = node.path("var/state/agent_disabled.lock");
    std::fs::write(&lock, r#"{"disabled_message":"moving"}"#).unwrap();
    let output = rpc.run(&["puppet", "runall", "1"]).await;
    let text = describe_output(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("nothing to run: 1 node: Puppet is disabled"), "{text}");
    std::fs::remove_file(&lock).unwrap();
    daemon.home().write("policies/puppet.policy", "policy default deny\n", 0o644);
    let pid = nix::unistd::Pid::from_raw(daemon.pid());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGHUP).unwrap();
    poll_until_ok("the node denies", STATE_TIMEOUT, async || {
        let output = rpc.run(&["puppet", "runall", "1"]).await;
        let text = describe_output(&output);
        let is_denied = text.contains("nothing to run: 1 node: denied:");
        if is_denied && output.status.code() == Some(2) { Ok(()) } else { Err(text) }
    })
    .await;
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
        let agent = muster_puppet::permits::build_agent(&permits).unwrap();
        let release = agent.find_handler("release").unwrap();
        let input = json!({"pool": "puppet", "noop": true}).as_object().unwrap().clone();
        let planned = release.call(&context("release"), input).await.unwrap();
        assert_eq!(Value::Object(planned), json!({"released": 1, "changed": true}));
        assert_eq!(permits.revoke_permits(&pool(), None), 1, "noop must not release it");
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

/// Run by `make test-all`.
mod long {
    use super::{PuppetLimitFixture, PuppetNode, has_puppet, json, max_overlap, run_once};

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
}
