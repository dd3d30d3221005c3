//! Restarts that are asked for over the bus, that outlive the daemon, and of the daemon itself.

use std::fs;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use muster_client::{CallEvent, CallTarget, RpcCall};
use muster_tests::command::{describe_output, find_program};
use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::Organisation;
use muster_tests::rpcd::{DaemonHome, Rpcd};
use muster_tests::{await_state, command};
use muster_wire::identity::Identity;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use super::World;
use crate::ask::{TestCaller, to_object};

const NODE: &str = "node1.example.net";

/// A daemon whose machine has the service.
struct EnrolledFleet {
    organisation: Organisation,
    server: NatsServer,
    world: World,
}

impl EnrolledFleet {
    async fn new() -> Self {
        let organisation = Organisation::new(&["muster"]);
        let server = organisation.start_broker().await;
        Self { organisation, server, world: World::new() }
    }

    fn home(&self) -> DaemonHome {
        let more = format!(
            "[log]\nformat = \"json\"\n[paths]\nroot = \"{}\"\n[plugins.catalog]\npuppet_state = [\"{}\"]\n\
             [plugins.puppetral]\nallow_types = [\"exec\"]\n",
            self.world.path("root").display(),
            self.world.path("puppet").display(),
        );
        let node = self.organisation.node(NODE);
        let home = DaemonHome::new(&self.organisation, &node, &self.server.url(), &more);
        // One state for the daemon and for those who ask on the node.
        let paths = format!(
            "[paths]\nstate = \"{}\"\naudit = \"{}\"\nclasses = \"../classes.txt\"\n",
            self.world.path("state").display(),
            self.world.path("audit.log").display()
        );
        home.write("conf.d/paths.toml", &paths, 0o644);
        home
    }

    async fn start(&self) -> Rpcd {
        let mut node = self.home().start();
        ready(&mut node, 1).await;
        node
    }

    fn caller(&self) -> command::Command {
        let caller = self.organisation.caller("anna");
        command::Command::new(&self.server, &self.organisation, &caller, "")
    }
}

