//! A node with `observe.conf` answers queries and changes nothing, whatever its policy allows: not by resources, not by the agents, not by
//! root's ways to other daemons. The replies say what failed.

#![expect(clippy::indexing_slicing, reason = "replies are indexed; tests end by panic")]

use serde_json::Value;

use crate::machines::nodes::{MachineNodes, NodeOptions};

const CONFIGURATION: &str = "[plugins.shell]\nenabled = true\n[plugins.catalog]\nenabled = true\n";

pub(super) const INSTALL: &str = "mkdir -p /etc/systemd/system/rpcd.service.d && \
    cp /usr/share/doc/muster-node/examples/observe.conf /etc/systemd/system/rpcd.service.d/ && \
    systemctl daemon-reload && systemctl restart rpcd";

/// What must not change: files of the system, users, packages, and the processes of services.
const STATE: &str = "find /etc /usr/lib/systemd /opt /srv /root /var/spool /var/lib/dpkg /var/lib/systemd /home -xdev -newer /run/reference -printf '%p\\n' \
    | grep -v -e ^/var/lib/systemd/timers -e ^/var/lib/systemd/random-seed || true; \
    systemctl show -P MainPID -P ActiveState -P UnitFileState cron; dpkg-query -W | sha256sum; cat /proc/sys/kernel/hostname; \
    systemctl list-units --no-legend --plain 'run-*.service'; findmnt --noheadings --output OPTIONS /";

/// Requests of agents that change the node, with a part of the reply.
const CHANGES: &[(&[&str], &str)] = &[
    (&["puppetral", "do", "type=file", "name=/etc/made", "content=x"], "Read-only file system"),
    (&["puppetral", "do", "type=file", "name=/etc/motd", "ensure=absent"], "Read-only file system"),
    (&["puppetral", "do", "type=user", "name=anna"], "useradd"),
    (&["puppetral", "do", "type=group", "name=crew"], "groupadd"),
    (&["puppetral", "do", "type=host", "name=db1", "ip=10.0.0.5"], "Read-only file system"),
    (&["puppetral", "do", "type=cron", "name=job", "command=/bin/true"], "crontab"),
    (&["puppetral", "do", "type=service", "name=cron", "ensure=stopped"], "systemctl"),
    (&["puppetral", "do", "type=service", "name=cron", "enable=false"], "systemctl"),
    (&["puppetral", "do", "type=package", "name=cron", "ensure=absent"], "apt-get"),
    (&["service", "stop", "service=cron"], "systemctl"),
    (&["service", "restart", "service=cron"], "systemctl"),
    (&["package", "uninstall", "package=cron"], "apt-get"),
    (
        &[
            "catalog",
            "apply",
            "catalog=[{\"type\":\"file\",\"title\":\"/etc/made\",\"content\":\"x\"}]",
        ],
        "Read-only file system",
    ),
];

/// Scripts of `shell run`, which run as root, with a part of what they print.
const SCRIPTS: &[(&str, &str)] = &[
    ("echo x >/etc/made", "Read-only file system"),
    ("echo x >/usr/lib/systemd/system/made.service", "Read-only file system"),
    ("systemctl stop cron", "Failed to"),
    ("systemctl --force --force reboot", ""),
    ("systemd-run --wait touch /etc/made", "Failed to"),
    (
        "busctl call org.freedesktop.systemd1 /org/freedesktop/systemd1 org.freedesktop.systemd1.Manager StopUnit ss cron.service replace",
        "Failed to",
    ),
    ("hostnamectl set-hostname other", "Failed to"),
    ("hostname other", ""),
    ("mount -o remount,rw /", ""),
    ("nsenter --target 1 --mount touch /etc/made", ""),
    ("touch /proc/1/root/etc/made", "Permission denied"),
    ("useradd anna", ""),
    ("dpkg --remove cron", ""),
    ("echo '* * * * * touch /etc/made' | crontab -", ""),
    ("echo 1 >/proc/sys/kernel/panic", "Read-only file system"),
    ("cp /bin/sh /run/sh && chmod 4755 /run/sh", ""),
];

/// Reads that still work, with a part of the reply.
const READS: &[(&[&str], &str)] = &[
    (&["rpcutil", "get_fact", "fact=networking.hostname"], "m1"),
    (&["puppetral", "find", "type=file", "name=/etc/hostname"], "{sha256}"),
    (&["puppetral", "find", "type=user", "name=root"], "/root"),
    (&["package", "status", "package=cron"], "cron"),
    (&["process", "list"], "systemd"),
];

/// The replies that are not as described.
async fn find_problems(nodes: &MachineNodes) -> Vec<String> {
    let mut problems = Vec::new();
    for (words, part) in READS {
        let reply = nodes.call("m1", words).await;
        if reply["statuscode"] != 0 || !reply["data"].to_string().contains(part) {
            problems.push(format!("{words:?}: {part}: {reply:#}"));
        }
    }
    for (words, part) in CHANGES {
        let reply = nodes.call("m1", words).await;
        if reply["statuscode"] == 0 || !reply.to_string().contains(part) {
            problems.push(format!("{words:?}: {part}: {reply:#}"));
        }
    }
    for (script, part) in SCRIPTS {
        let input = format!("script={script}");
        let reply = nodes.call("m1", &["shell", "run", &input]).await;
        let is_failed = reply["data"]["exitcode"] != 0 && reply["data"]["exitcode"] != Value::Null;
        if !is_failed || !reply.to_string().contains(part) {
            problems.push(format!("{script}: {part}: {reply:#}"));
        }
    }
    problems
}

#[tokio::test(flavor = "multi_thread")]
async fn node_with_observe_conf_reads_and_changes_nothing() {
    let options = NodeOptions { configuration: CONFIGURATION, ..NodeOptions::default() };
    let Some(nodes) = MachineNodes::start(1, options).await else { return };
    let machines = &nodes.machines;
    // The test can fail: without the file, such a change is made.
    let words = ["shell", "run", "script=systemctl try-restart cron && echo x >/etc/before"];
    let reply = nodes.call("m1", &words).await;
    assert_eq!(reply["data"]["exitcode"], 0, "{reply:#}");
    machines.sh("m1", INSTALL).await;
    nodes.await_answers(1).await;
    machines.sh("m1", "touch /run/reference").await;
    let before = machines.sh("m1", STATE).await;
    let problems = find_problems(&nodes).await;
    assert_eq!(machines.sh("m1", STATE).await, before);
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
