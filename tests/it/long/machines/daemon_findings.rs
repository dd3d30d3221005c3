//! What an operator's trial on booted machines found in the daemon: the first noop, package changes that restart it, runs that a power cut
//! ended, a boot without the broker.

#![expect(clippy::indexing_slicing, reason = "replies are indexed; tests end by panic")]

use std::time::{Duration, Instant};

use muster_tests::poll_until_ok;
use serde_json::json;

use crate::machines::RECOVERY_TIMEOUT;
use crate::machines::apt_repository::USE_OWN_PACKAGES;
use crate::machines::nodes::{MachineNodes, NodeOptions, node_name};

const CONFIGURATION: &str = "[plugins.catalog]\nenabled = true\n";

/// How long `slow` is configured. A restart of the daemon takes less.
const SLOW_SECONDS: u64 = 8;

/// A package that takes long to configure, and one that restarts the daemon, as packages of libraries do.
const PREPARE: &str = r#"
for name in slow restarting; do
  mkdir -p /tmp/$name/DEBIAN /srv/repository
  printf "Package: $name\nVersion: 1.0\nArchitecture: all\nMaintainer: t <t@example.net>\nDescription: test\n" >/tmp/$name/DEBIAN/control
done
printf '#!/bin/sh\ntouch /run/slow-began; sleep SECONDS; echo done >/var/slow-ended\n' >/tmp/slow/DEBIAN/postinst
printf '#!/bin/sh\nsystemctl restart rpcd; echo done >/var/restarting-ended\n' >/tmp/restarting/DEBIAN/postinst
chmod 755 /tmp/*/DEBIAN/postinst
for name in slow restarting; do dpkg-deb --build /tmp/$name /srv/repository >/dev/null; done
"#;

async fn main_pid(nodes: &MachineNodes) -> String {
    nodes.machines.sh("m1", "systemctl show -P MainPID rpcd").await
}

/// The first requests of a new node are noops.
async fn check_first_noop(nodes: &MachineNodes) {
    let machines = &nodes.machines;
    let words = ["puppetral", "do", "type=file", "name=/etc/made", "content=x", "noop=true"];
    let reply = nodes.call("m1", &words).await;
    assert_eq!((&reply["statuscode"], &reply["data"]["changed"]), (&json!(0), &json!(true)));
    let catalog = json!([{"type": "file", "title": "/etc/made", "content": "x"}]);
    let input = format!("catalog={catalog}");
    let reply = nodes.call("m1", &["catalog", "apply", &input, "noop=true"]).await;
    assert_eq!(reply["statuscode"], 0, "{reply:#}");
    assert_eq!(reply["data"]["events"][0]["resource"], "File[/etc/made]", "{reply:#}");
    let reply = nodes.call("m1", &["ledger", "list"]).await;
    assert_eq!(reply["data"]["pending"], 0, "{reply:#}");
    machines.sh("m1", "test ! -e /etc/made").await;
}

/// `systemctl restart rpcd` neither waits for apt nor ends it, and the reply comes from the next daemon.
async fn check_restart_under_packages(nodes: &MachineNodes) {
    let machines = &nodes.machines;
    let prepare = PREPARE.replace("SECONDS", &SLOW_SECONDS.to_string()) + USE_OWN_PACKAGES;
    machines.sh("m1", &prepare).await;
    let pid = main_pid(nodes).await;
    let restart = async {
        machines.await_script("m1", "test -e /run/slow-began").await;
        let started = Instant::now();
        machines.sh("m1", "systemctl restart rpcd").await;
        let took = started.elapsed();
        assert!(took < Duration::from_secs(SLOW_SECONDS), "the restart took {took:?}");
        machines.sh("m1", "test ! -e /var/slow-ended").await;
    };
    let install = nodes.call("m1", &["package", "install", "package=slow"]);
    let (reply, ()) = tokio::join!(install, restart);
    assert_eq!(reply["statuscode"], 0, "{reply:#}");
    assert_ne!(main_pid(nodes).await, pid);
    machines.sh("m1", "cat /var/slow-ended; dpkg -s slow | grep 'install ok installed'").await;

    let pid = main_pid(nodes).await;
    let reply = nodes.call("m1", &["package", "install", "package=restarting"]).await;
    assert_eq!(reply["statuscode"], 0, "{reply:#}");
    assert_ne!(main_pid(nodes).await, pid);
    let installed = "cat /var/restarting-ended; dpkg -s restarting | grep 'install ok installed'";
    machines.sh("m1", installed).await;
}

/// A power cut ends a run between a change and the refresh that follows from it. The node that is back answers the request, a lock that the
/// run left does not block, and the refresh is made by a replay.
async fn check_run_after_a_cut(nodes: &MachineNodes) {
    let machines = &nodes.machines;
    let catalog = json!([
        {"type": "file", "title": "/etc/trigger", "content": "1\n", "notify": "Exec[refresh]"},
        {"type": "exec", "title": "pause", "command": ["/bin/sh", "-c", "sync; echo reached >/var/reached; sleep 20"],
         "require": "File[/etc/trigger]", "before": "Exec[refresh]"},
        {"type": "exec", "title": "refresh", "refreshonly": true, "command": ["/bin/sh", "-c", "cat /etc/trigger >>/var/refreshed"]},
    ]);
    let input = format!("catalog={catalog}");
    let name = node_name("m1");
    let words = ["do", "catalog", "apply", input.as_str(), "-I", &name, "--timeout", "60"];
    let cut = async {
        machines.await_script("m1", "test -e /var/reached").await;
        machines.cut_power(&["m1"]).await;
        machines.power_on(&["m1"]).await;
    };
    let started = Instant::now();
    let ((document, code), ()) = tokio::join!(nodes.operator.run_json(&words), cut);
    assert_ne!(code, 0, "{document:#}");
    let reply = &document["replies"][0];
    assert_eq!(reply["statuscode"], 5, "{document:#}");
    assert!(reply.to_string().contains("lost"), "{document:#}");
    assert!(started.elapsed() < Duration::from_mins(1), "answered at the deadline only");

    // The locks are on the disk, with process ids of the boot before; without them, this would prove nothing.
    let locks = "find / -xdev -name agent_catalog_run.lock -size +0 2>/dev/null";
    let found = machines.sh("m1", locks).await;
    assert!(!found.is_empty(), "no run lock is left");
    // The process id may belong to another process now.
    machines.sh("m1", &format!("for lock in {found}; do cp -p --preserve=all $lock $lock.old; systemctl show -P MainPID cron >$lock; touch -r $lock.old $lock; done")).await;
    let list = nodes.call("m1", &["ledger", "list"]).await;
    assert_eq!(list["data"]["pending"], 1, "{list:#}");
    let reply = nodes.call("m1", &["ledger", "replay"]).await;
    assert_eq!(reply["statuscode"], 0, "{reply:#}");
    assert_eq!(machines.sh("m1", "cat /var/refreshed").await, "1");
    let list = nodes.call("m1", &["ledger", "list"]).await;
    assert_eq!(list["data"]["pending"], 0, "{list:#}");
}

/// The machine boots to multi-user while the broker is away; the node answers when the broker is back.
async fn check_boot_without_broker(nodes: &mut MachineNodes) {
    nodes.operator.kill_broker();
    nodes.machines.cut_power(&["m1"]).await;
    nodes.machines.power_on(&["m1"]).await;
    let active = nodes.machines.sh("m1", "systemctl is-active multi-user.target rpcd").await;
    assert_eq!(active, "active\nactive");
    poll_until_ok("the status names the broker", RECOVERY_TIMEOUT, async || {
        let status = nodes.machines.sh("m1", "systemctl show -P StatusText rpcd").await;
        if status.contains("not connected") { Ok(()) } else { Err(status) }
    })
    .await;
    let restarted = Instant::now();
    nodes.machines.sh("m1", "systemctl restart rpcd").await;
    assert!(restarted.elapsed() < Duration::from_secs(20), "{:?}", restarted.elapsed());
    nodes.operator.start_broker().await;
    nodes.await_answers(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn findings_of_the_trial_in_the_daemon_stay_fixed() {
    let options =
        NodeOptions { puppet: true, configuration: CONFIGURATION, ..NodeOptions::default() };
    let Some(mut nodes) = MachineNodes::start(1, options).await else { return };
    let started = Instant::now();
    check_first_noop(&nodes).await;
    check_restart_under_packages(&nodes).await;
    check_run_after_a_cut(&nodes).await;
    check_boot_without_broker(&mut nodes).await;
    println!("all points in {:?}", started.elapsed());
}