/// Waits until it has become ready so often.
async fn ready(node: &mut Rpcd, times: usize) {
    await_state("the node is ready", || {
        assert!(node.is_running(), "rpcd ended: {}", node.log());
        node.log().matches("\"message\":\"ready\"").count() >= times
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a11_5_a_request_outlives_daemon_and_worker_and_is_fulfilled_once() {
    let fleet = EnrolledFleet::new().await;
    let world = &fleet.world;
    world.reaches(&["ok"]).await;
    let node = fleet.start().await;
    let anna = fleet.caller();
    let run = world.puppet_runs();
    let (document, code) = anna.run_json(&["restart", "request", "unit=stub"]).await;
    assert_eq!(code, 0, "{document:#}");
    world.reaches(&["waiting"]).await;
    // Everything that knows of it is killed, and the run ends while nobody is there.
    for worker in world.workers() {
        kill(Pid::from_raw(worker), Signal::SIGKILL).unwrap();
    }
    drop(node);
    run.ends();
    await_state("the worker is gone", || world.workers().is_empty()).await;
    assert_eq!(world.starts(), 1);
    let node = fleet.start().await;
    let cycle = world.reaches(&["ok"]).await;
    assert_eq!(cycle["id"], document["replies"][0]["data"]["id"]);
    assert_eq!(world.starts(), 2);
    assert!(node.log().contains("resuming requested restarts"));
    let (status, _) = anna.run_json(&["restart", "status", "unit=stub"]).await;
    let data = &status["replies"][0]["data"];
    assert_eq!((&data["state"], &data["pid"]), (&json!("ok"), &json!(world.pid())), "{status:#}");
    let (status, _) = anna.run_json(&["restart", "status", "unit=never"]).await;
    assert_eq!(status["replies"][0]["data"]["state"], "none");

    // The outcome can be waited for, and a bad one is a failed answer.
    let (answer, code) =
        anna.run_json(&["restart", "request", "unit=stub", "wait=true", "verify_bus=20"]).await;
    let data = &answer["replies"][0]["data"];
    assert_eq!(
        (code, &data["state"], &data["pid"]),
        (0, &json!("ok"), &json!(world.pid())),
        "{answer:#}"
    );
    fs::write(world.path("root/refuses"), "").unwrap();
    let (answer, code) = anna.run_json(&["restart", "request", "unit=stub", "wait=true"]).await;
    assert_eq!(code, 2, "{answer:#}");
    let reply = &answer["replies"][0];
    assert!(reply.to_string().contains("the configuration is wrong"), "{answer:#}");
    let (answer, code) = anna.run_json(&["restart", "request", "unit=ghost"]).await;
    assert!(code == 2 && answer.to_string().contains("no such service"), "{answer:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a11_8_the_daemon_answers_what_it_has_taken_and_starts_anew() {
    let fleet = EnrolledFleet::new().await;
    let mut node = fleet.start().await;
    let anna = fleet.caller();
    let begun = fleet.world.path("root/begun");
    let script = "command=echo x > /begun; while ! test -e /go; do sleep 0.05; done";
    let mut asking = anna.prepare_command(&[
        "puppetral",
        "do",
        "type=exec",
        "name=wait",
        "provider=shell",
        script,
        "-j",
    ]);
    let asking = tokio::spawn(async move { asking.output().await.unwrap() });
    await_state("the action runs", || begun.exists()).await;

    let mut restart = Command::new(find_program("rpcd"));
    restart.arg("--config").arg(node.home().path("rpcd.toml")).arg("restart");
    let restart = restart.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    await_state("it drains", || node.log().contains("restarting: waiting for running actions"))
        .await;
    // Nobody is there for what comes now, and the broker says so.
    let (document, code) = anna.run_json(&["rpcutil", "ping", "-I", NODE]).await;
    assert_ne!(code, 0, "{document:#}");
    fs::write(fleet.world.path("root/go"), "").unwrap();
    let answer = asking.await.unwrap();
    assert_eq!(answer.status.code(), Some(0), "{}", describe_output(&answer));
    let restarted = restart.wait_with_output().unwrap();
    assert!(restarted.status.success(), "{}", describe_output(&restarted));
    assert!(
        describe_output(&restarted).contains("rpcd restarted and is ready after"),
        "{}",
        describe_output(&restarted)
    );
    ready(&mut node, 2).await;
    let (document, code) = anna.run_json(&["rpcutil", "ping"]).await;
    assert_eq!(code, 0, "{document:#}");

    // The same, asked for over the bus, and verified.
    let (document, code) = anna.run_json(&["restart", "request", "unit=rpcd"]).await;
    assert_eq!(code, 0, "{document:#}");
    ready(&mut node, 3).await;
    let cycle = fleet.world.key_reaches("unit.rpcd", &["ok"]).await;
    assert!(cycle["text"].as_str().unwrap().starts_with("rpcd is ready again"), "{cycle:#}");
    let (document, code) = anna.run_json(&["restart", "request", "unit=rpcd", "wait=true"]).await;
    assert!(code == 2 && document.to_string().contains("cannot wait for its own"), "{document:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a11_8_a_hundred_restarts_lose_no_request() {
    let fleet = EnrolledFleet::new().await;
    let mut node = fleet.start().await;
    let caller =
        TestCaller::connect(&fleet.organisation, &fleet.server, fleet.organisation.caller("anna"))
            .await;
    let stop = tokio_util::sync::CancellationToken::new();
    let answered = AtomicU32::new(0);
    let asking = async {
        let (mut absent, mut lost) = (0_u32, Vec::new());
        while !stop.is_cancelled() {
            let calls = (0..4).map(|_| one(&caller));
            for fate in futures_util::future::join_all(calls).await {
                match fate {
                    Fate::Answered => {
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                    Fate::Absent => absent += 1,
                    Fate::Lost(stats) => lost.push(stats),
                }
            }
        }
        (absent, lost)
    };
    let restarting = async {
        for times in 2..=101 {
            // In the middle of the work.
            let before = answered.load(Ordering::Relaxed);
            await_state("it answers", || answered.load(Ordering::Relaxed) > before + 20).await;
            kill(Pid::from_raw(node.pid()), Signal::SIGUSR2).unwrap();
            ready(&mut node, times).await;
        }
        stop.cancel();
    };
    let ((absent, lost), ()) = tokio::join!(asking, restarting);
    let answered = answered.into_inner();
    assert!(lost.is_empty(), "{} of {answered} + {absent}: {lost:?}", lost.len());
    assert!(answered > 2000, "{answered} answered, {absent} told that nobody is there");
    note(&format!("{answered} answered, {absent} told that nobody is there, none lost"));
}

#[expect(clippy::print_stderr, reason = "figures, for who asks to see them")]
fn note(words: &str) {
    eprintln!("{words}");
}

/// What became of a request.
enum Fate {
    Answered,
    /// The broker said that nobody was there.
    Absent,
    Lost(String),
}

async fn one(caller: &TestCaller) -> Fate {
    let nodes = [Identity::parse(NODE).unwrap()].into();
    let mut call = RpcCall::new("rpcutil", "get_fact", CallTarget::Nodes(nodes)).unwrap();
    call.data = to_object(json!({"fact": "identity"}));
    call.wait = Duration::from_secs(20);
    let mut events = caller.client.call(call);
    let mut fate = None;
    loop {
        match events.next().await.unwrap() {
            CallEvent::Reply(_) => fate = Some(Fate::Answered),
            CallEvent::Absent(_) => fate = Some(Fate::Absent),
            CallEvent::Finished(stats) => {
                return fate.unwrap_or_else(|| Fate::Lost(format!("{stats:?}")));
            }
            CallEvent::Failed(error) => return Fate::Lost(error.to_string()),
            _ => {}
        }
    }
}
