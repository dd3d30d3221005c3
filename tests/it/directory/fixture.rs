//! A fleet of real daemons of which some run an instance of the directory, and a caller.

use std::time::Duration;

use muster_bus::{Bus, Bytes};
use muster_calls::{Client, DiscoveryWindow};
use muster_contract::directory::{DirectoryStatus, DirectoryStatusOutput};
use muster_ddl::EmptyInput;
use muster_tests::command::{RpcCommand, describe_output};
use muster_tests::nats_server::{NETWORK_TIMEOUT, NatsServer};
use muster_tests::organisation::{Organisation, connect};
use muster_tests::rpcd::{DaemonHome, Rpcd};
use muster_tests::{now, poll_until_ok};
use muster_wire::sign::{EnvelopeKind, Signer, sign_envelope};
use muster_wire::subject::AnswerAddress;
use muster_wire::token::{ServiceRight, UserCredentials};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

/// Short intervals, so that tests are fast. Interfaces and mounts are left out, because other tests add and remove some.
const REGISTRATION: &str = "[registration]\nheartbeat_seconds = 1\nmin_interval_seconds = 0\nstate_interval_seconds = 0\nexcluded_facts = [\"token\", \"networking.interfaces\", \"mountpoints\"]\n[broker]\nreconnect_spread_seconds = 1\n";

/// How late a heartbeat may be where a test waits for a missing node.
pub(crate) const GRACE_SECONDS: u64 = 8;

/// Time for an answer in tests.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// A broker with stores, a caller, and the daemons that were started.
pub(crate) struct DirectoryFixture {
    pub(crate) organisation: Organisation,
    pub(crate) server: NatsServer,
    pub(crate) rpc: RpcCommand,
    pub(crate) caller: Signer,
}

/// A running node and its credentials.
pub(crate) struct FleetNode {
    pub(crate) signer: Signer,
    pub(crate) daemon: Rpcd,
}

impl DirectoryFixture {
    pub(crate) async fn start() -> Self {
        let organisation = Organisation::new(&["muster"]);
        let server = organisation.start_broker_with_stores().await;
        Self::on_broker(organisation, server)
    }

    pub(crate) fn on_broker(organisation: Organisation, server: NatsServer) -> Self {
        let caller = organisation.caller("rip");
        let rpc = RpcCommand::new(&server, &organisation, &caller, "");
        Self { organisation, server, rpc, caller }
    }

    /// The files of a node that registers itself.
    pub(crate) fn node_home(&self, signer: &Signer, facts: &str, classes: &str) -> DaemonHome {
        let home = DaemonHome::new(&self.organisation, signer, &self.server.url(), REGISTRATION);
        home.write("facts.d/site.json", facts, 0o644);
        home.write("classes.txt", classes, 0o644);
        home
    }

    pub(crate) fn start_node(&self, name: &str, facts: &str, classes: &str) -> FleetNode {
        let signer = self.organisation.node(name);
        let daemon = self.node_home(&signer, facts, classes).start();
        FleetNode { signer, daemon }
    }

    /// Starts a node that runs an instance of the directory under this name.
    pub(crate) fn start_directory(&self, node: &str, service: &str) -> FleetNode {
        let (signer, home) = self.directory_home(node, service, "");
        FleetNode { signer, daemon: home.start() }
    }

    /// Like [`Self::start_directory`], with an instance that soon reports silent nodes as missing.
    pub(crate) fn start_impatient_directory(&self, node: &str, service: &str) -> FleetNode {
        let more = format!("grace_seconds = {GRACE_SECONDS}\n");
        let (signer, home) = self.directory_home(node, service, &more);
        FleetNode { signer, daemon: home.start() }
    }

    /// The files of a node that runs an instance of the directory; `more` is added to its section.
    pub(crate) fn directory_home(
        &self,
        node: &str,
        service: &str,
        more: &str,
    ) -> (Signer, DaemonHome) {
        let signer = self.organisation.node(node);
        let home = self.node_home(&signer, "{}", "");
        enable_directory(&home, &self.organisation.service(ServiceRight::Directory, service), more);
        (signer, home)
    }

    /// Waits until these nodes, and no others, answer a broadcast.
    pub(crate) async fn await_found(&self, names: &[&str]) {
        poll_until_ok("all nodes reply", Duration::from_mins(1), async || {
            let output = self.rpc.run(&["find", "--dm", "mc"]).await;
            if lines(&output.stdout) == names { Ok(()) } else { Err(describe_output(&output)) }
        })
        .await;
    }

