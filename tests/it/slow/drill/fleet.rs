//! The fleet of the drill: a cluster, twelve daemons that each reach it through proxies of their own, one of them with an instance of the directory, and a user of `rpc`.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use muster_tests::cluster::{Cluster, SERVER_NAMES};
use muster_tests::command::{RpcCommand, describe_output};
use muster_tests::fault_proxy::FaultProxy;
use muster_tests::organisation::{Broker, Organisation};
use muster_tests::poll_until_ok;
use muster_tests::rpcd::{DaemonHome, Rpcd};
use muster_wire::identity::Identity;
use muster_wire::token::ServiceRight;
use serde_json::Value;
use uuid::Uuid;

use crate::directory::fixture::enable_directory;
use crate::long::faults::fixture::{install_tally_agent, read_tally, tally_ddl};

/// Number of nodes.
pub(super) const NODES: usize = 12;
/// The node that runs the instance of the directory.
pub(super) const DIRECTORY_NODE: usize = 0;
/// The command of callers that are killed: a change on all nodes.
pub(super) const STRIKE_ALL: [&str; 3] = ["tally", "strike", "-j"];
/// How long a node or the fleet may need to recover.
const RECOVERY_TIMEOUT: Duration = Duration::from_mins(2);
/// Short intervals, so that the directory notices the failures.
const NODE_CONFIG: &str = "[log]\nformat = \"json\"\n[registration]\nheartbeat_seconds = 5\n";

/// A running node.
pub(super) struct DrillNode {
    pub(super) name: Identity,
    home: DaemonHome,
    pub(super) daemon: Rpcd,
    /// In front of each server.
    pub(super) proxies: Vec<FaultProxy>,
}

impl DrillNode {
    /// Starts the daemon again with its files, and waits until it is ready.
    pub(super) async fn restart(&mut self) {
        self.daemon = self.home.clone().start();
        self.await_ready().await;
    }

    async fn await_ready(&mut self) {
        let Self { name, daemon, .. } = self;
        poll_until_ok(&format!("{name} is ready"), RECOVERY_TIMEOUT, async || {
            assert!(daemon.is_running(), "{name} ended: {}", daemon.log());
            let log = daemon.log();
            if log.contains("\"message\":\"ready\"") { Ok(()) } else { Err(log) }
        })
        .await;
    }
}

/// Everything that runs.
pub(super) struct DrillFleet {
    pub(super) organisation: Organisation,
    pub(super) cluster: Cluster,
    pub(super) nodes: Vec<DrillNode>,
    pub(super) rpc: RpcCommand,
}

impl DrillFleet {
    pub(super) async fn start() -> Self {
        let organisation = Organisation::new(&["muster"]);
        let cluster = Cluster::start(&organisation).await;
        organisation.publish_account(&cluster, &organisation.account_token()).await;
        let mut nodes = Vec::new();
        for number in 0..NODES {
            nodes.push(start_node(&organisation, &cluster, number).await);
        }
        for node in &mut nodes {
            node.await_ready().await;
        }
        let rpc = RpcCommand::new(&cluster, &organisation, &organisation.caller("rip"), "");
        rpc.add_schema("tally", &tally_ddl());
        let fleet = Self { organisation, cluster, nodes, rpc };
        fleet.await_all_answering().await;
        fleet
    }

    /// How often each node executed each request.
    pub(super) fn read_effects(&self) -> HashMap<(Identity, Uuid), u32> {
        let of_node = |node: &DrillNode| {
            let name = node.name.clone();
            read_tally(&node.home).into_iter().map(move |(id, times)| ((name.clone(), id), times))
        };
        self.nodes.iter().flat_map(of_node).collect()
    }

    /// Waits until the servers are healthy, all nodes answer, and no daemon reports an error about itself; fails the test if a daemon has ended.
    pub(super) async fn await_recovered(&mut self) {
        self.cluster.await_healthy().await;
        for node in &mut self.nodes {
            assert!(node.daemon.is_running(), "{} ended: {}", node.name, node.daemon.log());
        }
        self.await_all_answering().await;
        let (document, _) = self.rpc.run_json(&["rpcutil", "diagnose"]).await;
        let replies = document.get("replies").and_then(Value::as_array).unwrap();
        assert_eq!(replies.len(), NODES, "{document:#}");
        let text = document.to_string();
        assert!(!text.contains("\"level\":\"error\""), "{document:#}");
    }

    /// Runs the command of the callers that are killed, to the end: it reaches all nodes.
    pub(super) async fn strike_all(&self) {
        let output = self.rpc.run(&STRIKE_ALL).await;
        let document: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let replies = document.get("replies").and_then(Value::as_array);
        let count = replies.map_or(0, Vec::len);
        assert!(output.status.success() && count == NODES, "{}", describe_output(&output));
    }

    /// Waits until all nodes answer one ping.
    async fn await_all_answering(&self) {
        let expected: BTreeSet<&str> = self.nodes.iter().map(|node| node.name.as_str()).collect();
        poll_until_ok("all nodes answer a ping", RECOVERY_TIMEOUT, async || {
            let output = self.rpc.run(&["ping", "-j"]).await;
            let document: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
            let replies = document.get("replies").and_then(Value::as_array);
            let senders = replies.into_iter().flatten().filter_map(|reply| reply.get("sender"));
            let found: BTreeSet<&str> = senders.filter_map(Value::as_str).collect();
            if found == expected { Ok(()) } else { Err(describe_output(&output)) }
        })
        .await;
    }
}

/// Starts a node without waiting until it is ready.
async fn start_node(organisation: &Organisation, cluster: &Cluster, number: usize) -> DrillNode {
    let signer = organisation.node(&format!("node{number}.example.net"));
    let mut proxies = Vec::new();
    for member in 0..SERVER_NAMES.len() {
        proxies.push(FaultProxy::start(cluster.member(member)).await);
    }
    let urls: Vec<String> = proxies.iter().flat_map(Broker::urls).collect();
    // The configuration has the text between quotes.
    let home = DaemonHome::new(organisation, &signer, &urls.join("\", \""), NODE_CONFIG);
    install_tally_agent(&home);
    if number == DIRECTORY_NODE {
        let service = organisation.service(ServiceRight::Directory, "directory1");
        enable_directory(&home, &service, "");
    }
    DrillNode { name: signer.identity().clone(), daemon: home.clone().start(), home, proxies }
}
