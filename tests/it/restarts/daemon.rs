//! Restarts that are requested over the bus, restarts that outlive the daemon, and restarts of the daemon itself.

use std::fs;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use muster_calls::{CallEvent, CallTarget, RpcCall};
use muster_tests::command::{describe_output, find_program};
use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::Organisation;
use muster_tests::rpcd::{DaemonHome, Rpcd};
use muster_tests::tier::repetitions;
use muster_tests::{await_state, command};
use muster_wire::identity::Identity;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use super::RestartFixture;
use crate::node_fixture::{TestCaller, to_object};

const NODE: &str = "node1.example.net";

/// A daemon on a machine that has the service.
struct RestartFleet {
    organisation: Organisation,
    server: NatsServer,
    fixture: RestartFixture,
}

impl RestartFleet {
    async fn new() -> Self {
        let organisation = Organisation::new(&["muster"]);
        let server = organisation.start_broker().await;
        Self { organisation, server, fixture: RestartFixture::new() }
    }

    fn home(&self) -> DaemonHome {
        let more = format!(
            "[log]\nformat = \"json\"\n[paths]\nroot = \"{}\"\n[plugins.catalog]\npuppet_state = [\"{}\"]\n\
             [plugins.puppetral]\nallow_types = [\"exec\"]\n",
            self.fixture.path("root").display(),
            self.fixture.path("puppet").display(),
        );
        let node = self.organisation.node(NODE);
        let home = DaemonHome::new(&self.organisation, &node, &self.server.url(), &more);
        // The daemon and `rpcd restart-when-idle` use the same state.
        let paths = format!(
            "[paths]\nstate = \"{}\"\naudit = \"{}\"\nclasses = \"../classes.txt\"\n",
            self.fixture.path("state").display(),
            self.fixture.path("audit.log").display()
        );
        home.write("conf.d/paths.toml", &paths, 0o644);
        home
    }

    async fn start(&self) -> Rpcd {
        let mut node = self.home().start();
        await_ready(&mut node, 1).await;
        node
    }

    fn rpc(&self) -> command::RpcCommand {
        let caller = self.organisation.caller("anna");
        command::RpcCommand::new(&self.server, &self.organisation, &caller, "")
    }
}

