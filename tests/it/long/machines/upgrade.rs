//! `rpc upgrade` under a real systemd: the daemon keeps its process, runs the program again after a power failure, and returns from one that ends.

use muster_tests::command::find_program;
use muster_tests::poll_until_ok;

use crate::machines::RECOVERY_TIMEOUT;
use crate::machines::nodes::{MachineNodes, NodeOptions};

const MACHINE: &str = "m1";

/// Adds a program to the organisation, and gives it to the node. Returns what `rpc upgrade` printed as JSON.
async fn upgrade(nodes: &MachineNodes, name: &str, program: &str) -> serde_json::Value {
    nodes.operator.run_successfully(&["org", "program", "add", name, program]).await;
    let command = ["upgrade", name, "--all", "--yes", "--confirm-within", "20"];
    nodes.operator.run_json(&command).await.0
}

async fn running_program(nodes: &MachineNodes) -> String {
    let script = "readlink /proc/$(systemctl show -P MainPID rpcd)/exe";
    nodes.machines.sh(MACHINE, script).await.trim().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn upgraded_daemon_survives_a_power_failure_and_returns_from_a_program_that_ends() {
    let Some(nodes) = MachineNodes::start(1, NodeOptions::default()).await else { return };
    let machines = &nodes.machines;
    let show = "systemctl show -P MainPID -P NRestarts rpcd";
    let before = machines.sh(MACHINE, show).await;
    let installed = running_program(&nodes).await;
    // What the fixture wrote; what an upgrade writes must survive without it.
    machines.sh(MACHINE, "sync").await;
    let program = find_program("rpcd");
    let document = upgrade(&nodes, "0.2.0", program.to_str().unwrap()).await;
    let result = document.pointer("/results/0/result").unwrap();
    assert_eq!(result, "confirmed", "{document:#}");
    let upgraded = running_program(&nodes).await;
    assert!(upgraded.starts_with("/var/lib/muster/programs/rpcd-"), "{upgraded}");
    assert_eq!(machines.sh(MACHINE, show).await, before, "it is the same process");

    machines.cut_power(&[MACHINE]).await;
    machines.power_on(&[MACHINE]).await;
    nodes.await_answers(1).await;
    assert_eq!(running_program(&nodes).await, upgraded);

    // It passes every check and ends without an error, so that systemd does not restart it.
    let document = upgrade(&nodes, "ends", "/bin/true").await;
    let result = document.pointer("/results/0/result").unwrap();
    assert_eq!(result, "unconfirmed", "{document:#}");
    poll_until_ok("the node returned", RECOVERY_TIMEOUT, async || {
        let (status, _) = nodes.operator.run_json(&["config", "status"]).await;
        let state = status.pointer("/nodes/0/state");
        if state.is_some_and(|state| state == "reverted") { Ok(()) } else { Err(status) }
    })
    .await;
    assert_eq!(running_program(&nodes).await, upgraded);

    // A package that is installed ends the upgrade.
    machines.sh(MACHINE, &format!("touch {installed} && systemctl restart rpcd")).await;
    nodes.await_answers(1).await;
    assert_eq!(running_program(&nodes).await, installed);
}
