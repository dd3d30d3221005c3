//! An organisation in files, its broker and its nodes. Each command and each daemon is of the version that the test names.

#![expect(clippy::disallowed_types, reason = "runs the real programs")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use muster_tests::cluster::free_ports;
use muster_tests::command::{describe_output, prepare_rpc_of};
use muster_tests::nats_server::{NETWORK_TIMEOUT, find_binary};
use muster_tests::poll_until_ok;
use muster_tests::program_version::ProgramVersion;
use muster_tests::rpcd::{DaemonHome, Rpcd};
use serde_json::Value;
use tempfile::TempDir;

/// Short intervals, a scratch root, and resources of all types. The keys are those of both versions.
const NODE_SETTINGS: &str = "\
[paths]
state = \"../state\"
audit = \"../audit.log\"
classes = \"../classes.txt\"
root = \"../root\"
[registration]
heartbeat_seconds = 1
min_interval_seconds = 0
state_interval_seconds = 0
excluded_facts = [\"networking.interfaces\", \"mountpoints\"]
[broker]
reconnect_spread_seconds = 1
[plugins.puppetral]
deny_types = []
";
/// One action is denied, and the rest of its agent is allowed.
const FILEMGR_POLICY: &str = "policy default allow\ndeny\t*\tremove\t*\t*\n";
/// The rule of that denial.
pub(super) const DENYING_RULE: &str = "filemgr.policy:2";
/// The services of the tests: what each serves, and its name.
pub(super) const CENTRAL_SERVICES: [(&str, &str); 2] =
    [("directory", "directory1"), ("schedule", "scheduler1")];
/// How long the directory may take to learn of a node.
const REGISTRATION_TIMEOUT: Duration = Duration::from_mins(1);

/// An organisation and its running broker. The user `rip` may do everything.
pub(super) struct SkewFleet {
    directory: TempDir,
    broker: Child,
}

impl SkewFleet {
    /// Creates the organisation with the commands of this version, starts the broker, and pushes the account.
    pub(super) async fn create(version: ProgramVersion) -> Self {
        let directory = TempDir::new().unwrap();
        let [port] = free_ports();
        let text = port.to_string();
        let init = ["org", "init", "acme", "--name", "acme", "--host", "127.0.0.1"];
        run_in(directory.path(), version, &[&init[..], &["--port", &text]].concat()).await;
        run_in(directory.path(), version, &["org", "add", "user", "rip", "--bundle", "rip"]).await;
        let config = ["broker", "config", "--name", "broker1", "--bundle", "broker1"];
        let config = [&config[..], &["--state-dir", ".", "--monitoring-port", "0"]].concat();
        run_in(directory.path(), version, &config).await;
        let broker = Command::new(find_binary())
            .args(["-c", "nats.conf", "-l", "log"])
            .current_dir(directory.path().join("broker1"))
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let fleet = Self { directory, broker };
        poll_until_ok("the broker listens", NETWORK_TIMEOUT, async || {
            tokio::net::TcpStream::connect(("127.0.0.1", port)).await.map(drop)
        })
        .await;
        fleet.run(version, &["org", "push"]).await;
        fleet
    }

    /// The path of a file of the organisation or of the user.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Runs `rpc` of this version, as the administrator and as `rip`.
    pub(super) async fn output(&self, version: ProgramVersion, arguments: &[&str]) -> Output {
        output_in(self.directory.path(), version, arguments).await
    }

    /// The same for a command that must succeed. Returns all that it prints.
    pub(super) async fn run(&self, version: ProgramVersion, arguments: &[&str]) -> String {
        run_in(self.directory.path(), version, arguments).await
    }

    /// Runs `rpc` with `-j`; returns its document and exit code.
    pub(super) async fn run_json(
        &self,
        version: ProgramVersion,
        arguments: &[&str],
    ) -> (Value, i32) {
        let output = self.output(version, &[arguments, &["-j"]].concat()).await;
        let document = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{version:?} {arguments:?}: {}", describe_output(&output)));
        (document, output.status.code().unwrap())
    }

    /// The lines that `rpc` prints to its standard output.
    pub(super) async fn lines(&self, version: ProgramVersion, arguments: &[&str]) -> Vec<String> {
        let output = self.output(version, arguments).await;
        assert!(output.status.success(), "{version:?} {arguments:?}: {}", describe_output(&output));
        String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
    }

    /// Creates a node with `rpc` of this version. Its fact `site` is the first part of its name.
    pub(super) async fn add_node(&self, version: ProgramVersion, name: &str) -> DaemonHome {
        let home = DaemonHome::empty();
        let bundle = home.path("").display().to_string();
        self.run(version, &["org", "add", "node", name, "--bundle", &bundle]).await;
        let site = name.split('.').next().unwrap();
        for (file, text) in [
            ("conf.d/test.toml", NODE_SETTINGS),
            ("policies/default.policy", "policy default allow\n"),
            ("policies/filemgr.policy", FILEMGR_POLICY),
            ("facts.d/site.json", &format!("{{\"site\": \"{site}\"}}")),
            ("classes.txt", "common\n"),
            ("root/etc/passwd", "root:x:0:0:root:/root:/bin/sh\n"),
            ("root/tmp/removable", ""),
        ] {
            home.write(file, text, 0o644);
        }
        home
    }

    /// Lets a node run the services whose credentials exist.
    pub(super) fn enable_services(&self, home: &DaemonHome) {
        for (plugin, service) in CENTRAL_SERVICES {
            let creds = self.path(&format!("acme/creds/services/{service}.creds"));
            let creds = std::fs::read_to_string(creds).unwrap();
            home.write(&format!("{plugin}.creds"), &creds, 0o600);
            let options = format!(
                "[plugins.{plugin}]\nenabled = true\ncredentials = \"../{plugin}.creds\"\n"
            );
            home.write(&format!("conf.d/{plugin}.toml"), &options, 0o644);
        }
    }

    /// Waits until the directory finds these nodes, and no others.
    pub(super) async fn await_registered(&self, version: ProgramVersion, nodes: &[&str]) {
        poll_until_ok("the directory has all nodes", REGISTRATION_TIMEOUT, async || {
            let output = self.output(version, &["find", "--dm", "directory"]).await;
            let found = String::from_utf8_lossy(&output.stdout).into_owned();
            let is_complete = found.lines().eq(nodes.iter().copied());
            if is_complete { Ok(()) } else { Err(describe_output(&output)) }
        })
        .await;
    }
}

impl Drop for SkewFleet {
    fn drop(&mut self) {
        let _ = self.broker.kill();
        let _ = self.broker.wait();
    }
}

/// Starts the daemon of this version, and waits until it serves requests.
pub(super) async fn start_daemon(home: &DaemonHome, version: ProgramVersion) -> Rpcd {
    let mut daemon = home.clone().start_version(version);
    daemon.await_ready().await;
    daemon
}

async fn output_in(home: &Path, version: ProgramVersion, arguments: &[&str]) -> Output {
    let mut command = prepare_rpc_of(version, home, &home.join("rip/rpc.toml"), arguments);
    command.current_dir(home).env("MUSTER_ORG", home.join("acme")).output().await.unwrap()
}

async fn run_in(home: &Path, version: ProgramVersion, arguments: &[&str]) -> String {
    let output = output_in(home, version, arguments).await;
    let printed = describe_output(&output);
    assert!(output.status.success(), "{version:?} {arguments:?}: {printed}");
    printed
}
