//! The state of subsystems in the records of nodes: Puppet, the ledger of refreshes, and the host keys of sshd.

use std::time::Duration;

use muster_tests::command::{describe_output, find_program};
use muster_tests::poll_until_ok;
use muster_tests::rpcd::DaemonHome;
use muster_wire::sign::Signer;
use serde_json::json;

use super::fixture::{DirectoryFixture, FleetNode, lines};

const SUMMARY: &str = "---\nversion:\n  config: 1795314054\n  puppet: 7.23.0\napplication:\n  converged_environment: production\n\
    resources:\n  changed: 2\n  failed: 1\n  out_of_sync: 3\n  total: 120\ntime:\n  config_retrieval: 0.5\n  last_run: 1699999400\n\
    events:\n  failure: 1\n  noop: 4\n  total: 7\n";
const DISABLED: &str = "root/var/cache/puppet/state/agent_disabled.lock";
const KEY_QUERY: &str = "{'state.ssh.host_keys': 'ecdsa CCCC'}";
const DISABLED_QUERY: &str = "{'state.puppet.disabled': true}";

/// A node with Puppet's files, host keys and an empty ledger below its own root.
fn start_puppet_node(fleet: &DirectoryFixture) -> FleetNode {
    let signer = fleet.organisation.node("db1.acme.net");
    let daemon = puppet_home(fleet, &signer).start();
    FleetNode { signer, daemon }
}

fn puppet_home(fleet: &DirectoryFixture, signer: &Signer) -> DaemonHome {
    let home = fleet.node_home(signer, "{}", "");
    let root = format!("[paths]\nroot = \"{}\"\n", home.path("root").display());
    home.write("conf.d/root.toml", &root, 0o644);
    // Puppet has the directories of its package in this root.
    home.write("conf.d/00-puppet.toml", "", 0o644);
    home.write("root/var/cache/puppet/public/last_run_summary.yaml", SUMMARY, 0o644);
    home.write("root/var/cache/puppet/state/.keep", "", 0o644);
    home.write("root/etc/ssh/ssh_host_rsa_key.pub", "ssh-rsa BBBB root@db1\n", 0o644);
    home.write("root/etc/ssh/ssh_host_ed25519_key.pub", "ssh-ed25519 AAAA root@db1\n", 0o644);
    home
}

