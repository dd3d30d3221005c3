//! Machines that are nodes: booted with the files of the package `muster-node` and a bundle of their own.

#![expect(clippy::disallowed_types, reason = "runs tools/package and dpkg-deb")]

use std::path::{Path, PathBuf};
use std::process::Command;

use muster_tests::command::{describe_output, find_program};
use muster_tests::poll_until_ok;
use serde_json::Value;
use tempfile::TempDir;

use super::RECOVERY_TIMEOUT;
use super::fleet::{MachineFleet, MachineLayers};
use super::organisation::OperatorHost;

/// A fleet whose machines run rpcd under their own systemd. The node of `m1` is `m1.example.net`.
#[derive(Debug)]
pub(crate) struct MachineNodes {
    pub(crate) machines: MachineFleet,
    pub(crate) operator: OperatorHost,
    _layer: TempDir,
}

/// Options of a fleet of nodes.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct NodeOptions<'a> {
    /// Whether Puppet's agent is installed.
    pub(crate) puppet: bool,
    /// Whether the layer `programs` is there: zsh, fish, the monitoring plugins, Nagios Core, Icinga 2 and curl.
    pub(crate) programs: bool,
    /// Added to the configuration of each node, as `conf.d/test.toml`.
    pub(crate) configuration: &'a str,
}

impl MachineNodes {
    /// Boots this many machines, and waits until all nodes answer. `None` if this run skips tests on machines.
    pub(crate) async fn start(count: usize, options: NodeOptions<'_>) -> Option<Self> {
        let layer = TempDir::new().unwrap();
        unpack_node_package(layer.path());
        let directories = vec![layer.path().to_owned()];
        let layers =
            MachineLayers { puppet: options.puppet, programs: options.programs, directories };
        let machines = MachineFleet::boot(count, &layers).await?;
        let operator = OperatorHost::start(&machines.host).await;
        let nodes = Self { machines, operator, _layer: layer };
        for machine in nodes.machines.names() {
            let name = node_name(machine);
            let bundle = nodes.operator.add_node(&name, options.configuration).await;
            nodes.machines.copy(machine, &bundle, "/etc/muster").await;
            nodes.machines.sh(machine, "systemctl enable --now --no-block rpcd").await;
        }
        nodes.await_answers(count).await;
        Some(nodes)
    }

    /// Makes a key of the operator, with which root can log in to every machine by ssh, and new host keys. Returns the file of the key.
    pub(crate) async fn permit_ssh_logins(&self) -> PathBuf {
        permit_ssh_logins(&self.machines, &self.operator).await
    }

    /// Waits until this many nodes answer a ping.
    pub(crate) async fn await_answers(&self, count: usize) {
        count_answers(&self.operator, count).await;
    }

    /// Calls an action on the node of one machine; returns its reply, which must exist.
    #[expect(clippy::indexing_slicing, reason = "documents are indexed; tests end by panic")]
    pub(crate) async fn call(&self, machine: &str, arguments: &[&str]) -> Value {
        let name = node_name(machine);
        let (document, _) =
            self.operator.run_json(&[&["do"], arguments, &["-I", &name]].concat()).await;
        let reply = document["replies"].as_array().and_then(|replies| replies.first());
        reply.cloned().unwrap_or_else(|| panic!("{arguments:?}: no reply: {document:#}"))
    }
}

/// Makes a key of the operator, with which root can log in to every machine by ssh, and new host keys. Returns the file of the key.
pub(crate) async fn permit_ssh_logins(machines: &MachineFleet, operator: &OperatorHost) -> PathBuf {
    let key = operator.path("login_key");
    run(Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&key));
    let public = std::fs::read_to_string(operator.path("login_key.pub")).unwrap();
    let script = format!(
        "rm -f /etc/ssh/ssh_host_* && ssh-keygen -A && mkdir -p -m 700 /root/.ssh && echo '{}' > /root/.ssh/authorized_keys && systemctl restart ssh",
        public.trim()
    );
    for machine in machines.names() {
        machines.sh(machine, &script).await;
    }
    key
}

/// Waits until exactly this many nodes answer a ping; returns the output of that ping.
pub(crate) async fn count_answers(operator: &OperatorHost, count: usize) -> String {
    poll_until_ok(&format!("{count} nodes answer"), RECOVERY_TIMEOUT, async || {
        let output = operator.run(&["ping"]).await;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let answers = text.lines().filter(|line| line.contains("time=")).count();
        if answers == count { Ok(text) } else { Err(describe_output(&output)) }
    })
    .await
}

/// The node of a machine.
pub(crate) fn node_name(machine: &str) -> String {
    format!("{machine}.example.net")
}

/// Makes the Debian packages of this version from the programs beside the tests; returns their directory. They are kept until
/// the programs or the list of files change.
pub(crate) fn build_packages(version: &str) -> PathBuf {
    let rpcd = find_program("rpcd");
    let binaries = rpcd.parent().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let parts =
        [root.join("packaging/packages.toml"), root.join("tools/package"), binaries.join("rpc")];
    let times =
        parts.iter().chain([&rpcd]).map(|path| path.metadata().unwrap().modified().unwrap());
    let built = times.max().unwrap().duration_since(std::time::UNIX_EPOCH).unwrap();
    let parent = binaries.join("machines-packages");
    let packages = parent.join(format!("{version}-{}", built.as_nanos()));
    std::fs::create_dir_all(&parent).unwrap();
    let lock = std::fs::File::create(parent.join(format!("{version}.lock"))).unwrap();
    lock.lock().unwrap();
    if !packages.is_dir() {
        remove_outdated(&parent, version);
        let part = TempDir::new_in(&parent).unwrap();
        let tool = root.join("tools/package");
        run(Command::new(tool)
            .args(["deb", "--fast", "--version", version, "--binaries"])
            .arg(binaries)
            .arg("--out")
            .arg(part.path()));
        std::fs::rename(part.keep(), &packages).unwrap();
    }
    packages
}

/// Removes the packages that earlier programs were put into.
fn remove_outdated(parent: &Path, version: &str) {
    for entry in std::fs::read_dir(parent).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy();
        if name.starts_with(&format!("{version}-")) {
            std::fs::remove_dir_all(&path).unwrap();
        }
    }
}

/// Unpacks the files of the package `muster-node`.
pub(crate) fn unpack_node_package(directory: &Path) {
    let package = build_packages("0.1.0").join("muster-node_0.1.0_amd64.deb");
    run(Command::new("dpkg-deb").arg("--extract").arg(package).arg(directory));
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", describe_output(&output));
}
