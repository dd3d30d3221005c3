//! The operator's side of a fleet of machines: an organisation made by `rpc org init`, its broker with TLS on the address of this
//! host in the machines' network, and the user `rip`, who may do everything.

#![expect(clippy::disallowed_types, reason = "runs rpc and nats-server")]

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};

use muster_tests::await_state;
use muster_tests::command::{describe_output, prepare_rpc};
use muster_tests::nats_server::find_binary;
use serde_json::Value;
use tempfile::TempDir;

/// The port of the broker; each fleet has a network of its own.
const PORT: u16 = 4222;

/// A running broker and the files of its organisation. Dropping it kills the broker.
#[derive(Debug)]
pub(crate) struct OperatorHost {
    directory: TempDir,
    host: String,
    broker: Option<Child>,
}

impl OperatorHost {
    /// Creates the organisation and starts its broker on this address.
    pub(crate) async fn start(host: &str) -> Self {
        let directory = TempDir::new().unwrap();
        let mut operator = Self { directory, host: host.to_owned(), broker: None };
        let port = PORT.to_string();
        let init = ["org", "init", "acme", "--name", "acme", "--host", host, "--port", &port];
        operator.run_successfully(&init).await;
        operator.run_successfully(&["org", "add", "user", "rip", "--bundle", "rip"]).await;
        operator.start_broker().await;
        // Creates the stores for presence, permits and provisioning.
        operator.run_successfully(&["org", "push"]).await;
        operator
    }

    /// Starts the broker, and waits until it accepts connections.
    pub(crate) async fn start_broker(&mut self) {
        let log = std::fs::File::create(self.path("broker.log")).unwrap();
        let broker = std::process::Command::new(find_binary())
            .args(["--config", "acme/broker/nats.conf", "--addr", &self.host])
            .current_dir(self.directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap_or_else(|error| {
                panic!("nats-server (run `make tools`, or set NATS_SERVER): {error}")
            });
        self.broker = Some(broker);
        await_state("the broker accepts connections", || {
            TcpStream::connect((self.host.as_str(), PORT)).is_ok()
        })
        .await;
    }

    /// Kills the broker.
    pub(crate) fn kill_broker(&mut self) {
        if let Some(mut broker) = self.broker.take() {
            broker.kill().unwrap();
            broker.wait().unwrap();
        }
    }

    /// The path of a file in the operator's home directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A command line of `rpc` for `rip`, in the operator's home directory.
    pub(crate) fn prepare_command(&self, arguments: &[&str]) -> tokio::process::Command {
        self.prepare_command_of("rip", arguments)
    }

    /// A command line of `rpc` for a user with a bundle of this name.
    fn prepare_command_of(&self, user: &str, arguments: &[&str]) -> tokio::process::Command {
        let home = self.directory.path();
        let configuration = self.path(user).join("rpc.toml");
        let mut command = prepare_rpc(home, &configuration, arguments);
        command.current_dir(home).env("MUSTER_ORG", self.path("acme"));
        command
    }

    /// Runs `rpc` for a user with a bundle of this name.
    pub(crate) async fn run_as(&self, user: &str, arguments: &[&str]) -> Output {
        self.prepare_command_of(user, arguments).output().await.unwrap()
    }

    /// Runs `rpc` until it exits.
    pub(crate) async fn run(&self, arguments: &[&str]) -> Output {
        self.prepare_command(arguments).output().await.unwrap()
    }

    /// Runs `rpc`, which must exit with 0; returns its standard output.
    pub(crate) async fn run_successfully(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments).await;
        assert!(output.status.success(), "rpc {arguments:?}: {}", describe_output(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Runs `rpc` with `-j`; returns its JSON document and exit code.
    pub(crate) async fn run_json(&self, arguments: &[&str]) -> (Value, i32) {
        let output = self.run(&[arguments, &["-j"]].concat()).await;
        let document = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{}", describe_output(&output)));
        (document, output.status.code().unwrap_or(-1))
    }

    /// Creates the bundle of a node that allows everything to everyone; returns its directory, which is to be copied to
    /// `/etc/muster`. `more` is added to its configuration.
    pub(crate) async fn add_node(&self, name: &str, more: &str) -> PathBuf {
        self.run_successfully(&["org", "add", "node", name, "--bundle", name]).await;
        let bundle = self.path(name);
        allow_everything(&bundle);
        std::fs::create_dir_all(bundle.join("conf.d")).unwrap();
        std::fs::write(bundle.join("conf.d/test.toml"), more).unwrap();
        bundle
    }
}

/// Writes a policy that allows everything.
pub(crate) fn allow_everything(configuration: &Path) {
    std::fs::create_dir_all(configuration.join("policies")).unwrap();
    let policy = configuration.join("policies/default.policy");
    std::fs::write(policy, "policy default allow\n").unwrap();
}

impl Drop for OperatorHost {
    fn drop(&mut self) {
        self.kill_broker();
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.path("broker.log")).unwrap_or_default();
            print_log(&log);
        }
    }
}

#[expect(clippy::print_stderr, reason = "shown by the test runner beside the failure")]
fn print_log(log: &str) {
    let tail: Vec<&str> = log.lines().rev().take(40).collect();
    eprintln!("---- broker ----");
    for line in tail.iter().rev() {
        eprintln!("{line}");
    }
}
