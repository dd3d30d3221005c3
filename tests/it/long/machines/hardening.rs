//! Each restriction of the units is in effect on a booted machine: an attempt that succeeds without it fails with it. The attempts are those of a job of root.

#![expect(clippy::indexing_slicing, reason = "replies are indexed; tests end by panic")]

use std::collections::BTreeSet;

use crate::machines::nodes::{MachineNodes, NodeOptions};
use crate::packaging::documented_scores;

const CONFIGURATION: &str = "[plugins.shell]\nenabled = true\n";

const UNIT: &str = include_str!("../../../../packaging/rpcd.service");
const OBSERVE: &str = include_str!("../../../../packaging/rpcd.service.d/observe.conf");

/// What the attempts need on the machine.
const PREPARE: &str = "touch /tmp/marker /home/marker /dev/shm/marker && mknod /dev/marker c 1 3 && mkdir -p /usr/lib/modules/x /run/docker.sock && \
    touch /run/docker.sock/marker";

const INSTALL: &str = "mkdir -p /etc/systemd/system/rpcd.service.d && \
    cp /usr/share/doc/muster-node/examples/observe.conf /etc/systemd/system/rpcd.service.d/ && \
    systemctl daemon-reload && systemctl restart rpcd";

/// A directive, and a script that succeeds without it and fails with it.
const ATTEMPTS: &[(&str, &str)] = &[
    ("ProtectSystem", "touch /usr/made && rm /usr/made"),
    ("ProtectSystem", "touch /etc/muster/made && rm /etc/muster/made"),
    ("ProtectSystem", "touch /var/lib/made && rm /var/lib/made"),
    ("ProtectHome", "test -e /home/marker"),
    ("PrivateTmp", "test -e /tmp/marker"),
    ("PrivateMounts", "mount -t tmpfs none /mnt && umount /mnt"),
    ("UMask", "umask | grep 0022"),
    ("InaccessiblePaths", "ls /run/dbus/system_bus_socket"),
    ("InaccessiblePaths", "ls /run/docker.sock/marker"),
    ("InaccessiblePaths", "ls /dev/shm/marker"),
    ("NoNewPrivileges", "grep 'NoNewPrivs:.0' /proc/self/status"),
    ("CapabilityBoundingSet", "cd /var/lib/muster && touch made && chown 65534 made && rm made"),
    ("CapabilityBoundingSet", "cat /proc/1/environ >/dev/null"),
    ("CapabilityBoundingSet", "readlink /proc/1/root"),
    ("RestrictSUIDSGID", "cd /var/lib/muster && cp /bin/true made && chmod 4755 made && rm made"),
    ("PrivateDevices", "test -e /dev/marker"),
    ("ProtectHostname", "hostname other && hostname m1"),
    ("ProtectKernelModules", "ls /usr/lib/modules/x"),
    ("ProtectKernelTunables", "echo 0 >/proc/sys/net/ipv4/ip_forward"),
    ("LockPersonality", "setarch --addr-no-randomize true"),
    ("RestrictNamespaces", "unshare --net true"),
    ("RestrictNamespaces", "unshare --user true"),
    ("SystemCallFilter", "renice -n 5 -p $$"),
    ("SystemCallErrorNumber", "renice -n 5 -p $$ || test $? != 1"),
    ("MemoryDenyWriteExecute", WRITABLE_CODE),
    ("RestrictAddressFamilies", "perl -e 'socket(my $s, 17, 3, 0) or die $!'"),
];

/// Maps memory that is writable and executable, by the number of the call on this architecture.
const WRITABLE_CODE: &str = "perl -e 'my $n = `uname -m` =~ /x86_64/ ? 9 : 222; my $p = syscall($n, 0, 4096, 7, 34, -1, 0); exit($p == -1)'";

/// Directives of `observe.conf` without an attempt, with the reason.
const WITHOUT_ATTEMPT: &[(&str, &str)] = &[
    (
        "AmbientCapabilities",
        "empty by default; the attempt of CapabilityBoundingSet shows that there are none",
    ),
    ("ProtectClock", "root of a container cannot set the clock of its host"),
    ("ProtectControlGroups", "the control groups of a container cannot be written at this place"),
    ("RestrictRealtime", "root of a container gets no real-time priority"),
    ("ProtectKernelLogs", "root of a container cannot read the log of its host's kernel"),
    ("SystemCallArchitectures", "no program of another architecture is installed"),
];

