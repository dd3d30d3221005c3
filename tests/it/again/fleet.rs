//! Three nodes whose daemons have the agent `again` and a script as Puppet, two of them with an instance of the directory.

#![expect(clippy::indexing_slicing, reason = "knows the documents that it reads")]

use std::time::Duration;

use muster_tests::command::{RpcCommand, find_program};
use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::Organisation;
use muster_tests::poll_until_ok;
use muster_tests::rpcd::Rpcd;
use muster_wire::token::{ServiceRight, UserCredentials};
use serde_json::Value;

use super::fixture::{TIMEOUT, UNLIMITED};
use crate::puppet::puppet_node::PuppetNode;

/// A run: asks for another one if `w/ask` exists, lasts while `w/slow` exists, and writes Puppet's summary. `w/log` has its begin and its end.
const SCRIPT: &str = r#"base="$(dirname "$0")"; w="$base/w"
echo "begin $(date +%s%3N)" >> "$w/log"
if [ -f "$w/ask" ]; then mv "$w/ask" "$w/asking"; sh "$w/asking"; fi
while [ -f "$w/slow" ]; do sleep 0.05; done
printf -- '---\nversion:\n  config: 1\nresources:\n  total: 1\n  failed: 0\ntime:\n  config_retrieval: 0.1\n  last_run: %s\nevents:\n  failure: 0\n' \
    "$(date +%s)" > "$base/public/new"
mv "$base/public/new" "$base/public/last_run_summary.yaml"
echo "end $(date +%s%3N)" >> "$w/log"
"#;

/// The longer interval of records with another state alone is the default of five minutes.
const REGISTRATION: &str = "[registration]\nheartbeat_seconds = 1\nmin_interval_seconds = 0\n[broker]\nreconnect_spread_seconds = 1\n";

/// A node of the fleet.
pub(super) struct FleetNode {
    pub(super) node: PuppetNode,
    pub(super) daemon: Rpcd,
}

/// A broker, a caller, and three nodes of the class `gluster`.
pub(super) struct AgainFleet {
    _organisation: Organisation,
    _server: NatsServer,
    pub(super) rpc: RpcCommand,
    pub(super) nodes: Vec<FleetNode>,
}

impl AgainFleet {
    /// Starts the daemons; the first `directories` of them run an instance of the directory.
    pub(super) async fn start(directories: usize) -> Self {
        let organisation = Organisation::new(&["muster"]);
        let server = organisation.start_broker_with_stores().await;
        let caller = organisation.caller("rip");
        let rpc = RpcCommand::new(&server, &organisation, &caller, "confirm = \"never\"");
        let mut nodes = Vec::new();
        for number in 1..=3 {
            let node = PuppetNode::scripted(&format!("n{number}.example.net"), SCRIPT);
            let home = node.create_daemon_home((&organisation, &server));
            home.write("conf.d/zz-again.toml", &format!("{UNLIMITED}{REGISTRATION}"), 0o644);
            home.write("classes.txt", "gluster\n", 0o644);
            if number <= directories {
                let service =
                    organisation.service(ServiceRight::Directory, &format!("directory{number}"));
                let creds = (service.token(), service.key_pair().clone());
                let creds = UserCredentials::new(&creds.0, creds.1).unwrap();
                home.write("service.creds", &creds.to_text(), 0o600);
                let options =
                    "[plugins.directory]\nenabled = true\ncredentials = \"../service.creds\"\n";
                home.write("conf.d/directory.toml", options, 0o644);
            }
            nodes.push(FleetNode { daemon: home.start(), node });
        }
        let fleet = Self { _organisation: organisation, _server: server, rpc, nodes };
        for node in &fleet.nodes {
            node.node.await_daemon(&fleet.rpc).await;
        }
        if directories > 0 {
            fleet.await_directory().await;
        }
        fleet
    }

    /// Waits until the directory knows all nodes.
    async fn await_directory(&self) {
        poll_until_ok("the directory knows all nodes", Duration::from_mins(2), async || {
            let (document, _) = self.rpc.run_json(&["nodes", "-C", "gluster"]).await;
            let count = document["nodes"].as_array().map(Vec::len);
            if count == Some(self.nodes.len()) { Ok(()) } else { Err(document) }
        })
        .await;
    }

    /// Calls an action of the agent `again` on a node; returns its data.
    pub(super) async fn call(&self, node: usize, words: &[&str]) -> Value {
        let name = self.nodes[node].node.name();
        let arguments = [&["do", "again"], words, &["-I", name]].concat();
        let (document, output) = self.rpc.run_json(&arguments).await;
        let code = document.pointer("/replies/0/statuscode");
        assert_eq!(code, Some(&Value::from(0)), "{document:#}\n{output:?}");
        document["replies"][0]["data"].clone()
    }

    /// Makes the next run of a node call `rpcd again` with these arguments.
    pub(super) fn ask_in_next_run(&self, node: usize, arguments: &str) {
        let FleetNode { node, daemon } = &self.nodes[node];
        let program = find_program("rpcd").display().to_string();
        let config = daemon.home().path("rpcd.toml").display().to_string();
        let command = format!("{program} --config {config} again {arguments}\n");
        std::fs::write(node.path("w/ask"), command).unwrap();
    }

    /// Begins a run of a node, and waits until it has begun.
    pub(super) async fn begin_run(&self, node: usize) {
        let before = self.times(node, "begin").len();
        self.call(node, &["request", "reason=test"]).await;
        poll_until_ok("the run has begun", TIMEOUT, async || {
            let times = self.times(node, "begin");
            if times.len() > before { Ok(()) } else { Err(self.nodes[node].daemon.log()) }
        })
        .await;
    }

    /// When the runs of a node began or ended, by its clock.
    pub(super) fn times(&self, node: usize, what: &str) -> Vec<u64> {
        let log = self.nodes[node].node.log();
        let times = log.iter().filter_map(|line| line.strip_prefix(what)?.trim().parse().ok());
        times.collect()
    }

    /// Waits until the list of a node satisfies a condition; returns it.
    pub(super) async fn await_list(&self, node: usize, accept: impl Fn(&Value) -> bool) -> Value {
        poll_until_ok("the list is as expected", TIMEOUT, async || {
            let list = self.call(node, &["list"]).await;
            if accept(&list) {
                return Ok(list);
            }
            let logs = self.nodes.iter().map(|node| node.daemon.log()).collect::<String>();
            Err(format!("{list:#}\n{logs}"))
        })
        .await
    }

    /// Waits until a node has begun this number of runs, and all have ended.
    pub(super) async fn await_runs(&self, node: usize, count: usize) {
        poll_until_ok("the runs have ended", TIMEOUT, async || {
            let ended = self.times(node, "end").len();
            if ended == count { Ok(()) } else { Err(self.call(node, &["list"]).await) }
        })
        .await;
    }
}
