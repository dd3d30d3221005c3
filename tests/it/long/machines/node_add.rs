//! `rpc node add --ssh`: machines that run already become nodes; those that cannot are named with the reason, and are not changed.

#![expect(clippy::indexing_slicing, reason = "the machines are known; tests end by panic")]

use std::fmt::Write as _;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

use muster_tests::command::describe_output;

use crate::machines::fleet::{MachineFleet, MachineLayers};
use crate::machines::nodes::{build_packages, count_answers, node_name, permit_ssh_logins};
use crate::machines::organisation::OperatorHost;
use crate::parity::print_line;

const VERSION: &str = "0.1.0";

/// Machines with sshd, which the operator's host knows, and an organisation whose nodes permit everything.
struct AddFixture {
    machines: MachineFleet,
    operator: OperatorHost,
    /// Options of OpenSSH for `rpc`.
    login: Vec<String>,
}

impl AddFixture {
    async fn start(count: usize) -> Option<Self> {
        let machines = MachineFleet::boot(count, &MachineLayers::default()).await?;
        let operator = OperatorHost::start(&machines.host).await;
        let key = permit_ssh_logins(&machines, &operator).await;
        let mut known = String::new();
        for name in machines.names() {
            let keys = machines.sh(name, "cut -d' ' -f1,2 /etc/ssh/ssh_host_ed25519_key.pub").await;
            writeln!(known, "{} {keys}", machines.machines[name]).unwrap();
        }
        let known_hosts = operator.path("known_hosts");
        std::fs::write(&known_hosts, known).unwrap();
        let policies = operator.path("acme/site/policies");
        std::fs::create_dir_all(&policies).unwrap();
        std::fs::write(policies.join("default.policy"), "policy default allow\n").unwrap();
        let facts = operator.path("acme/site/facts.d");
        std::fs::create_dir_all(&facts).unwrap();
        std::fs::write(facts.join("rack"), "#!/bin/sh\necho rack=r7\n").unwrap();
        std::fs::set_permissions(facts.join("rack"), Permissions::from_mode(0o755)).unwrap();
        let options = [
            format!("IdentityFile={}", key.display()),
            "IdentitiesOnly=yes".to_owned(),
            format!("UserKnownHostsFile={}", known_hosts.display()),
            "GlobalKnownHostsFile=/dev/null".to_owned(),
        ];
        let login = options.into_iter().flat_map(|option| ["-o".to_owned(), option]).collect();
        Some(Self { machines, operator, login })
    }

    /// `NAME=root@ADDRESS`
    fn argument(&self, machine: &str) -> String {
        format!("{}=root@{}", node_name(machine), self.machines.machines[machine])
    }

