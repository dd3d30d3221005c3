//! Restarts when no run is in progress: real services, real lock files, real runs, and workers that are killed. Every test is named by
//! what it proves of A11.1 to A11.8.

#![expect(
    clippy::disallowed_types,
    clippy::indexing_slicing,
    reason = "the tests start and kill real programs, and know the documents that they read"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use muster_client::{Aim, Call, Event};
use muster_tests::command::{program, told};
use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::Organisation;
use muster_tests::rpcd::{Home, Rpcd};
use muster_tests::{await_answer, await_state, command};
use muster_wire::identity::Identity;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::ask::{Caller, object};

const PATIENCE: Duration = Duration::from_secs(30);
const NODE: &str = "node1.example.net";

/// A service that keeps the standard output that it is given, and talks to it: a careless one.
const STUB: &str = r#"#!/bin/sh
pid() { cat /run/stub.pid 2>/dev/null; }
start() {
  test -e /refuses && { echo "the configuration is wrong" >&2; exit 3; }
  test -e /hurts && { echo $$ > /run/stub.pid; echo started >> /log; return; }
  (exec sh -c 'echo $$ > /run/stub.pid; while echo tick; do date +%N > /tick; sleep 0.05; done; echo died >> /log') &
  while ! kill -0 "$(pid)" 2>/dev/null; do sleep 0.02; done
  echo started >> /log
}
stop() { test -z "$(pid)" || kill "$(pid)" 2>/dev/null; rm -f /run/stub.pid; }
case "$1" in
  start) start ;;
  stop) stop ;;
  restart) while test -e /hold; do sleep 0.02; done; stop; start ;;
  status) kill -0 "$(pid)" 2>/dev/null ;;
esac
"#;

/// A machine in a directory, with a service that is called `stub`, and a Puppet's state.
struct World {
    directory: TempDir,
}

impl World {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let world = Self { directory };
        for name in ["root/etc/init.d", "root/run", "puppet", "state"] {
            fs::create_dir_all(world.path(name)).unwrap();
        }
        let script = world.path("root/etc/init.d/stub");
        fs::write(&script, STUB).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(world.path("config.toml"), "nonsense").unwrap();
        let started = world.ask(&["stub"]);
        assert!(started.status.success(), "{}", told(&started));
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// `rpcd restart-when-idle` with these words.
    fn ask(&self, words: &[&str]) -> Output {
        let mut command = Command::new(program("rpcd"));
        command.arg("--config").arg(self.path("none.toml"));
        command.arg("restart-when-idle");
        command.arg("--root").arg(self.path("root"));
        command.arg("--state-dir").arg(self.path("state"));
        command.arg("--puppet-state").arg(self.path("puppet"));
        command.args(words).stdin(Stdio::null());
        command.output().unwrap()
    }

