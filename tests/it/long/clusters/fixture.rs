//! An organisation whose servers run with generated bundles. Servers have addresses of their own on the loopback interface, and the same ports.

#![expect(clippy::disallowed_types, reason = "runs the real programs")]

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use muster_bus::{BrokerAddress, BrokerCredentials, Bus, BusOptions};
use muster_tests::command::find_program;
use muster_tests::small_disk::SmallDisk;
use muster_tests::{await_state, nats_server, poll_until_ok};
use muster_wire::sign::Signer;
use muster_wire::subject;
use muster_wire::token::UserCredentials;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

use crate::demo::describe_output;

/// How long a cluster may take to elect a leader, or a node to connect again.
pub(super) const CLUSTER_TIMEOUT: Duration = Duration::from_mins(1);
/// The address of the leaf node.
pub(super) const LEAF_ADDRESS: &str = "127.0.0.4";
/// Number of addresses on which ports must be free.
const ADDRESSES: u8 = 4;

/// Ports that all servers use on their own addresses.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClusterPorts {
    pub(super) client: u16,
    pub(super) route: u16,
    pub(super) leaf: u16,
}

/// A process that ends when it is dropped.
#[derive(Debug)]
pub(super) struct RunningProcess(Child);

impl Drop for RunningProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An organisation and its running servers and nodes.
#[derive(Debug)]
pub(super) struct GeneratedBroker {
    pub(super) scratch: TempDir,
    pub(super) ports: ClusterPorts,
    /// Whether nodes and users follow the addresses in the account token. If not, each uses one server.
    pub(super) follows: bool,
    servers: BTreeMap<String, RunningProcess>,
    nodes: Vec<RunningProcess>,
}

impl GeneratedBroker {
    /// Creates an organisation with three broker addresses. No server runs yet.
    pub(super) fn new() -> Self {
        let [client, route, leaf] = free_ports();
        let broker = Self {
            scratch: TempDir::new().unwrap(),
            ports: ClusterPorts { client, route, leaf },
            follows: false,
            servers: BTreeMap::new(),
            nodes: Vec::new(),
        };
        let (org, port) = (broker.path("acme"), client.to_string());
        broker.run(&[
            "org",
            "init",
            org.to_str().unwrap(),
            "--name",
            "acme",
            "--port",
            &port,
            "--host",
            "127.0.0.1",
            "--host",
            "127.0.0.2",
            "--host",
            "127.0.0.3",
        ]);
        broker
    }

    /// Three servers, and the stores that `rpc org push` creates by default.
    pub(super) async fn cluster_of_three() -> Self {
        let mut broker = Self::new();
        for number in 1..=3 {
            broker.write_cluster_member(number, 3);
            broker.start_server(number);
        }
        broker.push().await;
        // Before all servers know each other, a push makes fewer replicas. The next one adds them.
        poll_until_ok("the stores have three replicas", CLUSTER_TIMEOUT, async || {
            let status = describe_output(&broker.rpc(&["broker", "status"]));
            if !status.contains("of 3 replicas; `rpc org push`") {
                return Ok(());
            }
            broker.push().await;
            Err(status)
        })
        .await;
        broker
    }

    /// The path of a file or directory of the test.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// Runs `rpc` as the administrator.
    pub(super) fn rpc(&self, arguments: &[&str]) -> Output {
        self.rpc_as(None, arguments)
    }

    /// Runs `rpc` with the configuration of a user.
    pub(super) fn rpc_as(&self, user: Option<&str>, arguments: &[&str]) -> Output {
        let mut command = Command::new(find_program("rpc"));
        command
            .args(arguments)
            .env("HOME", self.scratch.path())
            .env("MUSTER_ORG", self.path("acme"))
            .env_remove("RPC_CONFIG")
            .current_dir(self.scratch.path());
        if let Some(user) = user {
            command.env("RPC_CONFIG", self.path(user).join("rpc.toml"));
        }
        command.output().unwrap()
    }

