//! `rpc doctor` on an installation that is broken in one of many ways: each is reported with its cause, the exit code, and the next step.

#![expect(clippy::disallowed_types, reason = "runs real programs")]

use std::process::Command;
use std::time::Duration;

use muster_tests::command::{RpcCommand, describe_output};
use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::Organisation;
use muster_tests::rpcd::{DaemonHome, Rpcd};
use muster_tests::{await_state, now, poll_until_ok};
use muster_wire::token::{ServiceRight, UserRole};
use serde_json::Value;

use crate::directory::fixture::DirectoryFixture;

/// What `rpc doctor` has to say.
struct Expected {
    check: &'static str,
    level: &'static str,
    /// A part of the message.
    message: &'static str,
    /// A part of the advice; empty if the message says what to do.
    advice: &'static str,
}

const fn expect(
    check: &'static str,
    level: &'static str,
    message: &'static str,
    advice: &'static str,
) -> Expected {
    Expected { check, level, message, advice }
}

impl Expected {
    fn describes(&self, finding: &Value) -> bool {
        let text = |key: &str| finding.get(key).and_then(Value::as_str).unwrap_or_default();
        text("check") == self.check
            && text("level") == self.level
            && text("message").contains(self.message)
            && text("advice").contains(self.advice)
    }
}

/// Runs the command, and checks that it reports this and ends with this code.
async fn assert_reported(what: &str, rpc: &RpcCommand, code: i32, expected: &Expected) {
    let output = rpc.run(&["doctor", "-j"]).await;
    let document: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let sections = document.get("sections").and_then(Value::as_array).cloned().unwrap_or_default();
    let findings = sections.iter().filter_map(|section| section.get("findings")?.as_array());
    let found = findings.flatten().any(|finding| expected.describes(finding));
    assert!(found, "{what}: {document:#}\n{}", describe_output(&output));
    assert_eq!(output.status.code(), Some(code), "{what}: {document:#}");
}

/// A broker with stores, the account token in them, and one node.
struct Installation {
    organisation: Organisation,
    server: NatsServer,
    _node: Rpcd,
}

impl Installation {
    async fn start() -> Self {
        let organisation = Organisation::new(&["muster"]);
        let server = organisation.start_broker_with_stores().await;
        organisation.publish_account(&server, &organisation.account_token()).await;
        let signer = organisation.node("web1.acme.net");
        let node = DaemonHome::new(&organisation, &signer, &server.url(), "").start();
        let installation = Self { organisation, server, _node: node };
        let rpc = installation.rpc();
        poll_until_ok("the node replies", Duration::from_mins(1), async || {
            let output = rpc.run(&["ping", "--expect", "1"]).await;
            if output.status.success() { Ok(()) } else { Err(describe_output(&output)) }
        })
        .await;
        installation
    }

    /// The files of a new user who may do everything.
    fn rpc(&self) -> RpcCommand {
        RpcCommand::new(&self.server, &self.organisation, &self.organisation.caller("rip"), "")
    }
}

/// Replaces a part of the user's configuration.
fn reconfigure(rpc: &RpcCommand, from: &str, to: &str) {
    let text = std::fs::read_to_string(rpc.path("rpc.toml")).unwrap();
    assert!(text.contains(from), "{from}: {text}");
    rpc.write("rpc.toml", &text.replace(from, to));
}

fn set_mode(rpc: &RpcCommand, name: &str, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(rpc.path(name), std::fs::Permissions::from_mode(mode)).unwrap();
}

/// Breaks a file of a user.
type Break<'a> = Box<dyn Fn(&RpcCommand) + 'a>;