async fn await_found(fleet: &DirectoryFixture, method: &str, query: &str, names: &[&str]) {
    poll_until_ok(query, Duration::from_mins(1), async || {
        let output = fleet.rpc.run(&["find", "--dm", method, "-Q", query]).await;
        if lines(&output.stdout) == names { Ok(()) } else { Err(describe_output(&output)) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn state_of_puppet_and_sshd_is_shown_queried_and_counted() {
    let fleet = DirectoryFixture::start().await;
    let _directory = fleet.start_directory("dir1.acme.net", "directory1");
    let node = start_puppet_node(&fleet);
    fleet.await_present(&["db1.acme.net", "dir1.acme.net"]).await;

    let (document, code) = fleet.rpc.run_json(&["node", "db1.acme.net", "--verify"]).await;
    assert_eq!((code, &document["verified"]), (0, &json!(true)), "{document:#}");
    let puppet = &document["state"]["puppet"];
    assert_eq!(puppet["disabled"], false, "{document:#}");
    let run = json!({
        "class": "failed+changed", "time": 1_699_999_400, "ended": 1_699_999_400_000_u64, "failed": 1, "noop": 4, "total": 120, "changed": 2,
        "out_of_sync": 3, "config_version": "1795314054", "environment": "production",
    });
    assert_eq!(puppet["last_run"], run, "{document:#}");
    assert_eq!(document["ssh_host_keys"], json!(["ssh-ed25519 AAAA", "ssh-rsa BBBB"]));
    let output = fleet.rpc.run(&["node", "db1.acme.net"]).await;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("ssh host key") && text.contains("ssh-ed25519 AAAA"), "{text}");
    let state = text.split_once("State:\n").unwrap_or_default().1;
    assert!(state.contains("  puppet:\n") && state.contains("failed+changed"), "{text}");

    // An exported inventory has the state on request.
    let file = fleet.rpc.path("fleet.json");
    let export = ["inventory", "--export", file.to_str().unwrap(), "--with-state"];
    let exported = fleet.rpc.run(&export).await;
    assert!(exported.status.success(), "{}", describe_output(&exported));
    let option = format!("file={}", file.display());
    let query = "{'state.puppet.last_run.class': 'failed+changed'}";
    let found = fleet.rpc.run(&["find", "--dm", "inventory", "--do", &option, "-Q", query]).await;
    assert_eq!(lines(&found.stdout), ["db1.acme.net"], "{}", describe_output(&found));

    // The directory and the node itself give the same answers.
    for method in ["directory", "mc"] {
        let db1 = &["db1.acme.net"][..];
        await_found(&fleet, method, DISABLED_QUERY, &[]).await;
        await_found(&fleet, method, "{'state.puppet.last_run.failed': {$gt: 0}}", db1).await;
        await_found(&fleet, method, "{'state.ssh.host_keys': 'ssh-rsa BBBB'}", db1).await;
    }
    let fields = "state.puppet.disabled,state.puppet.last_run.environment";
    let (document, _) =
        fleet.rpc.run_json(&["nodes", "-I", "db1.acme.net", "--fields", fields]).await;
    let values =
        json!({"state.puppet.disabled": false, "state.puppet.last_run.environment": "production"});
    assert_eq!(document["nodes"][0]["fields"], values);

    // A change is known without a restart or a reload.
    node.daemon.home().write(DISABLED, r#"{"disabled_message": "hand hacking"}"#, 0o644);
    for method in ["directory", "mc"] {
        await_found(&fleet, method, DISABLED_QUERY, &["db1.acme.net"]).await;
    }
    let facets = ["nodes", "-I", "db1.acme.net", "--facets", "state.puppet.disable_message"];
    let output = fleet.rpc.run(&facets).await;
    assert_eq!(lines(&output.stdout), ["NODES  VALUE", "1      hand hacking"]);
}

/// States that change during each run are written less often than other changes. The example is another key of sshd.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn change_of_state_alone_waits_for_its_own_interval() {
    let fleet = DirectoryFixture::start().await;
    let _directory = fleet.start_directory("dir1.acme.net", "directory1");
    let mut node = start_puppet_node(&fleet);
    node.daemon.kill_and_wait();
    let home = node.daemon.home().clone();
    let options = "[registration]\nmin_interval_seconds = 0\nstate_interval_seconds = 3600\n";
    home.write("conf.d/zz-interval.toml", options, 0o644);
    node.daemon = home.clone().start();
    fleet.await_present(&["db1.acme.net", "dir1.acme.net"]).await;
    home.write("root/etc/ssh/ssh_host_ecdsa_key.pub", "ecdsa CCCC root@db1\n", 0o644);
    await_found(&fleet, "mc", KEY_QUERY, &["db1.acme.net"]).await;
    await_found(&fleet, "directory", KEY_QUERY, &[]).await;

    // A changed fact is written at once, with the state.
    home.write("facts.d/site.json", r#"{"tier": "test"}"#, 0o644);
    await_found(&fleet, "directory", KEY_QUERY, &["db1.acme.net"]).await;
    await_found(&fleet, "directory", "{'facts.tier': 'test'}", &["db1.acme.net"]).await;
}

/// With the intervals of a package, no answer waits for them: classes and facts are read every five minutes, and other changes of the state are published every
/// five minutes.
#[expect(clippy::disallowed_types, reason = "runs the real program")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_are_known_at_once_with_the_default_intervals() {
    let fleet = DirectoryFixture::start().await;
    let _directory = fleet.start_directory("dir1.acme.net", "directory1");
    let defaults = "[registration]\nheartbeat_seconds = 60\nmin_interval_seconds = 10\nstate_interval_seconds = 300\n";
    let home = puppet_home(&fleet, &fleet.organisation.node("db1.acme.net"));
    home.write("conf.d/zz-interval.toml", defaults, 0o644);
    let _node = home.clone().start();
    let checked = fleet.node_home(&fleet.organisation.node("web1.acme.net"), "{}", "");
    let path = |name: &str| checked.path(name).display().to_string();
    let (config, schedules) = (path("nrpe.cfg"), path("checks.d"));
    let options =
        format!("{defaults}[plugins.nrpe]\nconfig = \"{config}\"\nschedules = \"{schedules}\"\n");
    checked.write("conf.d/zz-interval.toml", &options, 0o644);
    checked.write("nrpe.cfg", &format!("command[disk]={}\n", path("disk")), 0o644);
    checked.write("disk", "#!/bin/sh\necho full; exit 2\n", 0o755);
    let _checked_node = checked.clone().start();
    fleet.await_present(&["db1.acme.net", "dir1.acme.net", "web1.acme.net"]).await;
    let (db1, web1) = (&["db1.acme.net"][..], &["web1.acme.net"][..]);

    home.write("classes.txt", "apache\n", 0o644);
    await_found(&fleet, "directory", "{classes: 'apache'}", db1).await;
    home.write("facts.d/site.json", r#"{"tier": "test"}"#, 0o644);
    await_found(&fleet, "directory", "{'facts.tier': 'test'}", db1).await;
    home.write(DISABLED, r#"{"disabled_message": "hand hacking"}"#, 0o644);
    await_found(&fleet, "directory", DISABLED_QUERY, db1).await;
    let schedule = "[[checks]]\nname = \"disk\"\ncommand = \"disk\"\ninterval = \"1h\"\nsplay = false\nmax_attempts = 1\n";
    checked.write("checks.d/disk.toml", schedule, 0o644);
    await_found(&fleet, "directory", "{'state.checks.critical': 1}", web1).await;

    // A run that no daemon has started.
    let catalog = json!([{"type": "file", "title": home.path("motd"), "content": "hello"}]);
    home.write("catalog.json", &catalog.to_string(), 0o644);
    let mut apply = std::process::Command::new(find_program("rpcd"));
    apply.arg("apply").arg(home.path("catalog.json"));
    let applied = apply.arg("--state-dir").arg(home.path("state/engine")).output().unwrap();
    assert!(applied.status.success(), "{}", describe_output(&applied));
    await_found(&fleet, "directory", "{'state.puppet.last_run.class': 'changed'}", db1).await;
}