/// Capabilities and limits of the daemon itself, by a command that prints them from `/proc/PID/status` and `/proc/PID/limits`.
const DAEMON_STATUS: &str = "pid=$(systemctl show -P MainPID rpcd); grep -E '^(CapEff|CapBnd|CapAmb|NoNewPrivs|Seccomp):' /proc/$pid/status | tr '\\t\\n' '  '; \
    grep 'Max core' /proc/$pid/limits | tr -s ' '; stat -c '%n %a %U' /var/lib/muster /var/log/muster /run/muster";

async fn run_script(nodes: &MachineNodes, script: &str) -> (bool, String) {
    let reply = nodes.call("m1", &["shell", "run", &format!("script={script}")]).await;
    (reply["data"]["exitcode"] == 0, format!("{reply:#}"))
}

/// The names of the directives in the section `Service` of a unit.
fn list_directives(unit: &str) -> BTreeSet<&str> {
    let (_, service) = unit.split_once("[Service]").unwrap();
    let lines = service.lines().filter(|line| !line.starts_with(['#', ' ']));
    lines.filter_map(|line| line.split_once('=').map(|(name, _)| name)).collect()
}

#[test]
fn every_restriction_has_an_attempt() {
    let known: BTreeSet<&str> =
        ATTEMPTS.iter().chain(WITHOUT_ATTEMPT).map(|(directive, _)| *directive).collect();
    assert_eq!(list_directives(OBSERVE), known);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_restriction_of_observe_conf_refuses_its_attempt() {
    let options = NodeOptions { configuration: CONFIGURATION, ..NodeOptions::default() };
    let Some(nodes) = MachineNodes::start(1, options).await else { return };
    let machines = &nodes.machines;
    machines.sh("m1", PREPARE).await;
    let mut problems = Vec::new();
    for (directive, script) in ATTEMPTS {
        let (is_successful, reply) = run_script(&nodes, script).await;
        if !is_successful {
            problems.push(format!("{directive}: fails without the directive: {script}: {reply}"));
        }
    }
    machines.sh("m1", INSTALL).await;
    nodes.await_answers(1).await;
    for (directive, script) in ATTEMPTS {
        let (is_successful, reply) = run_script(&nodes, script).await;
        if is_successful {
            problems.push(format!("{directive}: not in effect: {script}: {reply}"));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    let status = machines.sh("m1", DAEMON_STATUS).await;
    // Only CAP_DAC_READ_SEARCH, which is capability 2.
    for part in [
        "CapEff: 0000000000000004",
        "CapBnd: 0000000000000004",
        "CapAmb: 0000000000000000",
        "NoNewPrivs: 1",
        "Seccomp: 2",
    ]
    .iter()
    .chain(&DAEMON_LIMITS)
    {
        assert!(status.contains(part), "{part}: {status}");
    }
}

/// What both units limit: core files, and access to the directories.
const DAEMON_LIMITS: [&str; 4] = [
    "Max core file size 0 0",
    "/var/lib/muster 700 root",
    "/var/log/muster 750 root",
    "/run/muster 755 root",
];

/// What `rpcd.service` restricts without a drop-in: no core dump, no obsolete call, no rare network, private directories.
#[tokio::test(flavor = "multi_thread")]
async fn plain_unit_keeps_what_it_promises() {
    let options = NodeOptions { configuration: CONFIGURATION, ..NodeOptions::default() };
    let Some(nodes) = MachineNodes::start(1, options).await else { return };
    let machines = &nodes.machines;
    let families = UNIT.lines().find_map(|line| line.strip_prefix("RestrictAddressFamilies=~"));
    assert_eq!(
        families.unwrap().split(' ').count(),
        12,
        "a family without an attempt: {families:?}"
    );
    // 4 is IPX, 5 AppleTalk, 8 ATM, 9 X.25, 21 RDS: EAFNOSUPPORT is 97.
    for family in [4, 5, 8, 9, 21] {
        let script = format!("perl -e 'socket(my $s, {family}, 2, 0); exit($! + 0)'");
        let reply = nodes.call("m1", &["shell", "run", &format!("script={script}")]).await;
        assert_eq!(reply["data"]["exitcode"], 97, "{family}: {reply:#}");
    }
    let status = machines.sh("m1", DAEMON_STATUS).await;
    for part in ["Seccomp: 2"].iter().chain(&DAEMON_LIMITS) {
        assert!(status.contains(part), "{part}: {status}");
    }
    let files =
        "find /var/lib/muster /etc/muster /run/muster -not -type l -perm /022 -printf '%p %m\\n'";
    assert_eq!(machines.sh("m1", files).await, "", "files that others can change");
}

/// The exposure of the unit with the drop-in is low, and that of the broker's unit, too.
#[test]
fn documented_exposure_is_below_a_bound() {
    let (_, rows) = documented_scores();
    for (drop_ins, score) in rows {
        let bound = if drop_ins.is_empty() { 9.5 } else { 2.5 };
        assert!(score <= bound, "{drop_ins:?}: {score}");
    }
}

/// What an unprivileged user of the machine tries against the daemon. Each script succeeds if the attempt does.
const LOCAL_ATTEMPTS: &[&str] = &[
    "ls /var/lib/muster",
    "ls /var/log/muster",
    "touch /var/lib/muster/made",
    "touch /etc/muster/made",
    "touch /etc/muster/policies/made.policy",
    "touch /run/muster/made",
    "ln -s /etc/shadow /run/muster/link",
    "mkfifo /var/lib/muster/again/requests/0.json",
    "/usr/sbin/rpcd again || /usr/local/sbin/rpcd again",
    "rpcd again --cancel",
    "PATH=$PATH:/usr/sbin rpcd again --state-dir /var/lib/muster",
    "cat /proc/$PID/environ",
    "cat /proc/$PID/maps",
    "ls /proc/$PID/fd/",
    "ls /proc/$PID/cwd/",
    "ls /proc/$PID/root/",
    "dd if=/proc/$PID/mem count=0",
    "kill -0 $PID",
    "kill -HUP $PID",
    "renice -n 19 -p $PID",
    "prlimit --pid $PID --nofile=1",
    "systemctl restart rpcd",
    "systemd-notify --pid=$PID READY=1",
];

#[tokio::test(flavor = "multi_thread")]
async fn local_user_reaches_nothing_of_the_daemon() {
    let options = NodeOptions { configuration: CONFIGURATION, ..NodeOptions::default() };
    let Some(nodes) = MachineNodes::start(1, options).await else { return };
    let machines = &nodes.machines;
    let pid = machines.sh("m1", "systemctl show -P MainPID rpcd").await;
    let mut passed = Vec::new();
    for attempt in LOCAL_ATTEMPTS {
        let script = format!(
            "PID={pid} timeout 20 setpriv --reuid 65534 --regid 65534 --clear-groups sh -c '{attempt}' 2>&1"
        );
        let output = machines.run("m1", &script).await;
        if output.status.success() {
            passed.push(format!("{attempt}: {}", String::from_utf8_lossy(&output.stdout)));
        }
    }
    assert!(passed.is_empty(), "{}", passed.join("\n"));
    // Each file that is there, as root sees it.
    let find = "find /var/lib/muster /var/log/muster /etc/muster/*.creds -type f";
    let files = machines.sh("m1", find).await.replace('\n', " ");
    for name in ["/etc/muster/node.creds", "/var/lib/muster/"] {
        assert!(files.contains(name), "{name}: {files}");
    }
    let read = format!(
        "setpriv --reuid 65534 --regid 65534 --clear-groups sh -c 'for file in {files}; do cat $file && echo read $file; done' 2> /dev/null || true"
    );
    assert_eq!(machines.sh("m1", &read).await, "", "files that a local user can read");
    assert_eq!(machines.sh("m1", "systemctl show -P MainPID rpcd").await, pid);
}
