//! Restarts when no run is in progress, with real services, real lock files, real runs, and killed workers. The names
//! of the tests contain their acceptance points A11.1 to A11.8. This file contains the fixture.

#![expect(
    clippy::disallowed_types,
    clippy::indexing_slicing,
    reason = "the tests start and kill real programs, and know the documents that they read"
)]

mod daemon;
mod when_idle;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use muster_tests::command::{describe_output, find_program};
use muster_tests::poll_until_ok;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

pub(crate) const RESTART_TIMEOUT: Duration = Duration::from_secs(30);

/// A service that keeps the standard output that it inherited and writes to it. A child that ends after the script
/// prints why the service refuses to start.
pub(crate) const STUB_SERVICE: &str = r#"#!/bin/sh
pid() { cat /run/stub.pid 2>/dev/null; }
start() {
  test -e /refuses && { (sleep 0.3; echo "the configuration is wrong" >&2) & exit 3; }
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

/// A machine in a directory, with the service `stub` and the state of a Puppet.
pub(crate) struct RestartFixture {
    pub(crate) directory: TempDir,
}

impl RestartFixture {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let fixture = Self { directory };
        for name in ["root/etc/init.d", "root/run", "puppet", "state"] {
            fs::create_dir_all(fixture.path(name)).unwrap();
        }
        let script = fixture.path("root/etc/init.d/stub");
        fs::write(&script, STUB_SERVICE).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(fixture.path("config.toml"), "nonsense").unwrap();
        let started = fixture.request_restart(&["stub"]);
        assert!(started.status.success(), "{}", describe_output(&started));
        fixture
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Runs `rpcd restart-when-idle` with these arguments.
    pub(crate) fn request_restart(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(find_program("rpcd"));
        command.arg("--config").arg(self.path("none.toml"));
        command.arg("restart-when-idle");
        command.arg("--root").arg(self.path("root"));
        command.arg("--state-dir").arg(self.path("state"));
        command.arg("--puppet-state").arg(self.path("puppet"));
        command.args(arguments).stdin(Stdio::null());
        command.output().unwrap()
    }

    pub(crate) fn record(&self, key: &str) -> Value {
        let path = self.path("state/restart").join(format!("{key}.json"));
        let text = fs::read(path).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    /// Waits until the restart of the service is in one of these states.
    pub(crate) async fn await_cycle(&self, states: &[&str]) -> Value {
        self.await_key_cycle("unit.stub", states).await
    }

    pub(crate) async fn await_key_cycle(&self, key: &str, states: &[&str]) -> Value {
        let what = format!("{key} is {states:?}");
        poll_until_ok(&what, RESTART_TIMEOUT, async || {
            let record = self.record(key);
            let cycle = record["current"].clone();
            let reached = states.iter().any(|state| cycle["state"] == *state);
            if reached && record["next"].is_null() { Ok(cycle) } else { Err(record) }
        })
        .await
    }

    /// How often the service was started.
    pub(crate) fn start_count(&self) -> usize {
        let log = fs::read_to_string(self.path("root/log")).unwrap_or_default();
        assert!(!log.contains("died"), "the service lost its output");
        log.lines().filter(|line| *line == "started").count()
    }

    pub(crate) fn pid(&self) -> i32 {
        let text = fs::read_to_string(self.path("root/run/stub.pid")).unwrap_or_default();
        text.trim().parse().unwrap_or_default()
    }

    /// The path of Puppet's lock file.
    pub(crate) fn lock_path(&self) -> PathBuf {
        self.path("puppet/agent_catalog_run.lock")
    }

    /// Starts a process with Puppet's name, which holds its lock.
    pub(crate) fn start_puppet_run(&self) -> FakePuppetRun {
        self.start_puppet_run_in(&self.path("puppet"))
    }

    /// The same, with this state directory of Puppet.
    pub(crate) fn start_puppet_run_in(&self, state: &Path) -> FakePuppetRun {
        FakePuppetRun::start(&self.path("puppet-agent"), state.join("agent_catalog_run.lock"))
    }

    /// The process ids of this machine's workers. A child that a worker has just forked has the same command line until it executes its program.
    pub(crate) fn workers(&self) -> Vec<i32> {
        let own = self.directory.path().display().to_string();
        let is_worker = |line: &str| line.contains("restart-worker") && line.contains(&own);
        let found: Vec<i32> =
            processes().filter(|(_, line)| is_worker(line)).map(|(pid, _)| pid).collect();
        let is_forked = |pid: &i32| parent_of(*pid).is_some_and(|parent| found.contains(&parent));
        found.iter().copied().filter(|pid| !is_forked(pid)).collect()
    }

    pub(crate) fn apply(&self, catalog: &Value, arguments: &[&str]) -> Output {
        let file = self.path("catalog.json");
        fs::write(&file, catalog.to_string()).unwrap();
        let mut command = Command::new(find_program("rpcd"));
        command.arg("apply").arg(file);
        command.arg("--state-dir").arg(self.path("state/engine"));
        command.arg("--puppet-state").arg(self.path("puppet"));
        command.args(arguments).output().unwrap()
    }
}

impl Drop for RestartFixture {
    fn drop(&mut self) {
        for pid in self.workers() {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
        if self.pid() > 1 {
            let _ = kill(Pid::from_raw(self.pid()), Signal::SIGKILL);
        }
        // The service's script would wait for its service for ever.
        let own = |link: PathBuf| link.starts_with(self.directory.path());
        for (pid, _) in processes() {
            if fs::read_link(format!("/proc/{pid}/root")).is_ok_and(own) {
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
        }
    }
}

/// The parent of a process that still runs.
fn parent_of(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// A simulated Puppet run.
pub(crate) struct FakePuppetRun {
    child: Child,
    lock: PathBuf,
}

impl FakePuppetRun {
    /// Starts a process with Puppet's name, a copy of a program at this path, which holds the lock.
    pub(crate) fn start(program: &Path, lock: PathBuf) -> Self {
        if !program.exists() {
            fs::copy("/bin/sleep", program).unwrap();
        }
        let child = Command::new(program).arg("1000").spawn().unwrap();
        fs::write(&lock, child.id().to_string()).unwrap();
        Self { child, lock }
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends the run as Puppet does: the lock file is removed just before the process ends.
    pub(crate) fn end(mut self) -> u64 {
        fs::remove_file(&self.lock).unwrap();
        let at = muster_tests::now();
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        at
    }
}

impl Drop for FakePuppetRun {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Id and command line of every process.
pub(crate) fn processes() -> impl Iterator<Item = (i32, String)> {
    fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let path = entry.ok()?.path();
        let pid = path.file_name()?.to_str()?.parse().ok()?;
        let line = fs::read(path.join("cmdline")).ok()?;
        Some((pid, String::from_utf8_lossy(&line).replace('\0', " ")))
    })
}

/// The time at which the cycle reached this state.
pub(crate) fn reached_at(cycle: &Value, state: &str) -> u64 {
    let steps = cycle["steps"].as_array().unwrap();
    let step = steps.iter().find(|step| step["state"] == state);
    step.unwrap_or_else(|| panic!("{cycle:#}"))["at"]["wall"].as_u64().unwrap()
}
