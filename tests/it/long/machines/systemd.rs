//! `rpcd.service` under a real systemd: start, reload, watchdog, security score.

use std::time::Duration;

use muster_tests::{poll_until_ok, simulate_delay};

use crate::machines::RECOVERY_TIMEOUT;
use crate::machines::nodes::{MachineNodes, NodeOptions};
use crate::packaging::documented_scores;

/// A property of the unit.
async fn show(nodes: &MachineNodes, property: &str) -> String {
    nodes.machines.sh("m1", &format!("systemctl show -P {property} rpcd")).await
}

async fn await_property(nodes: &MachineNodes, property: &str, expected: &str) {
    let what = format!("{property} of rpcd.service is {expected}");
    poll_until_ok(&what, RECOVERY_TIMEOUT, async || {
        let found = show(nodes, property).await;
        if found == expected { Ok(()) } else { Err(found) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unit_starts_reloads_and_restarts_a_daemon_that_hangs() {
    let Some(nodes) = MachineNodes::start(1, NodeOptions::default()).await else { return };
    let machines = &nodes.machines;
    assert_eq!(show(&nodes, "Type").await, "notify");
    assert_eq!(show(&nodes, "ActiveState").await, "active");
    assert_eq!(show(&nodes, "WatchdogUSec").await, "2min");
    let pid = show(&nodes, "MainPID").await;

    // `systemctl reload` returns when the daemon has reloaded; it stays the same process.
    machines.sh("m1", "printf 'policy default deny\\n' >/etc/muster/policies/shell.policy").await;
    machines.sh("m1", "systemctl reload rpcd").await;
    machines.sh("m1", "journalctl -u rpcd | grep -q 'reloaded policies'").await;
    assert_eq!(show(&nodes, "MainPID").await, pid);
    assert_eq!(show(&nodes, "ActiveState").await, "active");

    // The daemon of a short watchdog notifies in time: it lives for three times the limit.
    let short = "mkdir -p /etc/systemd/system/rpcd.service.d && cd /etc/systemd/system/rpcd.service.d && \
        printf '[Service]\\nWatchdogSec=2\\nRestartSec=0\\n' >watchdog.conf && systemctl daemon-reload && systemctl restart rpcd";
    machines.sh("m1", short).await;
    nodes.await_answers(1).await;
    simulate_delay(Duration::from_secs(6)).await;
    assert_eq!(show(&nodes, "NRestarts").await, "0");
    // It hangs: systemd ends it, and starts another one that answers.
    let pid = show(&nodes, "MainPID").await;
    machines.sh("m1", &format!("kill -STOP {pid}")).await;
    await_property(&nodes, "NRestarts", "1").await;
    machines.sh("m1", "journalctl -u rpcd | grep -qi 'watchdog timeout'").await;
    nodes.await_answers(1).await;
    assert_ne!(show(&nodes, "MainPID").await, pid);
}

/// The scores of the guide are those on a machine, where systemd reads the whole unit.
#[tokio::test(flavor = "multi_thread")]
async fn security_scores_on_a_machine_are_those_of_the_guide() {
    let Some(nodes) = MachineNodes::start(1, NodeOptions::default()).await else { return };
    let machines = &nodes.machines;
    let (version, rows) = documented_scores();
    let installed = machines.sh("m1", "systemctl --version").await;
    assert!(installed.starts_with(&format!("systemd {version} ")), "{installed}");
    assert_eq!(rows.len(), 2, "{rows:?}");
    for (drop_ins, documented) in rows {
        let directory = "/etc/systemd/system/rpcd.service.d";
        for drop_in in &drop_ins {
            let from = format!("/usr/share/doc/muster-node/examples/{drop_in}");
            machines.sh("m1", &format!("mkdir -p {directory} && cp {from} {directory}/")).await;
        }
        machines.sh("m1", "systemctl daemon-reload && systemctl restart rpcd").await;
        let output = machines.sh("m1", "systemd-analyze security --no-pager rpcd.service").await;
        let (_, score) = output.split_once("Overall exposure level for rpcd.service: ").unwrap();
        let score: f64 = score.split_whitespace().next().unwrap().parse().unwrap();
        assert!(
            (score - documented).abs() < 0.05,
            "{drop_ins:?}: {score}, the guide has {documented}"
        );
        // With all restrictions it still runs and answers.
        nodes.await_answers(1).await;
    }
}

/// journald has the level of each line as its priority, the daemon as its unit, and no second time in the message.
#[tokio::test(flavor = "multi_thread")]
async fn journal_has_priorities_and_one_time() {
    let Some(nodes) = MachineNodes::start(1, NodeOptions::default()).await else { return };
    let machines = &nodes.machines;
    // A policy with an error: systemd's reload fails, and names it in the journal.
    machines
        .sh("m1", "echo 'no policy' >/etc/muster/policies/shell.policy; ! systemctl reload rpcd")
        .await;
    let entries = machines.sh("m1", "journalctl --unit=rpcd --output=json --no-pager").await;
    let entries: Vec<serde_json::Value> =
        entries.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let own: Vec<_> = entries.iter().filter(|entry| entry["SYSLOG_IDENTIFIER"] == "rpcd").collect();
    let find = |text: &str| {
        let has_text = |entry: &&&serde_json::Value| {
            entry["MESSAGE"].as_str().is_some_and(|message| message.contains(text))
        };
        *own.iter().find(has_text).unwrap_or_else(|| panic!("{text}: {own:#?}"))
    };
    assert_eq!(find("ready")["PRIORITY"], "6");
    assert_eq!(find("shell.policy:1:1: ")["PRIORITY"], "3");
    let priorities: Vec<_> = own.iter().filter_map(|entry| entry["PRIORITY"].as_str()).collect();
    assert!(priorities.iter().any(|priority| ["3", "4"].contains(priority)), "{own:#?}");
    for entry in own {
        assert_eq!(entry["_SYSTEMD_UNIT"], "rpcd.service");
        let message = entry["MESSAGE"].as_str().unwrap_or_default();
        assert!(!message.starts_with("20") && !message.starts_with('<'), "{message}");
    }
}