    fn record(&self, key: &str) -> Value {
        let path = self.path("state/restart").join(format!("{key}.json"));
        let text = fs::read(path).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    /// Waits until the restart of the service is in one of these states.
    async fn reaches(&self, states: &[&str]) -> Value {
        self.key_reaches("unit.stub", states).await
    }

    async fn key_reaches(&self, key: &str, states: &[&str]) -> Value {
        let what = format!("{key} is {states:?}");
        await_answer(&what, PATIENCE, async || {
            let record = self.record(key);
            let cycle = record["current"].clone();
            let there = states.iter().any(|state| cycle["state"] == *state);
            if there && record["next"].is_null() {
                Ok(cycle)
            } else {
                Err(record)
            }
        })
        .await
    }

    /// How often the service was started.
    fn starts(&self) -> usize {
        let log = fs::read_to_string(self.path("root/log")).unwrap_or_default();
        assert!(!log.contains("died"), "its output was taken from it");
        log.lines().filter(|line| *line == "started").count()
    }

    fn pid(&self) -> i32 {
        let text = fs::read_to_string(self.path("root/run/stub.pid")).unwrap_or_default();
        text.trim().parse().unwrap_or_default()
    }

    /// What Puppet's lock says.
    fn lock(&self) -> PathBuf {
        self.path("puppet/agent_catalog_run.lock")
    }

    /// A process that is called as Puppet is, and holds its lock.
    fn puppet_runs(&self) -> Running {
        let name = self.path("puppet-agent");
        if !name.exists() {
            fs::copy("/bin/sleep", &name).unwrap();
        }
        let child = Command::new(name).arg("1000").spawn().unwrap();
        fs::write(self.lock(), child.id().to_string()).unwrap();
        Running {
            child,
            lock: self.lock(),
        }
    }

    /// The workers of this machine.
    fn workers(&self) -> Vec<i32> {
        let own = self.directory.path().display().to_string();
        processes()
            .filter(|(_, line)| line.contains("restart-worker") && line.contains(&own))
            .map(|(pid, _)| pid)
            .collect()
    }

    fn apply(&self, catalog: &Value, words: &[&str]) -> Output {
        let file = self.path("catalog.json");
        fs::write(&file, catalog.to_string()).unwrap();
        let mut command = Command::new(program("rpcd"));
        command.arg("apply").arg(file);
        command.arg("--state-dir").arg(self.path("state/engine"));
        command.arg("--puppet-state").arg(self.path("puppet"));
        command.args(words).output().unwrap()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for pid in self.workers() {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
        if self.pid() > 1 {
            let _ = kill(Pid::from_raw(self.pid()), Signal::SIGKILL);
        }
    }
}

/// A run of Puppet's.
struct Running {
    child: Child,
    lock: PathBuf,
}

impl Running {
    /// Its end, as Puppet ends: the lock is gone just before the process is.
    fn ends(mut self) -> u64 {
        fs::remove_file(&self.lock).unwrap();
        let at = muster_tests::now();
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        at
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Number and command line of every process.
fn processes() -> impl Iterator<Item = (i32, String)> {
    fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let path = entry.ok()?.path();
        let pid = path.file_name()?.to_str()?.parse().ok()?;
        let line = fs::read(path.join("cmdline")).ok()?;
        Some((pid, String::from_utf8_lossy(&line).replace('\0', " ")))
    })
}

/// When a step was made.
fn at(cycle: &Value, state: &str) -> u64 {
    let steps = cycle["steps"].as_array().unwrap();
    let step = steps.iter().find(|step| step["state"] == state);
    step.unwrap_or_else(|| panic!("{cycle:#}"))["at"]["wall"]
        .as_u64()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a11_1_it_returns_at_once_and_restarts_within_a_second_of_the_runs_end() {
    let world = World::new();
    world.reaches(&["ok"]).await;
    let (mut answered, mut lags) = (Vec::new(), Vec::new());
    for round in 1..=3 {
        let before = world.pid();
        let run = world.puppet_runs();
        let begun = Instant::now();
        let asked = world.ask(&["stub.service"]);
        answered.push(begun.elapsed());
        assert!(asked.status.success(), "{}", told(&asked));
        let waiting = world.reaches(&["waiting"]).await;
        let text = waiting["text"].as_str().unwrap();
        assert!(
            text.starts_with("waiting: Puppet is applying a catalog (process "),
            "{text}"
        );
        assert_eq!(
            (world.starts(), world.pid()),
            (round, before),
            "not before its end"
        );
        let ended = run.ends();
        let cycle = world.reaches(&["ok"]).await;
        lags.push(at(&cycle, "restarting").saturating_sub(ended));
        assert_ne!(world.pid(), before);
        let text = format!("process {} in place of {before}", world.pid());
        assert_eq!(cycle["text"], json!(text));
    }
    // The best of some on a machine that may be busy with anything.
    let (answered, lag) = (answered.iter().min().unwrap(), lags.iter().min().unwrap());
    assert!(*answered < Duration::from_millis(500), "{answered:?}");
    assert!(*lag <= 1000, "{lags:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a11_1_stale_locks_and_disabled_agents_hold_nothing_up() {
    let world = World::new();
    let mut starts = 1;
    // Empty, garbage, gone, and alive but no Puppet: as real Puppet takes them.
    for stale in ["", "garbage", "999999999", "1"] {
        world.reaches(&["ok"]).await;
        fs::write(world.lock(), stale).unwrap();
        world.ask(&["stub"]);
        starts += 1;
        await_state("it is restarted", || world.starts() == starts).await;
    }
    world.reaches(&["ok"]).await;
    let reason = r#"{"disabled_message":"hand hacking"}"#;
    fs::write(world.path("puppet/agent_disabled.lock"), reason).unwrap();
    world.ask(&["stub"]);
    await_state("it is restarted", || world.starts() == starts + 1).await;
    let cycle = world.reaches(&["ok"]).await;
    let steps: Vec<_> = cycle["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| &step["state"])
        .collect();
    assert_eq!(
        steps,
        ["requested", "locked", "restarting", "verifying", "ok"]
    );
    let apply = world.apply(&json!([]), &[]);
    assert!(
        told(&apply).contains("hand hacking"),
        "runs are disabled: {}",
        told(&apply)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a11_2_twenty_requests_during_a_run_are_one_restart() {
    let world = World::new();
    world.reaches(&["ok"]).await;
    let run = world.puppet_runs();
    std::thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| {
                let asked = world.ask(&["stub"]);
                assert!(asked.status.success(), "{}", told(&asked));
            });
        }
    });
    let cycle = world.reaches(&["waiting"]).await;
    assert_eq!(cycle["requests"], 20);
    await_state("the other workers are gone", || world.workers().len() == 1).await;
    run.ends();
    world.reaches(&["ok"]).await;
    await_state("the worker is gone", || world.workers().is_empty()).await;
    assert_eq!(world.starts(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a11_3_a_run_that_never_ends_is_a_timeout_unless_forced() {
    let world = World::new();
    world.reaches(&["ok"]).await;
    let _run = world.puppet_runs();
    world.ask(&["stub", "--deadline", "1"]);
    let cycle = world.reaches(&["timeout"]).await;
    let text = cycle["text"].as_str().unwrap();
    assert!(
        text.starts_with("restart_timeout: not restarted, because Puppet is applying"),
        "{text}"
    );
    assert_eq!(world.starts(), 1);
    world.ask(&["stub", "--deadline", "1", "--force"]);
    world.reaches(&["ok"]).await;
    assert_eq!(world.starts(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a11_4_the_outcome_is_looked_at_and_not_believed() {
    let world = World::new();
    world.reaches(&["ok"]).await;
    fs::write(world.path("root/refuses"), "").unwrap();
    world.ask(&["stub"]);
    let cycle = world.reaches(&["failed"]).await;
    let text = "`/etc/init.d/stub restart` ended with code 3: the configuration is wrong";
    assert_eq!(cycle["text"], text);
    fs::remove_file(world.path("root/refuses")).unwrap();
    // A script that says that all is well, and what it started ends at once.
    fs::write(world.path("root/hurts"), "").unwrap();
    world.ask(&["stub"]);
    let cycle = world.reaches(&["failed"]).await;
    assert_eq!(cycle["text"], "stub does not run after the restart");
    fs::remove_file(world.path("root/hurts")).unwrap();
    world.ask(&["ghost"]);
    let cycle = world.key_reaches("unit.ghost", &["failed"]).await;
    let text = cycle["text"].as_str().unwrap();
    assert!(text.contains("/etc/init.d/ghost"), "{text}");

    // Commands are believed, unless there is a file that knows better.
    world.ask(&["--", "/bin/sh", "-c", "echo no >&2; exit 4"]);
    let keys = || {
        let names = fs::read_dir(world.path("state/restart")).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let commands = names.filter(|name| name.starts_with("command."));
        let mut keys: Vec<_> = commands
            .filter_map(|name| Some(name.strip_suffix(".json")?.to_owned()))
            .collect();
        keys.sort();
        keys
    };
    let first = keys()[0].clone();
    let cycle = world.key_reaches(&first, &["failed"]).await;
    assert_eq!(
        cycle["text"],
        "`/bin/sh -c echo no >&2; exit 4` ended with code 4: no"
    );
    world.ask(&["stub"]);
    world.reaches(&["ok"]).await;
    world.ask(&["--pidfile", "/run/stub.pid", "--", "/bin/true"]);
    let second = keys().into_iter().find(|key| *key != first).unwrap();
    let cycle = world.key_reaches(&second, &["failed"]).await;
    let text = format!("`/bin/true` is still process {}, as before", world.pid());
    assert_eq!(cycle["text"], json!(text));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a11_6_no_run_begins_while_it_is_restarted() {
    let world = World::new();
    world.reaches(&["ok"]).await;
    fs::write(world.path("root/hold"), "").unwrap();
    world.ask(&["stub"]);
    world.reaches(&["restarting"]).await;
    // A worker that is called as Puppet wants it holds Puppet's lock.
    let holder = fs::read_to_string(world.lock()).unwrap();
    let name = fs::read_to_string(format!("/proc/{holder}/comm")).unwrap();
    assert_eq!(world.workers(), [holder.parse::<i32>().unwrap()]);
    assert_eq!(name.trim(), "rpcd-puppet");
    let apply = world.apply(&json!([]), &[]);
    assert_eq!(apply.status.code(), Some(1));
    assert!(
        told(&apply).contains("another run is in progress"),
        "{}",
        told(&apply)
    );
    // Who asks now asks for one more.
    world.ask(&["stub"]);
    let record = world.record("unit.stub");
    assert_eq!(record["next"]["requests"], 1, "{record:#}");
    fs::remove_file(world.path("root/hold")).unwrap();
    world.reaches(&["ok"]).await;
    assert_eq!(world.starts(), 3);
    assert!(!world.lock().exists());
    let apply = world.apply(&json!([]), &["--wait", "10"]);
    assert!(apply.status.success(), "{}", told(&apply));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a11_7_the_worker_is_nobodys_and_its_end_ends_nothing() {
    let world = World::new();
    world.reaches(&["ok"]).await;
    let run = world.puppet_runs();
    world.ask(&["stub"]);
    world.reaches(&["waiting"]).await;
    let [worker] = world.workers()[..] else {
        panic!("{:?}", world.workers());
    };
    let stat = fs::read_to_string(format!("/proc/{worker}/stat")).unwrap();
    let fields: Vec<i32> = stat
        .rsplit_once(')')
        .unwrap()
        .1
        .split_whitespace()
        .skip(1)
        .take(3)
        .map(|field| field.parse().unwrap())
        .collect();
    // Parent, group, session.
    let ours = i32::try_from(std::process::id()).unwrap();
    assert_ne!(fields[0], ours);
    assert_eq!((fields[1], fields[2]), (fields[2], fields[2]));
    assert_ne!(fields[2], nix::unistd::getsid(None).unwrap().as_raw());
    for stream in 0..3 {
        let open = fs::read_link(format!("/proc/{worker}/fd/{stream}")).unwrap();
        assert_eq!(open, Path::new("/dev/null"));
    }
    assert_eq!(
        fs::read_link(format!("/proc/{worker}/cwd")).unwrap(),
        Path::new("/")
    );
    run.ends();
    world.reaches(&["ok"]).await;
    await_state("the worker is gone", || world.workers().is_empty()).await;
    // The service writes to what it inherited from the restart, and lives.
    let tick = || fs::read_to_string(world.path("root/tick")).unwrap_or_default();
    for _ in 0..5 {
        let last = tick();
        await_state("the service goes on", || tick() != last).await;
    }
    assert_eq!(world.starts(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn x3_4_a_run_that_asks_five_times_for_a_restart_gets_one_after_its_end() {
    let world = World::new();
    world.reaches(&["ok"]).await;
    let ask = |number: usize| {
        let words = [
            program("rpcd").display().to_string(),
            "--config".to_owned(),
            world.path("none.toml").display().to_string(),
            "restart-when-idle".to_owned(),
            "--root".to_owned(),
            world.path("root").display().to_string(),
            "--state-dir".to_owned(),
            world.path("state").display().to_string(),
            "--puppet-state".to_owned(),
            world.path("puppet").display().to_string(),
            "stub".to_owned(),
        ];
        json!({"type": "exec", "title": format!("ask {number}"), "command": words, "refreshonly": true, "before": "Exec[long]"})
    };
    let mut catalog = vec![
        json!({"type": "file", "title": world.path("puppet.conf"), "ensure": "file", "content": "changed",
               "notify": (1..=5).map(|number| format!("Exec[ask {number}]")).collect::<Vec<_>>()}),
        json!({"type": "exec", "title": "long", "command": ["/bin/sh", "-c",
               format!("while ! grep -q waiting {0}; do sleep 0.05; done; cp {1} {2}", world.path("state/restart/unit.stub.json").display(),
                       world.path("root/log").display(), world.path("seen").display())]}),
    ];
    catalog.extend((1..=5).map(ask));
    let apply = world.apply(&Value::Array(catalog), &["--detailed-exitcodes"]);
    assert_eq!(apply.status.code(), Some(2), "{}", told(&apply));
    let seen = fs::read_to_string(world.path("seen")).unwrap();
    assert_eq!(seen.lines().count(), 1, "not in the run that asked");
    let cycle = world.reaches(&["ok"]).await;
    assert_eq!((&cycle["requests"], world.starts()), (&json!(5), 2));
}

/// A daemon whose machine has the service.
struct Fleet {
    organisation: Organisation,
    server: NatsServer,
    world: World,
}

impl Fleet {
    async fn new() -> Self {
        let organisation = Organisation::new(&["muster"]);
        let server = organisation.broker().await;
        Self {
            organisation,
            server,
            world: World::new(),
        }
    }

    fn home(&self) -> Home {
        let more = format!(
            "[log]\nformat = \"json\"\n[paths]\nroot = \"{}\"\n[plugins.catalog]\npuppet_state = [\"{}\"]\n\
             [plugins.puppetral]\nallow_types = [\"exec\"]\n",
            self.world.path("root").display(),
            self.world.path("puppet").display(),
        );
        let node = self.organisation.node(NODE);
        let home = Home::new(&self.organisation, &node, &self.server.url(), &more);
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
        assert!(node.runs(), "rpcd ended: {}", node.log());
        node.log().matches("\"message\":\"ready\"").count() >= times
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a11_5_a_request_outlives_daemon_and_worker_and_is_fulfilled_once() {
    let fleet = Fleet::new().await;
    let world = &fleet.world;
    world.reaches(&["ok"]).await;
    let node = fleet.start().await;
    let anna = fleet.caller();
    let run = world.puppet_runs();
    let (document, code) = anna.document(&["restart", "request", "unit=stub"]).await;
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
    assert!(
        node.log()
            .contains("going on with restarts that were asked for")
    );
    let (status, _) = anna.document(&["restart", "status", "unit=stub"]).await;
    let data = &status["replies"][0]["data"];
    assert_eq!(
        (&data["state"], &data["pid"]),
        (&json!("ok"), &json!(world.pid())),
        "{status:#}"
    );
    let (status, _) = anna.document(&["restart", "status", "unit=never"]).await;
    assert_eq!(status["replies"][0]["data"]["state"], "none");

    // The outcome can be waited for, and a bad one is a failed answer.
    let (answer, code) = anna
        .document(&[
            "restart",
            "request",
            "unit=stub",
            "wait=true",
            "verify_bus=20",
        ])
        .await;
    let data = &answer["replies"][0]["data"];
    assert_eq!(
        (code, &data["state"], &data["pid"]),
        (0, &json!("ok"), &json!(world.pid())),
        "{answer:#}"
    );
    fs::write(world.path("root/refuses"), "").unwrap();
    let (answer, code) = anna
        .document(&["restart", "request", "unit=stub", "wait=true"])
        .await;
    assert_eq!(code, 2, "{answer:#}");
    let reply = &answer["replies"][0];
    assert!(
        reply.to_string().contains("the configuration is wrong"),
        "{answer:#}"
    );
    let (answer, code) = anna.document(&["restart", "request", "unit=ghost"]).await;
    assert!(
        code == 2 && answer.to_string().contains("no such service"),
        "{answer:#}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a11_8_the_daemon_answers_what_it_has_taken_and_starts_anew() {
    let fleet = Fleet::new().await;
    let mut node = fleet.start().await;
    let anna = fleet.caller();
    let begun = fleet.world.path("root/begun");
    let script = "command=echo x > /begun; while ! test -e /go; do sleep 0.05; done";
    let mut asking = anna.prepared(&[
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

    let mut restart = Command::new(program("rpcd"));
    restart
        .arg("--config")
        .arg(node.home().path("rpcd.toml"))
        .arg("restart");
    let restart = restart
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    await_state("it drains", || node.log().contains("starting anew")).await;
    // Nobody is there for what comes now, and the broker says so.
    let (document, code) = anna.document(&["rpcutil", "ping", "-I", NODE]).await;
    assert_ne!(code, 0, "{document:#}");
    fs::write(fleet.world.path("root/go"), "").unwrap();
    let answer = asking.await.unwrap();
    assert_eq!(answer.status.code(), Some(0), "{}", told(&answer));
    let restarted = restart.wait_with_output().unwrap();
    assert!(restarted.status.success(), "{}", told(&restarted));
    assert!(
        told(&restarted).contains("rpcd started anew and is ready after"),
        "{}",
        told(&restarted)
    );
    ready(&mut node, 2).await;
    let (document, code) = anna.document(&["rpcutil", "ping"]).await;
    assert_eq!(code, 0, "{document:#}");

    // The same, asked for over the bus, and verified.
    let (document, code) = anna.document(&["restart", "request", "unit=rpcd"]).await;
    assert_eq!(code, 0, "{document:#}");
    ready(&mut node, 3).await;
    let cycle = fleet.world.key_reaches("unit.rpcd", &["ok"]).await;
    assert!(
        cycle["text"]
            .as_str()
            .unwrap()
            .starts_with("rpcd is ready again"),
        "{cycle:#}"
    );
    let (document, code) = anna
        .document(&["restart", "request", "unit=rpcd", "wait=true"])
        .await;
    assert!(
        code == 2 && document.to_string().contains("cannot wait for its own"),
        "{document:#}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a11_8_a_hundred_restarts_lose_no_request() {
    let fleet = Fleet::new().await;
    let mut node = fleet.start().await;
    let caller = Caller::connect(
        &fleet.organisation,
        &fleet.server,
        fleet.organisation.caller("anna"),
    )
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
            await_state("it answers", || {
                answered.load(Ordering::Relaxed) > before + 20
            })
            .await;
            kill(Pid::from_raw(node.pid()), Signal::SIGUSR2).unwrap();
            ready(&mut node, times).await;
        }
        stop.cancel();
    };
    let ((absent, lost), ()) = tokio::join!(asking, restarting);
    let answered = answered.into_inner();
    assert!(
        lost.is_empty(),
        "{} of {answered} + {absent}: {lost:?}",
        lost.len()
    );
    assert!(
        answered > 2000,
        "{answered} answered, {absent} told that nobody is there"
    );
    note(&format!(
        "{answered} answered, {absent} told that nobody is there, none lost"
    ));
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

async fn one(caller: &Caller) -> Fate {
    let nodes = [Identity::parse(NODE).unwrap()].into();
    let mut call = Call::new("rpcutil", "get_fact", Aim::Nodes(nodes)).unwrap();
    call.data = object(json!({"fact": "identity"}));
    call.wait = Duration::from_secs(20);
    let mut events = caller.client.call(call);
    let mut fate = None;
    loop {
        match events.next().await.unwrap() {
            Event::Reply(_) => fate = Some(Fate::Answered),
            Event::Absent(_) => fate = Some(Fate::Absent),
            Event::Finished(stats) => {
                return fate.unwrap_or_else(|| Fate::Lost(format!("{stats:?}")));
            }
            Event::Failed(error) => return Fate::Lost(error.to_string()),
            _ => {}
        }
    }
}
