//! A broker, a node with the agent `tunnel`, and `rpc tunnel` as a process.

use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use muster_tests::cluster::{free_ports, get_monitoring};
use muster_tests::command::RpcCommand;
use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::Organisation;
use muster_tests::rpcd::{DaemonHome, Rpcd};
use muster_tests::{await_state, poll_until_ok};
use muster_wire::sign::Signer;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::{Child, ChildStderr};

/// How long a test waits for something that takes a moment.
pub(super) const PATIENCE: Duration = Duration::from_mins(2);

/// A broker, a node and a caller.
pub(super) struct TunnelFleet {
    pub(super) organisation: Organisation,
    pub(super) server: NatsServer,
    /// The port of the broker's HTTP monitoring endpoint.
    monitoring: u16,
    pub(super) daemon: Rpcd,
    pub(super) caller: Signer,
    pub(super) rpc: RpcCommand,
}

/// A running `rpc tunnel`.
pub(super) struct TunnelCommand {
    child: Child,
    pub(super) address: SocketAddr,
    errors: ChildStderr,
}

impl TunnelFleet {
    /// A node `n1` that permits these ports; `options` are added to the section of the agent.
    pub(super) async fn start(ports: &[u16], options: &str) -> Self {
        Self::start_with_policy(ports, options, None).await
    }

    pub(super) async fn start_with_policy(
        ports: &[u16],
        options: &str,
        policy: Option<&str>,
    ) -> Self {
        let organisation = Organisation::new(&["muster"]);
        let [monitoring] = free_ports();
        let configuration = organisation.broker_configuration();
        let configuration = format!("{configuration}http: \"127.0.0.1:{monitoring}\"\n");
        let server = NatsServer::start(&configuration).await;
        let home = prepare_node(&organisation, &server, ports, options);
        if let Some(policy) = policy {
            home.write("policies/tunnel.policy", policy, 0o644);
        }
        let daemon = home.start();
        let caller = organisation.caller("rip");
        let rpc = RpcCommand::new(&server, &organisation, &caller, "");
        let fleet = Self { organisation, server, monitoring, daemon, caller, rpc };
        fleet.await_node().await;
        fleet
    }

    pub(super) async fn await_node(&self) {
        poll_until_ok("the node is ready", PATIENCE, async || {
            let found = self.rpc.run(&["find", "-A", "tunnel"]).await;
            let names = String::from_utf8_lossy(&found.stdout).into_owned();
            if names.trim() == "n1" { Ok(()) } else { Err(names + &self.daemon.log()) }
        })
        .await;
    }

    pub(super) async fn open(&self, port: u16) -> TunnelCommand {
        TunnelCommand::start(&self.rpc, &["tunnel", "n1", &port.to_string()]).await
    }

    /// The audit records with this verdict.
    pub(super) fn audit_records(&self, verdict: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.daemon.home().path("audit.log")).unwrap();
        let records = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        records.filter(|record| record["verdict"] == verdict).collect()
    }

    /// Waits until the audit log has this number of closed tunnels, and returns their records.
    pub(super) async fn closed_tunnels(&self, count: usize) -> Vec<Value> {
        poll_until_ok("tunnels are closed", PATIENCE, async || {
            let records = self.audit_records("ended");
            if records.len() == count { Ok(records) } else { Err(records) }
        })
        .await
    }

    /// Waits until the daemon has no connection to this port, and its broker connection has no subscription of a tunnel.
    pub(super) async fn await_nothing_left(&self, port: u16) {
        await_state("the daemon has no connection left", || {
            connections_of(self.daemon.pid(), port) == 0
        })
        .await;
        poll_until_ok("the broker has no subscription of a tunnel", PATIENCE, async || {
            let answer = get_monitoring(self.monitoring, "/connz?subs=1").await.unwrap();
            // The subscriptions of the node are in it, so a list that is missing is not taken for an empty one.
            let is_list = answer.contains("subscriptions_list") && answer.contains("muster.");
            if is_list && !answer.contains("_T.") { Ok(()) } else { Err(answer) }
        })
        .await;
    }
}

/// Files of a node with the agent.
pub(super) fn prepare_node(
    organisation: &Organisation,
    server: &NatsServer,
    ports: &[u16],
    options: &str,
) -> DaemonHome {
    let signer = organisation.node("n1");
    let section = format!("[plugins.tunnel]\nenabled = true\nports = {ports:?}\n{options}\n");
    DaemonHome::new(organisation, &signer, &server.url(), &section)
}

impl TunnelCommand {
    pub(super) async fn start(rpc: &RpcCommand, arguments: &[&str]) -> Self {
        let mut command = rpc.prepare_command(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut line).await.unwrap();
        let mut errors = child.stderr.take().unwrap();
        let Ok(address) = line.trim().parse() else {
            let mut text = String::new();
            errors.read_to_string(&mut text).await.unwrap();
            panic!("no address: {line:?}\n{text}");
        };
        Self { child, address, errors }
    }

    pub(super) fn pid(&self) -> i32 {
        i32::try_from(self.child.id().unwrap()).unwrap()
    }

    /// Interrupts the command as Ctrl-C does; returns its exit code and messages.
    pub(super) async fn interrupt(mut self) -> (i32, String) {
        kill(Pid::from_raw(self.pid()), Signal::SIGINT).unwrap();
        let mut text = String::new();
        self.errors.read_to_string(&mut text).await.unwrap();
        (self.child.wait().await.unwrap().code().unwrap(), text)
    }

    /// Kills the command without any chance to say so.
    pub(super) async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }
}

/// Established TCP connections of this process to this port, as the kernel lists them.
pub(super) fn connections_of(pid: i32, port: u16) -> usize {
    let table = std::fs::read_to_string(format!("/proc/{pid}/net/tcp")).unwrap();
    let sockets = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let own: Vec<String> = sockets
        .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .filter_map(|link| {
            let inode = link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned();
            Some(inode)
        })
        .collect();
    let remote = format!(":{port:04X}");
    let is_own = |line: &&str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let inode = words.get(9).copied().unwrap_or_default();
        words.get(2).is_some_and(|address| address.ends_with(&remote))
            && own.iter().any(|own| own == inode)
    };
    table.lines().skip(1).filter(is_own).count()
}
