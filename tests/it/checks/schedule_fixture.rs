//! A node with scheduled checks whose results tests decide.

use std::time::Duration;

use muster_tests::poll_until_ok;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tokio::process::Child;

use super::fixture::{CheckFleet, CheckNode};

/// A plugin that counts its runs and does what a file says.
pub(super) const SCRIPTED: &str = "dir=${0%/*}; echo run >> $dir/runs; . $dir/result";
/// The name of the node.
pub(super) const NODE: &str = "web1.example.net";

/// A fleet of one node.
pub(super) struct ScheduleFleet {
    pub(super) fleet: CheckFleet,
    pub(super) node: CheckNode,
}

/// An entry of a file of schedules that runs `check_x` rarely, so that only triggers run it.
pub(super) fn entry(name: &str, more: &str) -> String {
    let interval = if more.contains("interval = ") { "" } else { "interval = \"31d\"\n" };
    format!("[[checks]]\nname = \"{name}\"\ncommand = \"check_x\"\n{interval}{more}\n")
}

impl ScheduleFleet {
    /// Starts the node with this file of schedules, and a plugin that is OK.
    pub(super) async fn start(schedule: &str) -> Self {
        Self::start_with(schedule, SCRIPTED).await
    }

    pub(super) async fn start_with(schedule: &str, script: &str) -> Self {
        let fleet = CheckFleet::start().await;
        let node = fleet.start_scheduled_node(NODE, schedule, script);
        fleet.await_nodes(1).await;
        Self { fleet, node }
    }

    /// What the plugin does from now on.
    pub(super) fn set_result(&self, script: &str) {
        self.node.write("plugins/result", script);
    }

    /// The plugin's next results have this exit code.
    pub(super) fn set_exit_code(&self, code: u8) {
        self.set_result(&format!("echo \"state {code}|x={code};1;2\"; exit {code}"));
    }

    /// Runs an action of the agent; returns the status code, the message and the outputs.
    pub(super) async fn call(&self, action: &str, inputs: &[&str]) -> (i64, String, Value) {
        let (document, _) =
            self.fleet.rpc.run_json(&[&["do", "nrpe", action], inputs].concat()).await;
        let reply = &document["replies"][0];
        let message = reply["statusmsg"].as_str().unwrap_or_else(|| panic!("{document}"));
        (reply["statuscode"].as_i64().unwrap(), message.to_owned(), reply["data"].clone())
    }

    /// Runs the check now; returns its row.
    pub(super) async fn trigger(&self, code: u8) -> Value {
        self.set_exit_code(code);
        let (status, message, data) = self.call("trigger", &["check=x"]).await;
        assert_eq!(status, 0, "{message}");
        data["checks"][0].clone()
    }

    /// Changes the state of the check while the program is stopped and its connection to the broker is lost. The broker keeps no events.
    pub(super) async fn change_while_disconnected(&mut self, program: &Child, code: u8) {
        let process = Pid::from_raw(i32::try_from(program.id().unwrap()).unwrap());
        kill(process, Signal::SIGSTOP).unwrap();
        self.fleet.server.kill();
        self.fleet.server.revive().await;
        self.fleet.await_nodes(1).await;
        self.trigger(code).await;
        kill(process, Signal::SIGCONT).unwrap();
    }

    /// The row of a check, when it satisfies a condition.
    pub(super) async fn await_row(
        &self,
        check: &str,
        what: &str,
        accept: impl Fn(&Value) -> bool,
    ) -> Value {
        let mut found = Value::Null;
        poll_until_ok(what, Duration::from_mins(1), async || {
            let (_, message, data) = self.call("checks", &[&format!("check={check}")]).await;
            found = data["checks"][0].clone();
            if accept(&found) { Ok(()) } else { Err(format!("{message} {data}")) }
        })
        .await;
        found
    }

    /// The number of runs of the plugin.
    pub(super) fn runs(&self) -> usize {
        let text = std::fs::read_to_string(self.node.path("plugins/runs")).unwrap_or_default();
        text.lines().count()
    }

    /// Kills the daemon and starts it again.
    pub(super) async fn kill_and_restart(&mut self) {
        self.node.daemon.kill_and_wait();
        self.node.daemon = self.node.daemon.home().clone().start();
        self.fleet.await_nodes(1).await;
    }

    /// Sends the daemon a signal to reload.
    pub(super) fn reload(&self) {
        let pid = Pid::from_raw(self.node.daemon.pid());
        kill(pid, Signal::SIGHUP).unwrap();
    }
}
