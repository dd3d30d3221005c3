//! A node whose daemon has the agent `again`, with the real Puppet or a script.

#![expect(
    clippy::disallowed_types,
    clippy::indexing_slicing,
    reason = "runs rpcd, and knows the documents that it reads"
)]

use std::process::{Command, Output, Stdio};
use std::time::Duration;

use muster_calls::{Client, DiscoveryWindow};
use muster_tests::command::{RpcCommand, describe_output, find_program};
use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::{Organisation, connect};
use muster_tests::poll_until_ok;
use muster_tests::rpcd::{DaemonHome, Rpcd};
use muster_wire::sign::Signer;
use muster_wire::token::ServiceRight;
use serde_json::Value;

use crate::puppet::puppet_node::PuppetNode;

pub(super) const TIMEOUT: Duration = Duration::from_mins(3);

/// The fake Puppet: a line in `w/log` for each run, with the time in milliseconds.
pub(super) const SCRIPT: &str = r#"date +%s%3N >> "$(dirname "$0")/w/log""#;

/// Delays and limits that do not disturb a test.
pub(super) const UNLIMITED: &str = "[plugins.again]\nbudget = 0\nburst = 1000\ndaily = 1000\nspread = 0\nbackoff = 0\nidentical_runs = 1000\n";

pub(super) struct AgainFixture {
    organisation: Organisation,
    server: NatsServer,
    pub(super) rpc: RpcCommand,
    pub(super) node: PuppetNode,
    pub(super) home: DaemonHome,
    pub(super) daemon: Option<Rpcd>,
}

impl AgainFixture {
    /// Creates a broker, a caller and the files of a daemon, which does not run yet.
    pub(super) async fn prepare(node: PuppetNode, options: &str) -> Self {
        let organisation = Organisation::new(&["muster"]);
        let server = organisation.start_broker_with_stores().await;
        let caller = organisation.caller("rip");
        let rpc = RpcCommand::new(&server, &organisation, &caller, "confirm = \"never\"");
        let home = node.create_daemon_home((&organisation, &server));
        home.write("conf.d/zz-again.toml", options, 0o644);
        Self { organisation, server, rpc, node, home, daemon: None }
    }

    pub(super) async fn start(node: PuppetNode, options: &str) -> Self {
        let mut fixture = Self::prepare(node, options).await;
        fixture.start_daemon().await;
        fixture
    }

    /// Starts the daemon, and waits until it replies.
    pub(super) async fn start_daemon(&mut self) {
        self.daemon = Some(self.home.clone().start());
        self.node.await_daemon(&self.rpc).await;
    }

    /// Clients in this process: one of the caller `rip`, and one of a service.
    pub(super) async fn clients(&self) -> (Client, Client) {
        let Self { organisation, server, .. } = self;
        let client = async |signer: Signer| {
            let (bus, trust) = (connect(server, &signer).await, organisation.trust());
            let collective = organisation.collective().clone();
            Client::new(bus, signer, trust, collective, DiscoveryWindow::default())
        };
        let (caller, service) = (
            organisation.caller("rip"),
            organisation.service(ServiceRight::Directory, "directory"),
        );
        (client(caller).await, client(service).await)
    }

    /// The command of a manifest, with these arguments.
    pub(super) fn command_words(&self, arguments: &[&str]) -> Vec<String> {
        let program = find_program("rpcd").display().to_string();
        let config = self.home.path("rpcd.toml").display().to_string();
        let mut words = vec![program, "--config".to_owned(), config, "again".to_owned()];
        words.extend(arguments.iter().map(|word| (*word).to_owned()));
        words
    }

    /// Runs `rpcd again` with these arguments.
    pub(super) fn ask(&self, arguments: &[&str]) -> Output {
        let words = self.command_words(arguments);
        let output = Command::new(&words[0]).args(&words[1..]).stdin(Stdio::null()).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{}", describe_output(&output));
        output
    }

    /// The data of the only reply of an action.
    pub(super) async fn call(&self, words: &[&str]) -> Value {
        let (document, output) = self.rpc.run_json(&[&["do", "again"], words].concat()).await;
        let code = document.pointer("/replies/0/statuscode");
        assert_eq!(code, Some(&Value::from(0)), "{document:#}\n{output:?}");
        document.pointer("/replies/0/data").unwrap().clone()
    }

    /// Waits until the list has this state; returns it.
    pub(super) async fn await_listed(&self, state: &str) -> Value {
        poll_until_ok(&format!("the state is {state}"), TIMEOUT, async || {
            let list = self.call(&["list"]).await;
            if list["state"] == state { Ok(list) } else { Err(format!("{list:#}\n{}", self.log())) }
        })
        .await
    }

    /// Waits until the history has `count` entries; returns them, newest first.
    pub(super) async fn await_history(&self, count: usize) -> Vec<Value> {
        poll_until_ok(&format!("the history has {count} entries"), TIMEOUT, async || {
            let history = self.call(&["history"]).await;
            let entries = history["entries"].as_array().unwrap().clone();
            if entries.len() == count {
                Ok(entries)
            } else {
                Err(format!("{history:#}\n{}", self.log()))
            }
        })
        .await
    }

    fn log(&self) -> String {
        self.daemon.as_ref().map(Rpcd::log).unwrap_or_default()
    }

    /// The ids of Puppet's runs that this daemon began, newest first, each with its transaction.
    pub(super) async fn list_runs(&self) -> Vec<(String, String)> {
        let (document, _) = self.rpc.run_json(&["do", "puppet", "runs"]).await;
        let runs = document["replies"][0]["data"]["runs"].as_array().unwrap().clone();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        runs.iter().map(|run| (text(&run["run"]), text(&run["transaction_uuid"]))).collect()
    }
}
