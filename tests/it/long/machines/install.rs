//! Packages on real machines: installed by apt, enrolled by one command, upgraded under load, purged.

use std::time::Instant;

use futures_util::future::join_all;
use muster_tests::poll_until_ok;

use crate::machines::RECOVERY_TIMEOUT;
use crate::machines::apt_repository::{AptRepository, INSTALL_NODE, use_version};
use crate::machines::fleet::{MachineFleet, MachineLayers};
use crate::machines::load::{RequestLoad, compare_records, connect_client};
use crate::machines::nodes::{count_answers, node_name};
use crate::machines::organisation::OperatorHost;

/// A provisioner for a fleet without Puppet.
const PROVISIONER: &str = "[plugins.provisioner]\npuppet = false\n";

/// All files of a machine, except those of apt, dpkg and the running system.
pub(super) const LIST_FILES: &str = "find / -xdev \\( -path /proc -o -path /sys -o -path /dev -o -path /run -o -path /tmp -o -path /var/tmp \
    -o -path /var/cache -o -path /var/log/apt -o -path /var/lib/apt -o -path /var/lib/dpkg -o -path /var/lib/systemd/timers \\) \
    -prune -o -print | sort";
/// What useradd leaves behind: backups and a lock of the user database.
pub(super) const USER_DATABASE: [&str; 7] = [
    "/etc/.pwd.lock",
    "/etc/passwd-",
    "/etc/group-",
    "/etc/shadow-",
    "/etc/gshadow-",
    "/etc/subuid-",
    "/etc/subgid-",
];

/// Boots machines that have the repositories, and nothing of ours.
async fn boot_bare(count: usize, versions: &[&str]) -> Option<(MachineFleet, AptRepository)> {
    let repository = AptRepository::with_versions(versions);
    let layers =
        MachineLayers { directories: vec![repository.layer()], ..MachineLayers::default() };
    let machines = MachineFleet::boot(count, &layers).await?;
    Some((machines, repository))
}

