//! Booted Debian machines, through `tools/machines`. Dropping a fleet takes it down; if the test process is killed, a guard
//! process of the tool does so.

#![expect(clippy::disallowed_types, reason = "runs tools/machines")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use muster_tests::command::describe_output;
use muster_tests::{poll_until_ok, tools};
use serde::Deserialize;

/// How long a command on a machine may take before a test fails.
const COMMAND_TIMEOUT: Duration = Duration::from_mins(2);

/// What the machines of a fleet have below their own disks.
#[derive(Debug, Default, Clone)]
pub(crate) struct MachineLayers {
    /// Whether Puppet's agent is installed.
    pub(crate) puppet: bool,
    /// Whether zsh, fish, the monitoring plugins, Nagios Core, Icinga 2 and curl are installed.
    pub(crate) programs: bool,
    /// Directories with files from the root directory on, such as `etc/motd`; the first one has precedence.
    pub(crate) directories: Vec<PathBuf>,
}

/// Machines `m1`, `m2` and so on, with the host names `m1.example.net` and so on.
#[derive(Debug, Deserialize)]
pub(crate) struct MachineFleet {
    /// The name of the fleet for `tools/machines`, and of its bridge.
    pub(crate) fleet: String,
    /// The address of this host on the machines' network.
    pub(crate) host: String,
    /// The address of each machine.
    pub(crate) machines: BTreeMap<String, String>,
}

fn tool() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tools/machines")
}

