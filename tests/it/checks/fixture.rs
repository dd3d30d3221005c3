//! A broker, a caller, and real daemons with plugins that tests write.

use std::path::PathBuf;
use std::process::Output;
use std::time::Duration;

use muster_tests::command::{RpcCommand, describe_output};
use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::Organisation;
use muster_tests::poll_until_ok;
use muster_tests::rpcd::{DaemonHome, Rpcd};
use serde_json::Value;

/// A broker and a caller.
pub(super) struct CheckFleet {
    organisation: Organisation,
    pub(super) server: NatsServer,
    pub(super) rpc: RpcCommand,
}

/// A daemon with plugins.
pub(super) struct CheckNode {
    pub(super) daemon: Rpcd,
}

impl CheckFleet {
    pub(super) async fn start() -> Self {
        let organisation = Organisation::new(&["muster"]);
        let server = organisation.start_broker().await;
        let caller = organisation.caller("rip");
        let rpc = RpcCommand::new(&server, &organisation, &caller, "");
        Self { organisation, server, rpc }
    }

    /// Starts a node. Each plugin is a name, the text of a shell script, and its arguments as in `nrpe.cfg`; `more` is added to the configuration of NRPE, and
    /// `options` to the section of the agent.
    pub(super) fn start_node(
        &self,
        name: &str,
        plugins: &[(&str, &str, &str)],
        (more, options): (&str, &str),
    ) -> CheckNode {
        let signer = self.organisation.node(name);
        let home = DaemonHome::new(&self.organisation, &signer, &self.server.url(), "");
        let write = |(plugin, script, arguments): &(&str, &str, &str)| {
            let file = format!("plugins/{plugin}");
            home.write(&file, &format!("#!/bin/sh\n{script}\n"), 0o755);
            format!("command[{plugin}]={} {arguments}\n", home.path(&file).display())
        };
        let text: String = plugins.iter().map(write).collect();
        home.write("nrpe/nrpe.cfg", &(text + more), 0o644);
        let config = home.path("nrpe/nrpe.cfg");
        let options = format!("[plugins.nrpe]\nconfig = \"{}\"\n{options}", config.display());
        home.write("conf.d/nrpe.toml", &options, 0o644);
        CheckNode { daemon: home.start() }
    }

    /// Starts a node with a plugin `check_x`, which is OK as long as it does what a file says, a file of schedules, and two checks at a time.
    pub(super) fn start_scheduled_node(
        &self,
        name: &str,
        schedule: &str,
        script: &str,
    ) -> CheckNode {
        let signer = self.organisation.node(name);
        let home = DaemonHome::new(&self.organisation, &signer, &self.server.url(), "");
        home.write("plugins/check_x", &format!("#!/bin/sh\n{script}\n"), 0o755);
        home.write("plugins/result", "echo fine; exit 0", 0o644);
        let command = format!("command[check_x]={}\n", home.path("plugins/check_x").display());
        home.write("nrpe/nrpe.cfg", &command, 0o644);
        home.write("checks.d/a.toml", schedule, 0o644);
        let options = format!(
            "[plugins.nrpe]\nconfig = \"{}\"\nschedules = \"{}\"\nconcurrency = 2\n",
            home.path("nrpe/nrpe.cfg").display(),
            home.path("checks.d").display()
        );
        home.write("conf.d/nrpe.toml", &options, 0o644);
        CheckNode { daemon: home.start() }
    }

    /// Waits until this number of nodes with the agent can be found.
    pub(super) async fn await_nodes(&self, count: usize) {
        poll_until_ok("the nodes are ready", Duration::from_mins(2), async || {
            let output = self.rpc.run(&["find", "-A", "nrpe"]).await;
            let found = String::from_utf8_lossy(&output.stdout).lines().count();
            if found == count { Ok(()) } else { Err(describe_output(&output)) }
        })
        .await;
    }

    /// Starts one node and waits for it.
    pub(super) async fn with_node(
        plugins: &[(&str, &str, &str)],
        more: (&str, &str),
    ) -> (Self, CheckNode) {
        let fleet = Self::start().await;
        let node = fleet.start_node("web1.example.net", plugins, more);
        fleet.await_nodes(1).await;
        (fleet, node)
    }

    /// The reply of the only node to `nrpe runcommand`: status code, message and outputs.
    pub(super) async fn run_command(&self, inputs: &[&str]) -> (i64, String, Value) {
        let (document, _) =
            self.rpc.run_json(&[&["do", "nrpe", "runcommand"], inputs].concat()).await;
        let reply = &document["replies"][0];
        let message = reply["statusmsg"].as_str().unwrap_or_else(|| panic!("{document}"));
        (reply["statuscode"].as_i64().unwrap(), message.to_owned(), reply["data"].clone())
    }

    /// Text and exit code of `rpc check`.
    pub(super) async fn check(&self, arguments: &[&str]) -> (String, i32) {
        read_check(&self.rpc.run(&[&["check"], arguments].concat()).await)
    }
}

impl CheckNode {
    /// The path of a file of the node.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.daemon.home().path(name)
    }

    /// Writes a file of the node.
    pub(super) fn write(&self, name: &str, text: &str) {
        self.daemon.home().write(name, text, 0o644);
    }
}

/// Text and exit code of a finished `rpc check`.
pub(super) fn read_check(output: &Output) -> (String, i32) {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    (text, output.status.code().unwrap_or_else(|| panic!("{}", describe_output(output))))
}

/// The first line up to the time, after a check that the time has six decimals.
pub(super) fn counts_of(text: &str) -> &str {
    let line = text.lines().next().unwrap_or_default();
    let (counts, time) = line.split_once(" checktime=").unwrap_or_else(|| panic!("{text}"));
    let time = time.split(' ').next().unwrap();
    let (seconds, decimals) = time.split_once('.').unwrap_or_else(|| panic!("{text}"));
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|c| c.is_ascii_digit());
    assert!(is_number(seconds) && is_number(decimals) && decimals.len() == 6, "{text}");
    counts
}