/// Waits until the daemon has become ready this many times.
async fn await_ready(node: &mut Rpcd, times: usize) {
    await_state("the node is ready", || {
        assert!(node.is_running(), "rpcd ended: {}", node.log());
        node.log().matches("\"message\":\"ready\"").count() >= times
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a11_5_request_survives_daemon_and_worker_and_runs_once() {
    let fleet = RestartFleet::new().await;
    let fixture = &fleet.fixture;
    fixture.await_cycle(&["ok"]).await;
    let node = fleet.start().await;
    let anna = fleet.rpc();
    let run = fixture.start_puppet_run();
    let (document, code) = anna.run_json(&["restart", "request", "unit=stub"]).await;
    assert_eq!(code, 0, "{document:#}");
    fixture.await_cycle(&["waiting"]).await;
    // All processes that know of the request are killed, and the run ends meanwhile.
    for worker in fixture.workers() {
        kill(Pid::from_raw(worker), Signal::SIGKILL).unwrap();
    }
    drop(node);
    run.end();
    await_state("the worker has ended", || fixture.workers().is_empty()).await;
    assert_eq!(fixture.start_count(), 1);
    let node = fleet.start().await;
    let cycle = fixture.await_cycle(&["ok"]).await;
    assert_eq!(cycle["id"], document["replies"][0]["data"]["id"]);
    assert_eq!(fixture.start_count(), 2);
    assert!(node.log().contains("resuming requested restarts"));
    let (status, _) = anna.run_json(&["restart", "status", "unit=stub"]).await;
    let data = &status["replies"][0]["data"];
    assert_eq!((&data["state"], &data["pid"]), (&json!("ok"), &json!(fixture.pid())), "{status:#}");
    let (status, _) = anna.run_json(&["restart", "status", "unit=never"]).await;
    assert_eq!(status["replies"][0]["data"]["state"], "none");

    // With `wait`, the reply contains the outcome, and a failed restart is a failed reply.
    let (answer, code) =
        anna.run_json(&["restart", "request", "unit=stub", "wait=true", "verify_bus=20"]).await;
    let data = &answer["replies"][0]["data"];
    assert_eq!(
        (code, &data["state"], &data["pid"]),
        (0, &json!("ok"), &json!(fixture.pid())),
        "{answer:#}"
    );
    fs::write(fixture.path("root/refuses"), "").unwrap();
    let (answer, code) = anna.run_json(&["restart", "request", "unit=stub", "wait=true"]).await;
    assert_eq!(code, 2, "{answer:#}");
    let reply = &answer["replies"][0];
    assert!(reply.to_string().contains("the configuration is wrong"), "{answer:#}");
    let starts = fleet.fixture.start_count();
    let (planned, code) = anna.run_json(&["restart", "request", "unit=stub", "noop=true"]).await;
    let data = &planned["replies"][0]["data"];
    assert_eq!((code, &data["state"], &data["changed"]), (0, &json!("planned"), &json!(true)));
    let (answer, code) = anna.run_json(&["restart", "request", "unit=ghost", "noop=true"]).await;
    assert!(code == 2 && answer.to_string().contains("no such service"), "{answer:#}");
    assert_eq!(fleet.fixture.start_count(), starts, "a noop restarts nothing");
    let (answer, code) = anna.run_json(&["restart", "request", "unit=ghost"]).await;
    assert!(code == 2 && answer.to_string().contains("no such service"), "{answer:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a11_8_daemon_finishes_running_actions_and_restarts() {
    let fleet = RestartFleet::new().await;
    let mut node = fleet.start().await;
    let anna = fleet.rpc();
    let marker = fleet.fixture.path("root/begun");
    let script = "command=echo x > /begun; while ! test -e /go; do sleep 0.05; done";
    let mut calls = anna.prepare_command(&[
        "puppetral",
        "do",
        "type=exec",
        "name=wait",
        "provider=shell",
        script,
        "-j",
    ]);
    let calls = tokio::spawn(async move { calls.output().await.unwrap() });
    await_state("the action runs", || marker.exists()).await;

    let mut restart = Command::new(find_program("rpcd"));
    restart.arg("--config").arg(node.home().path("rpcd.toml")).arg("restart");
    let restart = restart.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    await_state("the daemon is draining", || {
        node.log().contains("restarting: waiting for running actions")
    })
    .await;
    // The daemon accepts no new requests, and the broker reports that there are no responders.
    let (document, code) = anna.run_json(&["rpcutil", "ping", "-I", NODE]).await;
    assert_ne!(code, 0, "{document:#}");
    fs::write(fleet.fixture.path("root/go"), "").unwrap();
    let answer = calls.await.unwrap();
    assert_eq!(answer.status.code(), Some(0), "{}", describe_output(&answer));
    let restarted = restart.wait_with_output().unwrap();
    assert!(restarted.status.success(), "{}", describe_output(&restarted));
    assert!(
        describe_output(&restarted).contains("rpcd restarted and is ready after"),
        "{}",
        describe_output(&restarted)
    );
    await_ready(&mut node, 2).await;
    let (document, code) = anna.run_json(&["rpcutil", "ping"]).await;
    assert_eq!(code, 0, "{document:#}");

    // The same restart, requested over the bus and verified.
    let (document, code) = anna.run_json(&["restart", "request", "unit=rpcd"]).await;
    assert_eq!(code, 0, "{document:#}");
    await_ready(&mut node, 3).await;
    let cycle = fleet.fixture.await_key_cycle("unit.rpcd", &["ok"]).await;
    assert!(cycle["text"].as_str().unwrap().starts_with("rpcd is ready again"), "{cycle:#}");
    let (document, code) = anna.run_json(&["restart", "request", "unit=rpcd", "wait=true"]).await;
    assert!(code == 2 && document.to_string().contains("cannot wait for its own"), "{document:#}");
}

/// A restart that an action waited for would wait for that action: the reply comes first, and the agent `restart` does the rest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn service_agent_hands_the_restart_of_rpcd_to_the_restart_agent() {
    let fleet = RestartFleet::new().await;
    let mut node = fleet.start().await;
    let (anna, started) = (fleet.rpc(), Instant::now());
    for (service, times) in [("rpcd", 2), ("rpcd.service", 3)] {
        let service = format!("service={service}");
        let (document, code) = anna.run_json(&["service", "restart", &service]).await;
        assert_eq!(code, 0, "{document:#}");
        let data = &document["replies"][0]["data"];
        assert_eq!(*data, json!({"status": "running", "changed": true}), "{document:#}");
        await_ready(&mut node, times).await;
        fleet.fixture.await_key_cycle("unit.rpcd", &["ok"]).await;
    }
    assert!(started.elapsed() < Duration::from_secs(25), "{:?}", started.elapsed());
    let (document, code) = anna.run_json(&["service", "stop", "service=rpcd"]).await;
    assert!(code == 2 && document.to_string().contains("rpcd cannot stop itself"), "{document:#}");
    assert!(node.is_running());
}

/// A broken upgrade does not take the node off the bus.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn daemon_does_not_give_way_to_a_program_that_does_not_start() {
    let fleet = RestartFleet::new().await;
    let home = fleet.home();
    let program = home.path("bin/rpcd");
    let install = |text: Option<&str>| {
        let new = home.path("bin/new");
        match text {
            Some(text) => home.write("bin/new", text, 0o755),
            None => drop(fs::copy(find_program("rpcd"), &new).unwrap()),
        }
        fs::rename(&new, &program).unwrap();
    };
    fs::create_dir(home.path("bin")).unwrap();
    install(None);
    let mut node = home.clone().start_through(&[&program]);
    await_ready(&mut node, 1).await;
    for (broken, problem) in [
        (
            "#!/bin/sh\necho 'rpcd: no such symbol' >&2\nexit 127\n",
            "code 127: rpcd: no such symbol",
        ),
        ("not a program", "rpcd"),
    ] {
        install(Some(broken));
        kill(Pid::from_raw(node.pid()), Signal::SIGUSR2).unwrap();
        await_state("the daemon says why it does not restart", || {
            let log = node.log();
            log.lines().any(|line| line.contains("not restarting") && line.contains(problem))
        })
        .await;
        let (document, code) = fleet.rpc().run_json(&["rpcutil", "ping", "-I", NODE]).await;
        assert_eq!(code, 0, "{document:#}");
    }
    // A configuration that became invalid is found too, also by the command itself.
    install(None);
    home.write("conf.d/broken.toml", "[broker]\nurls = 5\n", 0o644);
    let mut restart = Command::new(find_program("rpcd"));
    let output = restart.arg("--config").arg(home.path("rpcd.toml")).arg("restart").output();
    let output = output.unwrap();
    assert!(describe_output(&output).contains("broken.toml"), "{}", describe_output(&output));
    assert_eq!(output.status.code(), Some(1));
    fs::remove_file(home.path("conf.d/broken.toml")).unwrap();

    kill(Pid::from_raw(node.pid()), Signal::SIGUSR2).unwrap();
    await_ready(&mut node, 2).await;
    assert!(node.is_running());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a11_8_hundred_restarts_lose_no_request() {
    let count = repetitions(100);
    let fleet = RestartFleet::new().await;
    let mut node = fleet.start().await;
    let caller =
        TestCaller::connect(&fleet.organisation, &fleet.server, fleet.organisation.caller("anna"))
            .await;
    let stop = tokio_util::sync::CancellationToken::new();
    let answered = AtomicU32::new(0);
    let calls = async {
        let (mut absent, mut lost) = (0_u32, Vec::new());
        while !stop.is_cancelled() {
            let calls = (0..4).map(|_| send_call(&caller));
            for result in futures_util::future::join_all(calls).await {
                match result {
                    RequestResult::Answered => {
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                    RequestResult::Absent => absent += 1,
                    RequestResult::Lost(stats) => lost.push(stats),
                }
            }
        }
        (absent, lost)
    };
    let restarts = async {
        for times in 2..count + 2 {
            // The restart happens while requests are running.
            let before = answered.load(Ordering::Relaxed);
            await_state("requests are answered", || answered.load(Ordering::Relaxed) > before + 20)
                .await;
            kill(Pid::from_raw(node.pid()), Signal::SIGUSR2).unwrap();
            await_ready(&mut node, times).await;
        }
        stop.cancel();
    };
    let ((absent, lost), ()) = tokio::join!(calls, restarts);
    let answered = answered.into_inner();
    assert!(lost.is_empty(), "{} of {answered} + {absent}: {lost:?}", lost.len());
    assert!(answered as usize > 20 * count, "{answered} answered, {absent} without responders");
    print_figures(&format!("{answered} answered, {absent} without responders, none lost"));
}

#[expect(clippy::print_stderr, reason = "prints a measurement")]
fn print_figures(text: &str) {
    eprintln!("{text}");
}

/// The result of a request.
enum RequestResult {
    Answered,
    /// The broker reported that there were no responders.
    Absent,
    Lost(String),
}

async fn send_call(caller: &TestCaller) -> RequestResult {
    let nodes = [Identity::parse(NODE).unwrap()].into();
    let mut call = RpcCall::new("rpcutil", "get_fact", CallTarget::Nodes(nodes)).unwrap();
    call.data = to_object(json!({"fact": "identity"}));
    call.wait = Duration::from_secs(20);
    let mut events = caller.client.call(call);
    let mut result = None;
    loop {
        match events.next().await.unwrap() {
            CallEvent::Reply(_) => result = Some(RequestResult::Answered),
            CallEvent::Absent(_) => result = Some(RequestResult::Absent),
            CallEvent::Finished(stats) => {
                return result.unwrap_or_else(|| RequestResult::Lost(format!("{stats:?}")));
            }
            CallEvent::Failed(error) => return RequestResult::Lost(error.to_string()),
            _ => {}
        }
    }
}