    /// A client of the caller in this process.
    pub(crate) async fn client(&self) -> Client {
        let bus = connect(&self.server, &self.caller).await;
        let (trust, collective) =
            (self.organisation.trust(), self.organisation.collective().clone());
        Client::new(bus, self.caller.clone(), trust, collective, DiscoveryWindow::default())
    }

    /// Waits until the directory lists these nodes, and no others, as present.
    pub(crate) async fn await_present(&self, names: &[&str]) {
        self.await_rows("the nodes are present", names, |state| state == "present").await;
    }

    /// Waits until the directory lists exactly these nodes, each in a state that `accept` accepts.
    pub(crate) async fn await_rows(
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

/// Makes a node run an instance of the directory with these credentials; `more` is added to its section.
pub(crate) fn enable_directory(home: &DaemonHome, service: &Signer, more: &str) {
    let creds = UserCredentials::new(&service.token(), service.key_pair().clone()).unwrap();
    home.write("service.creds", &creds.to_text(), 0o600);
    // Relative to the file in `conf.d`.
    let options =
        format!("[plugins.directory]\nenabled = true\ncredentials = \"../service.creds\"\n{more}");
    home.write("conf.d/directory.toml", &options, 0o644);
}

/// Name and state of each node in the output of `rpc nodes -j`.
pub(crate) fn read_rows(output: &[u8]) -> Vec<(String, String)> {
    let document: Value = serde_json::from_slice(output).unwrap_or_default();
    let text = |row: &Value, name: &str| {
        row.get(name).and_then(|value| value.as_str()).unwrap_or_default().to_owned()
    };
    let rows = document.get("nodes").and_then(|nodes| nodes.as_array()).cloned();
    let rows = rows.unwrap_or_default();
    rows.iter().map(|row| (text(row, "node"), text(row, "state"))).collect()
}

pub(crate) fn lines(output: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(output).lines().map(str::to_owned).collect()
}

/// The counters of the instance that answers.
pub(crate) async fn read_status(client: &Client) -> DirectoryStatusOutput {
    let deadline = tokio::time::Instant::now() + NETWORK_TIMEOUT;
    loop {
        match client.query_directory::<DirectoryStatus>(&EmptyInput {}, ANSWER_TIMEOUT).await {
            Ok(status) => return status,
            Err(error) => assert!(tokio::time::Instant::now() < deadline, "{error}"),
        }
    }
}

impl FleetNode {
    /// Makes the daemon read its files again.
    pub(crate) fn reload(&self) {
        kill(Pid::from_raw(self.daemon.pid()), Signal::SIGHUP).unwrap();
    }
}

/// Answers every request for the directory with the outputs for its action and inputs, signed by this user, until the task is aborted.
pub(crate) async fn answer_for_directory(
    bus: Bus,
    user: Signer,
    outputs: impl Fn(&str, &Value) -> Value + Send + 'static,
) -> JoinHandle<()> {
    let mut requests = bus.subscribe("muster.directory.*.any").await.unwrap();
    let own = format!("muster.directory.*.node.{}", user.identity());
    let mut next_pages = bus.subscribe(&own).await.unwrap();
    // Requests come over other connections, so the broker must know the subscription first.
    bus.flush().await.unwrap();
    tokio::spawn(async move {
        while let Some(request) = tokio::select! {
            request = requests.next() => request,
            request = next_pages.next() => request,
        } {
            let body: Value = serde_json::from_slice(request.payload()).unwrap();
            let action = body.pointer("/body/action").and_then(Value::as_str).unwrap();
            let inputs = body.pointer("/body/data").cloned().unwrap_or_default();
            let reply = json!({
                "request": body.pointer("/body/id"), "sender": user.identity(), "agent": "directory", "action": action,
                "statuscode": 0, "statusmsg": "OK", "data": outputs(action, &inputs), "time": now(), "took": 0,
            });
            let sealed = sign_envelope(EnvelopeKind::Reply, &reply, &user).unwrap();
            let reply_to = request.reply_to().unwrap();
            let key = reply_to.split('.').nth(1).unwrap();
            let address = AnswerAddress::from_reply_subject(reply_to, key).unwrap();
            bus.publish(&address.of_node(user.identity()), Bytes::from(sealed)).await.unwrap();
        }
    })
}