    /// Runs `rpc`, which must succeed. Returns everything that it printed.
    pub(super) fn run(&self, arguments: &[&str]) -> String {
        let output = self.rpc(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", describe_output(&output));
        describe_output(&output)
    }

    /// Pushes until the cluster has a leader. Returns what the commands printed.
    pub(super) async fn push(&self) -> String {
        self.push_with(&[]).await
    }

    /// The same with more arguments.
    pub(super) async fn push_with(&self, arguments: &[&str]) -> String {
        let mut printed = String::new();
        poll_until_ok("rpc org push succeeds", CLUSTER_TIMEOUT, async || {
            let output = self.rpc(&[&["org", "push"], arguments].concat());
            printed.push_str(&describe_output(&output));
            if output.status.success() { Ok(()) } else { Err(printed.clone()) }
        })
        .await;
        printed
    }

    /// Writes the bundle of a member of a cluster of this size.
    pub(super) fn write_cluster_member(&self, number: u8, size: u8) {
        let routes: Vec<String> =
            (1..=size).map(|n| format!("127.0.0.{n}:{}", self.ports.route)).collect();
        let leaf_listen = format!("127.0.0.{number}:{}", self.ports.leaf);
        let mut arguments = vec!["--cluster", "acme", "--leaf-listen", &leaf_listen];
        for route in &routes {
            arguments.extend(["--route", route]);
        }
        let name = format!("broker{number}");
        self.write_bundle(&name, &format!("127.0.0.{number}"), &arguments);
    }

    /// Writes the bundle of a server.
    pub(super) fn write_bundle(&self, name: &str, address: &str, more: &[&str]) {
        let directory = self.path(name);
        let fixed = [
            "broker",
            "config",
            "--name",
            name,
            "--listen",
            address,
            "--state-dir",
            ".",
            "--monitoring-port",
            "0",
            "--bundle",
            directory.to_str().unwrap(),
        ];
        self.run(&[&fixed, more].concat());
    }

    /// Starts a member of the cluster.
    pub(super) fn start_server(&mut self, number: u8) {
        self.start_named(&format!("broker{number}"));
    }

    /// Starts the server with the bundle of this name.
    pub(super) fn start_named(&mut self, name: &str) {
        let process = self.spawn_server(name);
        self.servers.insert(name.to_owned(), process);
    }

    /// Starts the server with the bundle of this name, which sees the files of this disk.
    pub(super) fn start_on_disk(&mut self, name: &str, disk: &SmallDisk) {
        let inside = disk.command_inside("sh".into());
        let [program, arguments @ ..] = inside.as_slice() else { panic!("no command") };
        let mut command = Command::new(program);
        command.args(arguments).args(["-c", r#"cd "$1" && exec "$2" -c nats.conf -l log"#, "sh"]);
        command.arg(self.path(name)).arg(nats_server::find_binary());
        self.servers.insert(name.to_owned(), spawn(command, None));
    }

    /// Starts a server that the fixture does not keep.
    pub(super) fn spawn_server(&self, directory: &str) -> RunningProcess {
        let directory = self.path(directory);
        let mut command = Command::new(nats_server::find_binary());
        command.args(["-c", "nats.conf", "-l", "log"]).current_dir(directory);
        spawn(command, None)
    }

    /// Kills a member of the cluster.
    pub(super) fn kill_server(&mut self, number: u8) {
        assert!(self.servers.remove(&format!("broker{number}")).is_some());
    }

    /// Stops a member of the cluster, and waits until it has ended.
    pub(super) async fn stop_server(&mut self, number: u8) {
        self.stop_named(&format!("broker{number}")).await;
    }

    /// Stops the server with the bundle of this name, and waits until it has ended.
    pub(super) async fn stop_named(&mut self, name: &str) {
        let RunningProcess(child) = self.servers.get_mut(name).unwrap();
        kill(Pid::from_raw(child.id().try_into().unwrap()), Signal::SIGTERM).unwrap();
        await_state("the server ends", || child.try_wait().unwrap().is_some()).await;
        self.servers.remove(name);
    }

    /// The log of a server.
    pub(super) fn log(&self, directory: &str) -> String {
        std::fs::read_to_string(self.path(directory).join("log")).unwrap_or_default()
    }

    /// Adds a leaf node that connects to all servers, and starts it.
    pub(super) async fn start_leaf(&mut self) {
        self.start_leaf_with(&[]).await;
    }

    /// The same with more arguments of `rpc org add leaf`.
    pub(super) async fn start_leaf_with(&mut self, more: &[&str]) {
        self.run(&[&["org", "add", "leaf", "berlin", "--host", LEAF_ADDRESS], more].concat());
        self.restart_leaf().await;
    }

    /// Starts the leaf node with a new bundle.
    pub(super) async fn restart_leaf(&mut self) {
        let remotes: Vec<String> =
            (1..=3).map(|n| format!("127.0.0.{n}:{}", self.ports.leaf)).collect();
        let arguments: Vec<&str> = remotes.iter().flat_map(|remote| ["--leaf", remote]).collect();
        self.write_bundle("berlin", LEAF_ADDRESS, &arguments);
        self.servers.remove("berlin");
        let _ = std::fs::remove_file(self.path("berlin/log"));
        self.start_named("berlin");
        await_state("the leaf node connects", || {
            self.log("berlin").contains("Leafnode connection created")
        })
        .await;
    }

    /// Creates a user whose client connects to this address only.
    pub(super) fn add_user(&self, name: &str, address: &str) {
        self.run(&["org", "add", "user", name, "--bundle", self.path(name).to_str().unwrap()]);
        self.set_url(&self.path(name).join("rpc.toml"), address);
    }

    /// Starts a node that connects to this address only.
    pub(super) async fn start_node(&mut self, name: &str, address: &str) {
        let directory = self.path(name);
        self.run(&["org", "add", "node", name, "--bundle", directory.to_str().unwrap()]);
        self.set_url(&directory.join("rpcd.toml"), address);
        std::fs::create_dir_all(directory.join("conf.d")).unwrap();
        let paths = "[paths]\nstate = \"../state\"\naudit = \"../audit.log\"\nroot = \"../root\"\n";
        std::fs::write(directory.join("conf.d/test.toml"), paths).unwrap();
        std::fs::create_dir_all(directory.join("policies")).unwrap();
        std::fs::write(directory.join("policies/default.policy"), "policy default allow\n")
            .unwrap();
        self.start_daemon(name).await;
    }

    /// Kills all nodes.
    pub(super) fn kill_nodes(&mut self) {
        self.nodes.clear();
    }

    /// Starts the daemon of a node that has its files.
    pub(super) async fn start_daemon(&mut self, name: &str) {
        let directory = self.path(name);
        let mut command = Command::new(find_program("rpcd"));
        command.arg("--config").arg(directory.join("rpcd.toml"));
        let log = directory.join("log");
        self.nodes.push(spawn(command, Some(&log)));
        await_state("the node is ready", || {
            std::fs::read_to_string(&log).is_ok_and(|text| text.contains(": ready"))
        })
        .await;
    }

    /// Opens a second connection with the credentials of a node, at this address.
    pub(super) async fn connect_node(&self, node: (&str, &str)) -> Bus {
        self.node_options(node, |name, servers| BusOptions::for_command(name, servers))
            .connect()
            .await
            .unwrap()
    }

    /// The options of such a connection.
    pub(super) fn node_options(
        &self,
        (name, address): (&str, &str),
        create: impl Fn(&str, Vec<BrokerAddress>) -> BusOptions,
    ) -> BusOptions {
        let text = std::fs::read_to_string(self.path(name).join("node.creds")).unwrap();
        let signer = Signer::new(UserCredentials::parse(&text).unwrap()).unwrap();
        let url = format!("tls://{address}:{}", self.ports.client);
        let servers = vec![BrokerAddress::parse(&url, false).unwrap()];
        let mut options = create(name, servers);
        options.credentials = Some(BrokerCredentials::from_signer(&signer));
        options.inbox_prefix = Some(subject::inbox_prefix(&signer.public_key().to_string()));
        options.authority = Some(self.path("acme/ca.pem"));
        options
    }

    fn set_url(&self, config: &Path, address: &str) {
        let text = std::fs::read_to_string(config).unwrap();
        let port = self.ports.client;
        let url = format!("urls = [\"tls://{address}:{port}\"]\nfollow = {}", self.follows);
        let line = |line| if str::starts_with(line, "urls = ") { url.as_str() } else { line };
        let lines: Vec<&str> = text.lines().map(line).collect();
        assert!(lines.contains(&url.as_str()));
        std::fs::write(config, lines.join("\n") + "\n").unwrap();
    }

    /// Names of the nodes that answer one ping of this user.
    pub(super) fn ping(&self, user: &str) -> Vec<String> {
        let output = self.rpc_as(Some(user), &["ping", "-j"]);
        let document: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", describe_output(&output)));
        let nodes = document.get("replies").and_then(Value::as_array).unwrap();
        let name = |node: &Value| node.get("sender").unwrap().as_str().unwrap().to_owned();
        nodes.iter().map(name).collect()
    }

    /// Waits until exactly these nodes answer one ping.
    pub(super) async fn await_answers(&self, user: &str, nodes: &[&str]) {
        poll_until_ok("the nodes answer", CLUSTER_TIMEOUT, async || {
            let mut found = self.ping(user);
            found.sort();
            if found == nodes { Ok(()) } else { Err(found) }
        })
        .await;
    }

    /// The document and the exit code of `rpc broker status -j`.
    pub(super) fn status(&self) -> (Value, Option<i32>) {
        self.try_status().unwrap_or_else(|problem| panic!("{problem}"))
    }

    /// The same; what the command printed if no server accepts a connection yet.
    fn try_status(&self) -> Result<(Value, Option<i32>), String> {
        let output = self.rpc(&["broker", "status", "-j"]);
        let document = serde_json::from_slice(&output.stdout);
        Ok((document.map_err(|_| describe_output(&output))?, output.status.code()))
    }

    /// Waits until `rpc broker status` reports no problem.
    pub(super) async fn await_no_problem(&self) -> Value {
        poll_until_ok("the broker has no problem", CLUSTER_TIMEOUT, async || {
            match self.try_status()? {
                (document, Some(0)) => Ok(document),
                (document, _) => Err(document.to_string()),
            }
        })
        .await
    }
}

/// What `rpcd --check` prints about this configuration.
pub(super) fn check_daemon(config: &Path) -> String {
    let mut command = Command::new(find_program("rpcd"));
    describe_output(&command.arg("--check").arg("--config").arg(config).output().unwrap())
}

/// Replicas of each stream, by name.
pub(super) fn stream_replicas(status: &Value) -> BTreeMap<String, u64> {
    let streams = status.get("streams").and_then(Value::as_array).unwrap();
    let entry = |stream: &Value| {
        let name = stream.get("name").unwrap().as_str().unwrap().to_owned();
        (name, stream.get("replicas").unwrap().as_u64().unwrap())
    };
    streams.iter().map(entry).collect()
}

fn spawn(mut command: Command, log: Option<&Path>) -> RunningProcess {
    let stderr = log.map_or_else(Stdio::null, |log| std::fs::File::create(log).unwrap().into());
    let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
    RunningProcess(command.spawn().unwrap())
}

/// Ports that are free on the addresses of all servers.
fn free_ports<const N: usize>() -> [u16; N] {
    let mut held = Vec::new();
    while held.len() < N {
        let first = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = first.local_addr().unwrap().port();
        let others: Result<Vec<_>, _> =
            (2..=ADDRESSES).map(|n| TcpListener::bind(format!("127.0.0.{n}:{port}"))).collect();
        if let Ok(others) = others {
            held.push((port, first, others));
        }
    }
    let mut ports = held.iter().map(|(port, ..)| *port);
    [(); N].map(|()| ports.next().unwrap())
}
