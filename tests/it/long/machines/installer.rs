//! `install.sh` on a booted machine: broker, client and node of one tarball work together, an upgrade restarts the daemon and keeps its configuration,
//! and a removal stops the services.

use muster_tests::poll_until_ok;
use tempfile::TempDir;

use super::install::{LIST_FILES, USER_DATABASE};
use crate::installer::write_release;
use crate::machines::RECOVERY_TIMEOUT;
use crate::machines::fleet::{MachineFleet, MachineLayers};

const INSTALL: &str =
    "sh /srv/release/install.sh --role client --role node --role broker </dev/null";

/// Makes an organisation with the broker, a user and a node on this machine.
const SET_UP: &str = r"
set -e; export HOME=/root MUSTER_ORG=/root/acme; cd
rpc org init acme --name acme --host m1.example.net --quiet
rpc broker config --bundle /etc/muster-broker
systemctl start muster-broker
until rpc org push; do sleep 1; done
rpc org add user rip --bundle /root/.config/muster
rpc org add node m1.example.net --bundle /etc/muster
systemctl start rpcd
";

/// What a removal keeps, and what the operator created.
const KEPT: [&str; 6] = [
    "/etc/muster",
    "/etc/muster-broker",
    "/etc/logrotate.d/muster-node",
    "/var/lib/muster",
    "/var/log/muster",
    "/root",
];

/// The process ids of daemon and broker.
async fn read_pids(machines: &MachineFleet) -> [String; 2] {
    let pids = machines.sh("m1", "systemctl show -P MainPID rpcd muster-broker").await;
    let mut pids = pids.split_whitespace().map(str::to_owned);
    [pids.next().unwrap(), pids.next().unwrap()]
}

#[tokio::test(flavor = "multi_thread")]
async fn tarball_makes_broker_client_and_node() {
    let layer = TempDir::new().unwrap();
    let release = layer.path().join("srv/release");
    std::fs::create_dir_all(&release).unwrap();
    write_release(&release);
    let layers =
        MachineLayers { directories: vec![layer.path().to_owned()], ..MachineLayers::default() };
    let Some(machines) = MachineFleet::boot(1, &layers).await else { return };
    let before = machines.sh("m1", LIST_FILES).await;

    // Without configuration nothing starts, and that is not a failure.
    machines.sh("m1", INSTALL).await;
    let states = "systemctl is-enabled rpcd muster-broker; systemctl --failed --no-legend --plain";
    assert_eq!(machines.sh("m1", states).await, "enabled\nenabled");
    assert_eq!(read_pids(&machines).await, ["0", "0"]);
    machines.sh("m1", SET_UP).await;
    let answers = "HOME=/root rpc ping | grep '^m1.example.net .*time='";
    machines.await_script("m1", answers).await;

    // The running daemon has another program than the release.
    let change = "cd /usr/local/sbin && cp rpcd other && printf x >>other && mv other rpcd";
    machines.sh("m1", change).await;
    let list = "find /etc/muster /etc/muster-broker -type f -exec sha256sum {} + | sort";
    let configuration = machines.sh("m1", list).await;
    let [daemon, broker] = read_pids(&machines).await;
    machines.sh("m1", INSTALL).await;
    poll_until_ok("the daemon is a new one", RECOVERY_TIMEOUT, async || {
        let [now, _] = read_pids(&machines).await;
        if now != daemon && now != "0" { Ok(()) } else { Err(now) }
    })
    .await;
    machines.await_script("m1", answers).await;
    assert_eq!(machines.sh("m1", list).await, configuration);
    let pids = read_pids(&machines).await;
    assert_eq!(pids[1], broker, "the broker was restarted");
    let printed = machines.sh("m1", INSTALL).await;
    assert!(printed.contains("node 0.1.0 is installed already"), "{printed}");
    assert_eq!(read_pids(&machines).await, pids);

    machines.sh("m1", "sh /srv/release/install.sh --uninstall").await;
    assert_eq!(machines.sh("m1", "pgrep rpcd; pgrep nats-server; true").await, "");
    let after = machines.sh("m1", LIST_FILES).await;
    let known: Vec<&str> = before.lines().chain(USER_DATABASE).collect();
    let is_kept = |path: &str| KEPT.iter().any(|kept| path.starts_with(kept));
    let left: Vec<&str> =
        after.lines().filter(|path| !known.contains(path) && !is_kept(path)).collect();
    assert!(left.is_empty(), "left by the installation: {left:#?}");
}
