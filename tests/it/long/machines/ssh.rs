//! `rpc ssh` and `rpc scp` with the real OpenSSH on booted machines: the host keys that nodes have signed are accepted, and no others.

#![expect(clippy::disallowed_types, reason = "runs ssh-keygen")]

use std::process::Output;
use std::time::{Duration, Instant};

use muster_tests::command::describe_output;
use muster_tests::poll_until_ok;

use crate::machines::RECOVERY_TIMEOUT;
use crate::machines::nodes::{MachineNodes, NodeOptions, node_name};

const ROUNDS: usize = 10;
const DIRECTORY: &str =
    "[plugins.directory]\nenabled = true\ncredentials = \"/etc/muster/directory1.creds\"\n";
const CONFIGURATION: &str =
    "[registration]\nheartbeat_seconds = 1\nmin_interval_seconds = 0\nstate_interval_seconds = 0\n";

pub(super) struct SshMachines {
    pub(super) nodes: MachineNodes,
    /// Arguments of OpenSSH for the operator's key.
    pub(super) login: Vec<String>,
}

impl SshMachines {
    /// Two machines with sshd; the first one runs a directory.
    pub(super) async fn start() -> Option<Self> {
        let options = NodeOptions { configuration: CONFIGURATION, ..NodeOptions::default() };
        let nodes = MachineNodes::start(2, options).await?;
        let key = nodes.permit_ssh_logins().await;
        for (machine, address) in &nodes.machines.machines {
            let script = format!(
                "mkdir -p /etc/muster/facts.d && echo '{{\"address\": \"{address}\"}}' > /etc/muster/facts.d/address.json && systemctl restart rpcd"
            );
            nodes.machines.sh(machine, &script).await;
        }
        let operator = &nodes.operator;
        operator
            .run_successfully(&["org", "add", "service", "directory1", "--serve", "directory"])
            .await;
        let creds = operator.path("acme/creds/services/directory1.creds");
        nodes.machines.copy("m1", &creds, "/etc/muster/directory1.creds").await;
        let policy = "policy default deny\\nallow\\t*\\t*\\t*\\t*\\n";
        let script = format!(
            "chmod 600 /etc/muster/directory1.creds && printf '{policy}' > /etc/muster/policies/directory.policy && \
             printf '%s' '{DIRECTORY}' > /etc/muster/conf.d/directory.toml && systemctl restart rpcd"
        );
        nodes.machines.sh("m1", &script).await;
        let login =
            ["-i", key.to_str().unwrap(), "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes"];
        let login = login.map(str::to_owned).into();
        let found = Self { nodes, login };
        poll_until_ok("the directory has the host keys", RECOVERY_TIMEOUT, async || {
            let query = [
                "nodes",
                "-Q",
                "{'state.ssh.host_keys': {$exists: true}, 'facts.address': {$exists: true}}",
                "-o",
                "name",
            ];
            let output = found.nodes.operator.run(&query).await;
            let count = String::from_utf8_lossy(&output.stdout).lines().count();
            if count == 2 { Ok(()) } else { Err(describe_output(&output)) }
        })
        .await;
        Some(found)
    }

    pub(super) async fn run(&self, command: &[&str], arguments: &[&str]) -> Output {
        let login = self.login.iter().map(String::as_str);
        let words: Vec<&str> = command
            .iter()
            .copied()
            .chain(["--address-fact", "address", "--"])
            .chain(login)
            .chain(arguments.iter().copied())
            .collect();
        self.nodes.operator.run(&words).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn signed_host_keys_are_accepted_and_no_others() {
    let Some(machines) = SshMachines::start().await else { return };
    let target = node_name("m2");
    let output = machines.run(&["ssh", "-I", &target], &["-l", "root", "cat /etc/hostname"]).await;
    assert_eq!(output.status.code(), Some(0), "{}", describe_output(&output));
    let hostname = machines.nodes.machines.sh("m2", "cat /etc/hostname").await;
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim_end(), hostname);

    // The exit code is that of the command, and files are copied both ways.
    let output = machines.run(&["ssh", "-I", &target], &["-l", "root", "exit 7"]).await;
    assert_eq!(output.status.code(), Some(7), "{}", describe_output(&output));
    std::fs::write(machines.nodes.operator.path("notes.txt"), "to the node").unwrap();
    let copy = ["-o", "User=root", "notes.txt", ":/root/notes.txt"];
    let output = machines.run(&["scp", "-I", &target], &copy).await;
    assert_eq!(output.status.code(), Some(0), "{}", describe_output(&output));
    assert_eq!(machines.nodes.machines.sh("m2", "cat /root/notes.txt").await, "to the node");
    let back = ["-o", "User=root", ":/root/notes.txt", "back.txt"];
    let output = machines.run(&["scp", "-I", &target], &back).await;
    assert_eq!(output.status.code(), Some(0), "{}", describe_output(&output));
    let copied = std::fs::read_to_string(machines.nodes.operator.path("back.txt")).unwrap();
    assert_eq!(copied, "to the node");

    let all = ["ssh", "--all", "--parallel", "2"];
    let output = machines.run(&all, &["-l", "root", "hostname"]).await;
    assert_eq!(output.status.code(), Some(0), "{}", describe_output(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 2);

    measure_overhead(&machines, &target).await;

    // Another machine at the node's address: it has not the node's key.
    let other = machines.nodes.machines.machines.get("m1").unwrap();
    let script = format!(
        "echo '{{\"address\": \"{other}\"}}' > /etc/muster/facts.d/address.json && systemctl reload rpcd"
    );
    machines.nodes.machines.sh("m2", &script).await;
    let fact = format!("address={other}");
    poll_until_ok("the address is published", RECOVERY_TIMEOUT, async || {
        let find = ["find", "--dm", "directory", "-I", target.as_str(), "-F", fact.as_str()];
        let output = machines.nodes.operator.run(&find).await;
        if output.status.success() { Ok(()) } else { Err(describe_output(&output)) }
    })
    .await;
    let options = ["-l", "root", "-o", "StrictHostKeyChecking=no", "touch /root/wrong-host"];
    let output = machines.run(&["ssh", "-I", &target], &options).await;
    assert_eq!(output.status.code(), Some(255), "{}", describe_output(&output));
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(errors.contains("Host key verification failed"), "{errors}");
    machines.nodes.machines.sh("m1", "test ! -e /root/wrong-host").await;
}

/// Prints what `rpc ssh` costs beside plain ssh. The time is a figure, and no condition of the test.
#[expect(clippy::print_stdout, reason = "a figure")]
async fn measure_overhead(machines: &SshMachines, target: &str) {
    let print = machines.run(&["ssh", "--print", "-I", target], &["-l", "root", "true"]).await;
    let line = String::from_utf8_lossy(&print.stdout).into_owned();
    let (mut plain, mut by_query) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let started = Instant::now();
        let output = tokio::process::Command::new("sh").args(["-c", &line]).output().await.unwrap();
        assert!(output.status.success(), "{line}: {}", describe_output(&output));
        plain.push(started.elapsed());
        let started = Instant::now();
        let output = machines.run(&["ssh", "-I", target], &["-l", "root", "true"]).await;
        assert!(output.status.success(), "{}", describe_output(&output));
        by_query.push(started.elapsed());
    }
    let median = |times: &mut Vec<Duration>| {
        times.sort();
        times.get(ROUNDS / 2).copied().unwrap()
    };
    println!("ssh: {:?}; rpc ssh: {:?}", median(&mut plain), median(&mut by_query));
}