/// Name, deed, exit code and report of each breakage of a user's files.
fn file_breakages<'a>(
    url: &'a str,
    silent_url: &'a str,
    other: &'a Organisation,
) -> Vec<(&'static str, Break<'a>, i32, Expected)> {
    vec![
        (
            "a misspelt setting",
            Box::new(|rpc| reconfigure(rpc, "[trust]", "[trust]\noperatr = \"x\"")),
            0,
            expect("configuration", "warning", "operatr", "correct its spelling"),
        ),
        (
            "no credentials",
            Box::new(|rpc| std::fs::remove_file(rpc.path("caller.creds")).unwrap()),
            1,
            expect("credentials", "error", "caller.creds", "rpc org add user"),
        ),
        (
            "credentials that others can read",
            Box::new(|rpc| set_mode(rpc, "caller.creds", 0o644)),
            1,
            expect("credentials", "error", "chmod 600", ""),
        ),
        (
            "damaged credentials",
            Box::new(|rpc| rpc.write("caller.creds", "-----BEGIN")),
            1,
            expect("credentials", "error", "caller.creds", ""),
        ),
        (
            "a damaged account token",
            Box::new(|rpc| rpc.write("account.jwt", "a.b.c")),
            1,
            expect("trust", "error", "account.jwt", "of the same organisation"),
        ),
        (
            "the account token of another organisation",
            Box::new(|rpc| rpc.write("account.jwt", &other.account_token())),
            1,
            expect("trust", "error", "account.jwt", "of the same organisation"),
        ),
        (
            "a name that does not resolve",
            Box::new(|rpc| reconfigure(rpc, url, "tls://broker.invalid:4222")),
            1,
            expect("name", "error", "broker.invalid", "DNS resolver"),
        ),
        (
            "a port where something else listens",
            Box::new(|rpc| reconfigure(rpc, url, silent_url)),
            1,
            expect("server", "error", "", "nats-server listens on that port"),
        ),
        (
            "another collective",
            Box::new(|rpc| reconfigure(rpc, "collective = \"muster\"", "collective = \"other\"")),
            1,
            expect("connection", "error", "other", ""),
        ),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broken_files_of_a_user_are_reported() {
    let mut fleet = Installation::start().await;
    let healthy = expect("clocks", "ok", "", "");
    assert_reported("nothing is broken", &fleet.rpc(), 0, &healthy).await;
    let url = fleet.server.url();
    let other = Organisation::new(&["muster"]);
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent_url = format!("nats://{}", silent.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = silent.accept().await {
            drop(stream);
        }
    });
    let table = file_breakages(&url, &silent_url, &other);
    for (what, break_it, code, expected) in table {
        let rpc = fleet.rpc();
        break_it(&rpc);
        assert_reported(what, &rpc, code, &expected).await;
    }
    let soon = now() / 1000 + 3600;
    let users = [
        (
            "a user without discovery",
            fleet.organisation.user(UserRole::Caller, "blind", &["agent:service"]),
            expect("permissions", "error", "rpcutil", "--agent rpcutil"),
            1,
        ),
        (
            "a token that expires soon",
            fleet.organisation.user_until(UserRole::Caller, "soon", &["agent:*"], Some(soon)),
            expect("credentials", "warning", "expires", "rpc org add user"),
            0,
        ),
        (
            "an expired token",
            fleet.organisation.user_until(UserRole::Caller, "late", &["agent:*"], Some(1_000_000)),
            expect("credentials", "error", "expired", "rpc org add user"),
            1,
        ),
        (
            "the credentials of a node",
            fleet.organisation.node("web9.acme.net"),
            expect("credentials", "error", "is a node", "the credentials of a user"),
            1,
        ),
    ];
    for (what, user, expected, code) in users {
        let rpc = RpcCommand::new(&fleet.server, &fleet.organisation, &user, "");
        assert_reported(what, &rpc, code, &expected).await;
    }
    let gone = fleet.organisation.caller("gone");
    fleet.organisation.revoke_user(&gone);
    let rpc = RpcCommand::new(&fleet.server, &fleet.organisation, &gone, "");
    let expected = expect("credentials", "error", "revoked", "rpc org add user");
    assert_reported("a revoked user", &rpc, 1, &expected).await;

    let rpc = fleet.rpc();
    drop(fleet.server);
    let expected = expect("connection", "error", "no address accepts", "broker is running");
    assert_reported("no broker", &rpc, 1, &expected).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broken_stores_of_the_broker_are_reported() {
    let mut organisation = Organisation::new(&["muster"]);
    organisation.list_services(ServiceRight::Directory, &["directory1"]);
    let user = |server: &NatsServer| {
        RpcCommand::new(server, &organisation, &organisation.caller("rip"), "")
    };
    let off = organisation.start_broker().await;
    let expected = expect("jetstream", "error", "JetStream is off", "restart it");
    assert_reported("no JetStream", &user(&off), 1, &expected).await;
    let silent = expect("nodes", "error", "no node replies", "rpcd runs on the nodes");
    assert_reported("no node", &user(&off), 1, &silent).await;
    let absent = expect("directory", "error", "no instance of the directory", "directory1");
    assert_reported("no directory", &user(&off), 1, &absent).await;

    let empty = organisation.start_broker_with_stores().await;
    let expected = expect("jetstream", "error", "no account token", "rpc org push");
    assert_reported("no push", &user(&empty), 1, &expected).await;

    let fleet = DirectoryFixture::start().await;
    fleet.organisation.publish_account(&fleet.server, &fleet.organisation.account_token()).await;
    let _directory = fleet.start_impatient_directory("dir1.acme.net", "directory1");
    let mut lost = fleet.start_node("web1.acme.net", "{}", "");
    fleet.await_present(&["dir1.acme.net", "web1.acme.net"]).await;
    lost.daemon.kill_and_wait();
    let missing = expect("directory", "warning", "1 is missing", "rpc nodes --missing");
    poll_until_ok("the node is missing", Duration::from_mins(1), async || {
        let output = fleet.rpc.run(&["nodes", "--missing", "-o", "name"]).await;
        if output.stdout.is_empty() { Err(describe_output(&output)) } else { Ok(()) }
    })
    .await;
    assert_reported("a missing node", &fleet.rpc, 0, &missing).await;
}

/// Name, file, text, mode and report of each node with a broken file. On this port of this machine something else listens.
fn node_breakages(port: u16) -> [(&'static str, &'static str, String, u32, Expected); 5] {
    let metrics = format!("[metrics]\nlisten = \"127.0.0.1:{port}\"\n");
    [
        (
            "policy.acme.net",
            "policies/service.policy",
            "policy default deny\nalow\t*\t*\t*\t*\n".to_owned(),
            0o644,
            expect("policies", "error", "service.policy:2", "rpcd --check"),
        ),
        (
            "group.acme.net",
            "policies/groups",
            "op/s rip\n".to_owned(),
            0o644,
            expect("policies", "error", "groups", "rpcd --check"),
        ),
        (
            "fact.acme.net",
            "facts.d/broken.json",
            "{".to_owned(),
            0o644,
            expect("facts", "warning", "broken.json", "rpcd --check"),
        ),
        (
            "program.acme.net",
            "facts.d/broken.sh",
            "#!/bin/sh\nexit 3\n".to_owned(),
            0o755,
            expect("facts", "warning", "broken.sh", "rpcd --check"),
        ),
        (
            "metrics.acme.net",
            "conf.d/metrics.toml",
            metrics,
            0o644,
            expect("metrics", "warning", "in use", "metrics.listen"),
        ),
    ]
}

/// Each node is broken in one way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broken_nodes_are_reported() {
    let fleet = DirectoryFixture::start().await;
    fleet.organisation.publish_account(&fleet.server, &fleet.organisation.account_token()).await;
    let (mut daemons, mut expected) = (Vec::new(), Vec::new());
    for (name, file, text, mode, finding) in node_breakages(fleet.server.port()) {
        let home = fleet.node_home(&fleet.organisation.node(name), "{}", "");
        home.write(file, &text, mode);
        daemons.push(home.start());
        expected.push((name, finding));
    }
    let copied = fleet.organisation.node("copy.acme.net");
    daemons.extend([0, 1].map(|_| fleet.node_home(&copied, "{}", "").start()));
    expected.push(("copy.acme.net", expect("clone", "error", "another daemon", "Two machines")));
    expected.push(("copy.acme.net", expect("identities", "error", "more than one", "rpc org add")));
    let open = fleet.organisation.node("open.acme.net");
    let open_home = fleet.node_home(&open, "{}", "");
    daemons.push(open_home.clone().start());
    let accessible = expect("credentials", "error", "accessible to other users", "owner and mode");
    expected.push(("open.acme.net", accessible));
    let read_only = fleet.node_home(&fleet.organisation.node("disk.acme.net"), "{}", "");
    let mut before = read_only.clone().start();
    await_state("the daemon runs", || before.log().contains("ready identity")).await;
    before.kill_and_wait();
    let home = read_only.path("").display().to_string();
    let remount = "mount --bind $0 $0 && mount -o remount,ro,bind $0 && exec \"$@\"";
    let namespace =
        ["unshare", "--mount", "sh", "-c", remount, &home].map(std::ffi::OsString::from);
    let program = muster_tests::command::find_program("rpcd").into_os_string();
    let audit = read_only.path("audit-reads.log");
    let on_disk = read_only.start_through(&[&namespace[..], &[program]].concat());
    expected.push(("disk.acme.net", expect("disk", "error", "read-only", "mount the file system")));

    poll_until_ok("each node reports its problem", Duration::from_mins(2), async || {
        // Its daemon has read them.
        open_home.write(
            "node.creds",
            &std::fs::read_to_string(open_home.path("node.creds")).unwrap(),
            0o644,
        );
        let output = fleet.rpc.run(&["doctor", "-j"]).await;
        let document: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let sections = document.get("sections").and_then(Value::as_array).cloned();
        let findings: Vec<Value> = sections
            .unwrap_or_default()
            .iter()
            .filter_map(|section| section.get("findings")?.as_array().cloned())
            .flatten()
            .collect();
        let is_reported = |(name, expected): &&(&str, Expected)| {
            findings.iter().any(|finding| {
                let nodes = finding.get("nodes").and_then(Value::as_array);
                expected.describes(finding)
                    && nodes.is_some_and(|nodes| nodes.iter().any(|node| node == name))
            })
        };
        let unreported: Vec<&str> = expected
            .iter()
            .filter(|expected| !is_reported(expected))
            .map(|(name, _)| *name)
            .collect();
        if unreported.is_empty() && output.status.code() == Some(2) {
            return Ok(());
        }
        Err(format!("{unreported:?}: {document:#}"))
    })
    .await;

    // The daemon records again when the disk is writable.
    let before = audit.metadata().unwrap().len();
    let inside = format!("--mount=/proc/{}/ns/mnt", on_disk.pid());
    let remount = ["mount", "-o", "remount,rw,bind", &home];
    let remounted = Command::new("nsenter").arg(inside).args(remount).status().unwrap();
    assert!(remounted.success(), "{remounted}");
    poll_until_ok("reads are recorded", Duration::from_mins(1), async || {
        let output = fleet.rpc.run(&["rpcutil", "ping", "-I", "disk.acme.net"]).await;
        let is_longer = audit.metadata().is_ok_and(|file| file.len() > before);
        if is_longer { Ok(()) } else { Err(describe_output(&output)) }
    })
    .await;
}
