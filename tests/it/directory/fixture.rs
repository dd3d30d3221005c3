//! A fleet of real daemons of which some run an instance of the directory, and a caller.

use std::time::Duration;

use muster_client::{Client, DiscoveryWindow};
use muster_contract::directory::{DirectoryQueryInput, DirectoryStatusOutput};
use muster_tests::command::{RpcCommand, describe_output};
use muster_tests::nats_server::{NETWORK_TIMEOUT, NatsServer};
use muster_tests::organisation::{Organisation, connect};
use muster_tests::poll_until_ok;
use muster_tests::rpcd::{DaemonHome, Rpcd};
use muster_wire::sign::Signer;
use muster_wire::token::UserCredentials;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Short intervals, so that tests are fast. Interfaces and mounts are left out, because other tests add and remove some.
const REGISTRATION: &str = "[registration]\nheartbeat_seconds = 1\nmin_interval_seconds = 0\nstate_interval_seconds = 0\nexcluded_facts = [\"token\", \"networking.interfaces\", \"mountpoints\"]\n[broker]\nreconnect_spread_seconds = 1\n";

/// How late a heartbeat may be where a test waits for a missing node.
pub(super) const GRACE_SECONDS: u64 = 8;

/// Time for an answer in tests.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// A broker with stores, a caller, and the daemons that were started.
pub(super) struct DirectoryFixture {
    pub(super) organisation: Organisation,
    pub(super) server: NatsServer,
    pub(super) rpc: RpcCommand,
    pub(super) caller: Signer,
}

/// A running node and its credentials.
pub(super) struct FleetNode {
    pub(super) signer: Signer,
    pub(super) daemon: Rpcd,
}

impl DirectoryFixture {
    pub(super) async fn start() -> Self {
        let organisation = Organisation::new(&["muster"]);
        let server = organisation.start_broker_with_stores().await;
        Self::on_broker(organisation, server)
    }

    pub(super) fn on_broker(organisation: Organisation, server: NatsServer) -> Self {
        let caller = organisation.caller("rip");
        let rpc = RpcCommand::new(&server, &organisation, &caller, "");
        Self { organisation, server, rpc, caller }
    }

    /// The files of a node that registers itself.
    pub(super) fn node_home(&self, signer: &Signer, facts: &str, classes: &str) -> DaemonHome {
        let home = DaemonHome::new(&self.organisation, signer, &self.server.url(), REGISTRATION);
        home.write("facts.d/site.json", facts, 0o644);
        home.write("classes.txt", classes, 0o644);
        home
    }

    pub(super) fn start_node(&self, name: &str, facts: &str, classes: &str) -> FleetNode {
        let signer = self.organisation.node(name);
        let daemon = self.node_home(&signer, facts, classes).start();
        FleetNode { signer, daemon }
    }

    /// Starts a node that runs an instance of the directory under this name.
    pub(super) fn start_directory(&self, node: &str, service: &str) -> FleetNode {
        let (signer, home) = self.directory_home(node, service, "");
        FleetNode { signer, daemon: home.start() }
    }

    /// Like [`Self::start_directory`], with an instance that soon reports silent nodes as missing.
    pub(super) fn start_impatient_directory(&self, node: &str, service: &str) -> FleetNode {
        let more = format!("grace_seconds = {GRACE_SECONDS}\n");
        let (signer, home) = self.directory_home(node, service, &more);
        FleetNode { signer, daemon: home.start() }
    }

    /// The files of a node that runs an instance of the directory; `more` is added to its section.
    pub(super) fn directory_home(
        &self,
        node: &str,
        service: &str,
        more: &str,
    ) -> (Signer, DaemonHome) {
        let signer = self.organisation.node(node);
        let home = self.node_home(&signer, "{}", "");
        let service = self.organisation.service(service);
        let creds = UserCredentials::new(&service.token(), service.key_pair().clone()).unwrap();
        home.write("service.creds", &creds.to_text(), 0o600);
        // Relative to the file in `conf.d`.
        let options = format!(
            "[plugins.directory]\nenabled = true\ncredentials = \"../service.creds\"\n{more}"
        );
        home.write("conf.d/directory.toml", &options, 0o644);
        (signer, home)
    }

    /// A client of the caller in this process.
    pub(super) async fn client(&self) -> Client {
        let bus = connect(&self.server, &self.caller).await;
        let (trust, collective) =
            (self.organisation.trust(), self.organisation.collective().clone());
        Client::new(bus, self.caller.clone(), trust, collective, DiscoveryWindow::default())
    }

    /// Waits until the directory lists these nodes, and no others, as present.
    pub(super) async fn await_present(&self, names: &[&str]) {
        self.await_rows("the nodes are present", names, |state| state == "present").await;
    }

    /// Waits until the directory lists exactly these nodes, each in a state that `accept` accepts.
    pub(super) async fn await_rows(
        &self,
        what: &str,
        names: &[&str],
        accept: impl Fn(&str) -> bool,
    ) {
        poll_until_ok(what, Duration::from_mins(2), async || {
            let output = self.rpc.run(&["nodes", "--stale", "-j"]).await;
            let rows = read_rows(&output.stdout);
            let is_expected = rows.iter().map(|(name, _)| name.as_str()).eq(names.iter().copied())
                && rows.iter().all(|(_, state)| accept(state));
            if is_expected { Ok(()) } else { Err(describe_output(&output)) }
        })
        .await;
    }
}

/// Name and state of each node in the output of `rpc nodes -j`.
pub(super) fn read_rows(output: &[u8]) -> Vec<(String, String)> {
    let document: serde_json::Value = serde_json::from_slice(output).unwrap_or_default();
    let text = |row: &serde_json::Value, name: &str| {
        row.get(name).and_then(|value| value.as_str()).unwrap_or_default().to_owned()
    };
    let rows = document.get("nodes").and_then(|nodes| nodes.as_array()).cloned();
    let rows = rows.unwrap_or_default();
    rows.iter().map(|row| (text(row, "node"), text(row, "state"))).collect()
}

pub(super) fn lines(output: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(output).lines().map(str::to_owned).collect()
}

/// The counters of the instance that answers.
pub(super) async fn read_status(client: &Client) -> DirectoryStatusOutput {
    let none = DirectoryQueryInput::default();
    let deadline = tokio::time::Instant::now() + NETWORK_TIMEOUT;
    loop {
        match client.query_directory("status", &none, ANSWER_TIMEOUT).await {
            Ok(status) => return status,
            Err(error) => assert!(tokio::time::Instant::now() < deadline, "{error}"),
        }
    }
}

impl FleetNode {
    /// Makes the daemon read its files again.
    pub(super) fn reload(&self) {
        kill(Pid::from_raw(self.daemon.pid()), Signal::SIGHUP).unwrap();
    }
}