/// Installs the provisioner's host on `m1`.
async fn install_provisioner(machines: &MachineFleet, operator: &OperatorHost) {
    operator.run_successfully(&["provision", "host", "provisioner", "--out", "provisioner"]).await;
    let bundle = operator.add_node(&node_name("m1"), PROVISIONER).await;
    machines.copy("m1", &bundle, "/etc/muster").await;
    machines.copy("m1", &operator.path("provisioner"), "/etc/muster/provisioner").await;
    machines
        .sh("m1", "mv /etc/muster/provisioner/provisioner.toml /etc/muster/conf.d/provisioner.toml")
        .await;
    machines.sh("m1", INSTALL_NODE).await;
    operator.run_successfully(&["org", "push"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn installed_by_apt_enrolled_by_one_command_and_purged() {
    let Some((machines, _repository)) = boot_bare(2, &["0.1.0"]).await else { return };
    let operator = OperatorHost::start(&machines.host).await;
    for machine in ["m1", "m2"] {
        use_version(&machines, machine, "0.1.0").await;
    }
    install_provisioner(&machines, &operator).await;

    // On a fresh machine the package starts nothing: it is not a node yet, and that is not a failure.
    let before = machines.sh("m2", LIST_FILES).await;
    machines.sh("m2", INSTALL_NODE).await;
    assert_eq!(machines.sh("m2", "systemctl is-enabled rpcd").await, "enabled");
    assert_eq!(machines.sh("m2", "systemctl show -P ActiveState rpcd").await, "inactive");
    assert_eq!(machines.sh("m2", "systemctl --failed --no-legend --plain").await, "");

    // The one command of the operator, piped to the shell of the machine.
    operator
        .run_successfully(&["provision", "token", "--names", "m*.example.net", "--out", "m.creds"])
        .await;
    let script = operator
        .run_successfully(&[
            "provision",
            "user-data",
            "--token",
            "m.creds",
            "--shell",
            "--set",
            "identity=m2.example.net",
        ])
        .await;
    machines.pipe("m2", &script).await;
    let answers = count_answers(&operator, 2).await;
    assert!(answers.contains("m2.example.net"), "{answers}");
    poll_until_ok("m2 is provisioned", RECOVERY_TIMEOUT, async || {
        let (document, _) = operator.run_json(&["provision", "status", "m2.example.net"]).await;
        if document["nodes"][0]["state"] == "done" { Ok(()) } else { Err(document) }
    })
    .await;
    assert_eq!(machines.sh("m2", "stat -c '%a %U' /etc/muster/bootstrap.creds").await, "600 root");

    machines.sh("m2", "DEBIAN_FRONTEND=noninteractive apt-get -q -y purge muster-node").await;
    let after = machines.sh("m2", LIST_FILES).await;
    let known: Vec<&str> = before.lines().chain(USER_DATABASE).collect();
    let left: Vec<&str> = after.lines().filter(|path| !known.contains(path)).collect();
    assert!(left.is_empty(), "left by the package: {left:#?}");
    machines.sh("m2", "! getent passwd muster-agent && ! getent group muster-agent").await;
    machines.sh("m2", "! ls -d /run/muster /var/log/muster /var/lib/dpkg/info/muster* 2>&-").await;
    assert_eq!(
        machines.sh("m2", "systemctl list-unit-files --no-legend 'rpcd*' || true").await,
        ""
    );
    assert_eq!(machines.sh("m2", "pgrep rpcd || true").await, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn upgrade_of_ten_machines_under_fifty_requests_a_second_reports_every_request() {
    const MACHINES: usize = 10;
    let Some((machines, _repository)) = boot_bare(MACHINES, &["0.1.0", "0.2.0"]).await else {
        return;
    };
    let operator = OperatorHost::start(&machines.host).await;
    let names: Vec<String> = machines.names().iter().map(|name| (*name).to_owned()).collect();
    join_all(names.iter().map(async |machine| {
        let bundle =
            operator.add_node(&node_name(machine), "[plugins.shell]\nenabled = true\n").await;
        machines.copy(machine, &bundle, "/etc/muster").await;
        use_version(&machines, machine, "0.1.0").await;
        machines.sh(machine, INSTALL_NODE).await;
    }))
    .await;
    count_answers(&operator, MACHINES).await;
    let pids = main_pids(&machines, &names).await;

    let load = RequestLoad::start(connect_client(&operator).await, names.clone(), 50);
    let started = Instant::now();
    join_all(names.iter().map(async |machine| {
        use_version(&machines, machine, "0.2.0").await;
        machines.sh(machine, INSTALL_NODE).await;
        let version = machines.sh(machine, "dpkg-query -W -f '${Version}' muster-node").await;
        assert_eq!(version, "0.2.0", "{machine}");
    }))
    .await;
    poll_until_ok("each daemon is a new one", RECOVERY_TIMEOUT, async || {
        let now = main_pids(&machines, &names).await;
        let unchanged: Vec<_> = now.iter().zip(&pids).filter(|(new, old)| new == old).collect();
        if unchanged.is_empty() { Ok(()) } else { Err(format!("{unchanged:?}")) }
    })
    .await;
    count_answers(&operator, MACHINES).await;
    let elapsed = started.elapsed();
    let records = load.finish().await;
    let summary = compare_records(&machines, &records).await;
    println!(
        "upgraded {MACHINES} machines in {elapsed:?} under {} requests: {summary:?}",
        records.len()
    );
    assert!(records.len() >= 100, "{} requests in {elapsed:?}", records.len());
    // A daemon is away while it restarts; how long that is depends on what else this machine does.
    let answered = summary.succeeded * 100 / records.len();
    assert!(answered >= 80, "{answered} % of {} requests succeeded: {summary:?}", records.len());
}

async fn main_pids(machines: &MachineFleet, names: &[String]) -> Vec<String> {
    let pids = names.iter().map(|machine| machines.sh(machine, "systemctl show -P MainPID rpcd"));
    join_all(pids).await
}