    /// Runs `rpc node add --ssh` for these machines with the packages; returns what it printed, and its exit code.
    async fn add(&self, hosts: &[String], more: &[&str]) -> (String, i32) {
        let packages = build_packages(VERSION);
        let mut arguments = vec!["node", "add", "--ssh"];
        arguments.extend(hosts.iter().map(String::as_str));
        arguments.extend(self.login.iter().map(String::as_str));
        arguments.extend(more);
        if !more.contains(&"--from") {
            arguments.extend(["--from", packages.to_str().unwrap()]);
        }
        let output = self.operator.run(&arguments).await;
        (describe_output(&output), output.status.code().unwrap())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_machines_become_nodes_by_one_command() {
    const MACHINES: usize = 50;
    let Some(fixture) = AddFixture::start(MACHINES).await else { return };
    let hosts: Vec<String> =
        fixture.machines.names().into_iter().map(|name| fixture.argument(name)).collect();
    let list = fixture.operator.path("machines.txt");
    std::fs::write(&list, format!("# the fleet\n\n{}\n", hosts.join("\n"))).unwrap();
    let started = std::time::Instant::now();
    let (text, code) = fixture.add(&[], &["--hosts-file", list.to_str().unwrap()]).await;
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("50 of 50 machines added"), "{text}");
    print_line(&format!("{MACHINES} machines in {:.0} s", started.elapsed().as_secs_f64()));
    count_answers(&fixture.operator, MACHINES).await;
    let (changed, _) =
        fixture.operator.run_json(&["do", "puppetral", "type=user", "name=anna", "--yes"]).await;
    assert_eq!(changed["replies"].as_array().unwrap().len(), MACHINES, "{changed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn machines_that_cannot_be_added_are_named_and_unchanged() {
    let Some(fixture) = AddFixture::start(6).await else { return };
    let machines = &fixture.machines;
    // Another host key than the known one, as of a machine in the middle.
    machines.sh("m2", "rm /etc/ssh/ssh_host_* && ssh-keygen -A && systemctl restart ssh").await;
    // No root and no sudo.
    machines
        .sh(
            "m3",
            "useradd -m plain && cp -r /root/.ssh /home/plain/ && chown -R plain /home/plain/.ssh",
        )
        .await;
    // A node of another organisation.
    let foreign = "identity = \"m4.example.net\"\n[trust]\noperator = \"OOTHER\"\n";
    machines
        .sh(
            "m4",
            &format!("mkdir -p /etc/muster && printf '%s' '{foreign}' >/etc/muster/rpcd.toml"),
        )
        .await;
    // Off.
    machines.sh("m5", "sync").await;
    machines.cut_power(&["m5"]).await;
    let plain = format!("m3.example.net=plain@{}", machines.machines["m3"]);
    let hosts = ["m1", "m2", "m4", "m5", "m6"]
        .map(|name| fixture.argument(name))
        .into_iter()
        .chain([plain]);
    let hosts: Vec<String> = hosts.collect();
    let (text, code) = fixture.add(&hosts, &[]).await;
    assert_eq!(code, 2, "{text}");
    assert!(text.contains("2 of 6 machines added"), "{text}");
    for reason in [
        "Host key verification failed",
        "not root",
        "a node of another organisation",
        "cannot log in",
    ] {
        assert!(text.contains(reason), "{reason}: {text}");
    }
    let unchanged = machines.sh("m4", "cat /etc/muster/rpcd.toml; ls /etc/muster").await;
    assert_eq!(unchanged, format!("{foreign}rpcd.toml"));
    machines.sh("m2", "! test -e /etc/muster && ! dpkg-query -W muster-node 2>/dev/null").await;
    count_answers(&fixture.operator, 2).await;

    // Again, with the program instead of the package on a new machine, and for a node that exists.
    machines.power_on(&["m5"]).await;
    machines.await_script("m5", "systemctl start ssh").await;
    let empty = fixture.operator.path("empty");
    std::fs::create_dir(&empty).unwrap();
    let keys_of = async |name: &str| {
        let (list, _) = fixture.operator.run_json(&["org", "list"]).await;
        let parties = list["parties"].as_array().unwrap();
        parties.iter().filter(|party| party["name"] == name).count()
    };
    assert_eq!(keys_of("m1.example.net").await, 1);
    let hosts = ["m1", "m5"].map(|name| fixture.argument(name));
    let (text, code) = fixture.add(&hosts, &["--from", empty.to_str().unwrap()]).await;
    assert_eq!(code, 0, "{text}");
    // The node keeps its key, and what its package has installed.
    assert_eq!(keys_of("m1.example.net").await, 1);
    machines
        .sh("m1", "! test -e /usr/local/sbin/rpcd && ! test -e /etc/systemd/system/rpcd.service")
        .await;
    let found = fixture.operator.run_successfully(&["find", "-F", "rack=r7"]).await;
    assert_eq!(found.lines().count(), 3, "{found}");

    // One machine twice, whose name it says itself, and a name that a user has: the others are added.
    let address = format!("root@{}", machines.machines["m1"]);
    let taken = format!("rip=root@{}", machines.machines["m6"]);
    let hosts = [address.clone(), taken, address];
    let (text, code) = fixture.add(&hosts, &[]).await;
    assert_eq!(code, 2, "{text}");
    assert!(text.contains("1 of 3 machines added"), "{text}");
    assert!(text.contains("another machine of the list has the name m1.example.net"), "{text}");
    assert!(text.contains("rip"), "{text}");
    assert_eq!(
        machines
            .sh("m5", "systemctl show -P MainPID rpcd | xargs -I{} readlink /proc/{}/exe")
            .await,
        "/usr/local/sbin/rpcd"
    );
    assert_eq!(machines.sh("m5", "stat -c '%a %U' /etc/muster/node.creds").await, "600 root");
    // Nothing of the archive is left.
    machines.sh("m5", "! ls -d /tmp/tmp.* 2>/dev/null").await;
    count_answers(&fixture.operator, 3).await;

    // Without ssh: a line for root's shell on a machine with the package.
    let packages = build_packages(VERSION);
    machines.copy("m6", &packages, "/root/dist").await;
    machines
        .sh("m6", "systemctl stop rpcd && rm -r /etc/muster/rpcd.toml /etc/muster/policies")
        .await;
    let line = fixture.operator.run_successfully(&["node", "add", "m6.example.net"]).await;
    assert_eq!(line.lines().count(), 1, "{line}");
    machines.pipe("m6", &line).await;
    count_answers(&fixture.operator, 3).await;
    machines.sh("m6", "test -e /etc/muster/policies/default.policy").await;
}