fn tool_command(arguments: &[&str]) -> tokio::process::Command {
    let mut command = tokio::process::Command::new(tool());
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

async fn run_tool(arguments: &[&str]) -> Output {
    tool_command(arguments).output().await.unwrap()
}

async fn run_tool_successfully(arguments: &[&str]) -> String {
    let output = run_tool(arguments).await;
    assert!(output.status.success(), "tools/machines {arguments:?}: {}", describe_output(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

impl MachineFleet {
    /// Boots this many machines and waits until they have booted. Returns `None` if this run skips tests on machines
    /// (`MUSTER_TESTS_WITHOUT=machines`); fails the test if machines cannot boot here otherwise.
    pub(crate) async fn boot(count: usize, layers: &MachineLayers) -> Option<Self> {
        if tools::is_skipped("machines") {
            return None;
        }
        let check = run_tool(&["check"]).await;
        assert!(
            check.status.success(),
            "{}install what is missing, or name machines in MUSTER_TESTS_WITHOUT",
            String::from_utf8_lossy(&check.stderr)
        );
        let owner = std::process::id().to_string();
        let count = count.to_string();
        let mut arguments = vec!["up", count.as_str(), "--owner", &owner];
        if layers.puppet {
            arguments.extend(["--with", "puppet"]);
        }
        if layers.programs {
            arguments.extend(["--with", "programs"]);
        }
        for directory in &layers.directories {
            arguments.extend(["--layer", directory.to_str().unwrap()]);
        }
        let output = run_tool_successfully(&arguments).await;
        Some(serde_json::from_str(&output).unwrap())
    }

    /// The names of the machines in order.
    pub(crate) fn names(&self) -> Vec<&str> {
        (1..=self.machines.len())
            .map(|number| {
                let name = format!("m{number}");
                self.machines.get_key_value(&name).unwrap().0.as_str()
            })
            .collect()
    }

    /// Runs a shell script on a machine until it exits.
    pub(crate) async fn run(&self, machine: &str, script: &str) -> Output {
        let run = tool_command(&["exec", &self.fleet, machine, "sh", "-c", script])
            .kill_on_drop(true)
            .output();
        match tokio::time::timeout(COMMAND_TIMEOUT, run).await {
            Ok(output) => output.unwrap(),
            Err(elapsed) => panic!("{machine}: {script}: {elapsed} after {COMMAND_TIMEOUT:?}"),
        }
    }

    /// Runs a shell script on a machine; it must succeed. Returns its standard output without white space at the end.
    pub(crate) async fn sh(&self, machine: &str, script: &str) -> String {
        let output = self.run(machine, script).await;
        assert!(output.status.success(), "{machine}: {script}: {}", describe_output(&output));
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    /// Pipes a script to the shell of a machine, as `ssh MACHINE sh` does; it must succeed.
    pub(crate) async fn pipe(&self, machine: &str, script: &str) {
        let output = self.pipe_until_cut(machine, script).await;
        assert!(output.status.success(), "{machine}: {}", describe_output(&output));
    }

    /// Pipes a script to the shell of a machine that may lose its power meanwhile.
    pub(crate) async fn pipe_until_cut(&self, machine: &str, script: &str) -> Output {
        let mut command = tool_command(&["exec", &self.fleet, machine, "sh"]);
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        // The shell may end before it has read all.
        let _ = tokio::io::AsyncWriteExt::write_all(&mut input, script.as_bytes()).await;
        drop(input);
        child.wait_with_output().await.unwrap()
    }

    /// Waits until a shell script succeeds on a machine; returns its standard output.
    pub(crate) async fn await_script(&self, machine: &str, script: &str) -> String {
        let what = format!("{machine}: {script}");
        let output = poll_until_ok(&what, COMMAND_TIMEOUT, async || {
            let output = self.run(machine, script).await;
            if output.status.success() { Ok(output) } else { Err(describe_output(&output)) }
        })
        .await;
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    /// Copies a file or the content of a directory to a path of a machine that is on or off. Modes are kept; root owns
    /// the copies.
    pub(crate) async fn copy(&self, machine: &str, source: &Path, path: &str) {
        run_tool_successfully(&["copy", &self.fleet, machine, source.to_str().unwrap(), path])
            .await;
    }

    /// Cuts the power of machines: all processes end at once, and what is not synced to the disk is lost.
    pub(crate) async fn cut_power(&self, machines: &[&str]) {
        let words = [&["kill", &self.fleet], machines].concat();
        run_tool_successfully(&words).await;
    }

    /// Cuts the power of a machine some time after the next change of a file; returns the content of files at the cut.
    pub(crate) async fn cut_power_after(
        &self,
        machine: &str,
        file: &str,
        delay: Duration,
        shown: &[&str],
    ) -> BTreeMap<String, Option<String>> {
        let delay = format!("{:.4}", delay.as_secs_f64());
        let words = ["kill", &self.fleet, machine, "--after", file, "--delay", &delay, "--show"];
        let output = run_tool_successfully(&[&words[..], shown].concat()).await;
        serde_json::from_str(&output).unwrap()
    }

    /// Boots machines that are off, and waits until they have booted.
    pub(crate) async fn power_on(&self, machines: &[&str]) {
        let words = [&["boot", &self.fleet], machines].concat();
        run_tool_successfully(&words).await;
    }

    /// Limits the memory of a machine that is on.
    pub(crate) async fn limit_memory(&self, machine: &str, bytes: u64) {
        run_tool_successfully(&["limit", &self.fleet, machine, &bytes.to_string()]).await;
    }

    /// Connects a machine to the others or cuts it off, as by its cable.
    pub(crate) async fn set_link(&self, machine: &str, is_up: bool) {
        let interface = self.interface(machine);
        let state = if is_up { "up" } else { "down" };
        let output = tokio::process::Command::new("ip")
            .args(["link", "set", &interface, state])
            .output()
            .await
            .unwrap();
        assert!(output.status.success(), "{}", describe_output(&output));
    }

    /// The name of a machine's interface on this host, a port of the fleet's bridge.
    fn interface(&self, machine: &str) -> String {
        format!("vb-{}{machine}", self.fleet.replace('-', ""))
    }
}

impl Drop for MachineFleet {
    fn drop(&mut self) {
        let command = |arguments: &[&str]| {
            std::process::Command::new(tool()).args(arguments).stdin(Stdio::null()).output()
        };
        if std::thread::panicking() {
            for machine in self.machines.keys() {
                let journal = ["journalctl", "--unit=rpcd", "--no-pager", "--lines=40"];
                let words = [&["exec", &self.fleet, machine], &journal[..]].concat();
                print_journal(machine, command(&words).ok());
            }
        }
        let _ = command(&["down", &self.fleet]);
    }
}

#[expect(clippy::print_stderr, reason = "shown by the test runner beside the failure")]
fn print_journal(machine: &str, output: Option<Output>) {
    let text = output.map(|output| describe_output(&output)).unwrap_or_default();
    eprintln!("---- journal of {machine} ----\n{text}");
}
