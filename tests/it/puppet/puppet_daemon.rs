//! A real daemon with the real Puppet, its broker, and the real `rpc`.

#![expect(clippy::indexing_slicing, reason = "the structure of the documents is known")]

use std::path::PathBuf;

use muster_tests::command::RpcCommand;
use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::Organisation;
use muster_tests::rpcd::{DaemonHome, Rpcd};
use serde_json::Value;

use super::puppet_node::PuppetNode;

pub(crate) struct PuppetDaemonFixture {
    _server: NatsServer,
    /// `None` while no daemon runs.
    daemon: Option<Rpcd>,
    home: DaemonHome,
    pub(crate) rpc: RpcCommand,
}

impl PuppetDaemonFixture {
    pub(crate) async fn start(node: &PuppetNode) -> Self {
        let organisation = Organisation::new(&["muster"]);
        let server = organisation.start_broker_with_stores().await;
        let caller = organisation.caller("rip");
        let rpc = RpcCommand::new(&server, &organisation, &caller, "confirm = \"never\"");
        let daemon = node.start_daemon((&organisation, &server), &rpc).await;
        let home = daemon.home().clone();
        Self { _server: server, daemon: Some(daemon), home, rpc }
    }

    /// The running daemon.
    pub(crate) fn daemon(&self) -> &Rpcd {
        self.daemon.as_ref().unwrap()
    }

    /// Kills the daemon with SIGKILL; its files remain.
    pub(crate) fn kill_daemon(&mut self) {
        self.daemon = None;
    }

    /// Makes the record of a run what it is between the start of its program and the record of the process.
    pub(crate) fn forget_process(&self, id: &str) {
        let path = self.home.path("state/puppet/runs").join(id).join("run.json");
        let mut record: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        assert!(record["step"]["process"].is_object(), "{record}");
        record["step"]["process"] = Value::Null;
        std::fs::write(&path, record.to_string()).unwrap();
    }

    /// Starts the daemon again after [`Self::kill_daemon`].
    pub(crate) async fn restart_daemon(&mut self, node: &PuppetNode) {
        self.daemon = Some(self.home.clone().start());
        node.await_daemon(&self.rpc).await;
    }

    /// Runs Puppet; returns the outputs of its run, and the exit code of `rpc`.
    pub(crate) async fn run_puppet(&self, more: &[&str]) -> (Value, i32) {
        let (document, exit) = self.rpc.run_json(&[&["puppet", "runonce"], more].concat()).await;
        (document["nodes"][0]["data"].clone(), exit)
    }

    /// Begins a run of Puppet without waiting for its end; returns its id.
    pub(crate) async fn begin_run(&self) -> String {
        let arguments = ["do", "puppet", "runonce", "background=true"];
        let (document, exit) = self.rpc.run_json(&arguments).await;
        assert_eq!(exit, 0, "{document}");
        document["replies"][0]["data"]["run"].as_str().unwrap().to_owned()
    }

    /// The outputs of the run with this id.
    pub(crate) async fn find_run(&self, id: &str) -> Value {
        let run = format!("run={id}");
        let (document, _) = self.rpc.run_json(&["do", "puppet", "runs", &run]).await;
        document["replies"][0]["data"]["runs"][0].clone()
    }

    /// The file with the exit code of a run's program, which exists when the program has ended.
    pub(crate) fn exit_file(&self, id: &str) -> PathBuf {
        self.home.path("state/puppet/runs").join(id).join("run/exit")
    }

    /// Directory of the daemon's ledger.
    pub(crate) fn engine_dir(&self) -> PathBuf {
        self.home.path("state/engine")
    }

    /// Target and reason of each entry of `rpc ledger list`.
    pub(crate) async fn list_ledger(&self) -> Vec<(String, String)> {
        let (document, exit) = self.rpc.run_json(&["ledger", "list"]).await;
        assert_eq!(exit, 0, "{document}");
        let data = &document["replies"][0]["data"];
        let entries = data["debts"].as_array().unwrap().iter();
        let field = |entry: &Value, name: &str| entry[name].as_str().unwrap_or("").to_owned();
        entries.map(|entry| (field(entry, "target"), field(entry, "reason"))).collect()
    }
}
