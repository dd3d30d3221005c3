//! `rpc upgrade`: daemons that run another program of the organisation, return to the earlier one when it does not work, and accept no other.

use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_tests::command::{RpcCommand, describe_output, find_program};
use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::Organisation;
use muster_tests::poll_until_ok;
use muster_tests::published_schemas::{SchemaMode, check_schema};
use muster_tests::rpcd::{DaemonHome, Rpcd};
use serde_json::{Value, json};

use crate::rotation::{NODES, RotatedFleet};

/// Time for a node to return to its earlier program: the shortest time for a confirmation, the guard's, and a start.
const RETURN_TIMEOUT: Duration = Duration::from_mins(2);

/// A script in place of a program: passes the check, then does this.
fn script(then: &str) -> Vec<u8> {
    format!("#!/bin/sh\ncase \"$*\" in *--check*) exit 0;; esac\n{then}\n").into_bytes()
}

/// The program that a process runs.
fn program_of(pid: i32) -> PathBuf {
    std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default()
}

fn is_upgrade(program: &Path, state: &Path) -> bool {
    program.parent() == Some(&state.join("programs"))
}

struct UpgradeFleet {
    _organisation: Organisation,
    _server: NatsServer,
    node: Rpcd,
    rpc: RpcCommand,
}

impl UpgradeFleet {
    /// One node, and an organisation with these programs.
    async fn start(programs: &[(&str, Vec<u8>)]) -> Self {
        let mut organisation = Organisation::new(&["muster"]);
        let stored = programs.iter().map(|(name, bytes)| organisation.approve_program(name, bytes));
        let stored: Vec<Vec<u8>> = stored.collect();
        Self::start_with(organisation, &stored).await
    }

    async fn start_with(organisation: Organisation, stored: &[Vec<u8>]) -> Self {
        let server = organisation.start_broker_with_stores().await;
        organisation.store_programs(&server, stored).await;
        let rpc = RpcCommand::new(&server, &organisation, &organisation.caller("rip"), "");
        let signer = organisation.node("n1");
        let mut node = DaemonHome::new(&organisation, &signer, &server.url(), "").start();
        node.await_ready().await;
        Self { _organisation: organisation, _server: server, node, rpc }
    }

    async fn upgrade(&self, program: &str, more: &[&str]) -> Value {
        let command = [&["upgrade", program, "-I", "n1", "--yes"], more].concat();
        let (document, _) = self.rpc.run_json(&command).await;
        check_schema("muster.config.deploy.v1", &document, SchemaMode::Strict).unwrap();
        document
    }

    async fn status(&self) -> Value {
        let (document, _) = self.rpc.run_json(&["config", "status"]).await;
        document.pointer("/nodes/0").cloned().unwrap_or_default()
    }

    /// Waits for the end of the daemon, and starts the installed program again, as a service manager does.
    async fn restart_ended(&mut self) {
        let node = &mut self.node;
        poll_until_ok("the daemon ends", RETURN_TIMEOUT, async || {
            if node.is_running() { Err("it runs") } else { Ok(()) }
        })
        .await;
        self.node = self.node.home().clone().start();
        self.node.await_ready().await;
    }

    fn state(&self) -> PathBuf {
        self.node.home().path("state")
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_run_the_new_program_when_the_command_ends() {
    let fleet = RotatedFleet::start();
    let program = find_program("rpcd");
    let [first, second, ..] = NODES;
    let added = fleet.run_org(&["program", "add", "0.2.0", program.to_str().unwrap()]);
    assert!(added.contains("added 0.2.0 for"), "{added}");
    let upgrade = |more: &[&str]| {
        let command = ["upgrade", "0.2.0", "-I", first, "-I", second, "--yes"];
        let (document, code) = fleet.demo.run_json(&[&command, more].concat());
        let results: Value = document["results"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| json!([row["result"], row["changes"], row["message"]]))
            .collect();
        (results, code)
    };
    let change = json!([{"name": "rpcd", "change": "installed -> 0.2.0"}]);
    let planned = json!([["planned", change, null], ["planned", change, null]]);
    assert_eq!(upgrade(&["--noop"]), (planned, 0));
    let confirmed = json!([["confirmed", change, null], ["confirmed", change, null]]);
    assert_eq!(upgrade(&["--canary", "1", "--batch-sleep", "0"]), (confirmed, 0));
    let status = |node: &str| {
        let (document, _) = fleet.demo.run_json(&["config", "status", "-I", node]);
        document["nodes"][0].clone()
    };
    for node in [first, second] {
        assert_eq!(status(node)["program"], "0.2.0");
    }
    assert_eq!(upgrade(&[]), (json!([["unchanged", [], null], ["unchanged", [], null]]), 0));

    // The installed program runs the selected one, also after a crash or a reboot.
    fleet.demo.stop_node(first);
    let daemon = fleet.start_node(first);
    fleet.await_replies(&[first]).await;
    let (pid, state) = (i32::try_from(daemon.child.id()).unwrap(), fleet.node(first).join("state"));
    assert!(is_upgrade(&program_of(pid), &state), "{:?}", program_of(pid));

    let (reverted, code) = fleet.demo.run_text(&["config", "revert", "-I", first, "--yes"]);
    assert!(code == 0 && reverted.contains("rpcd 0.2.0 -> installed"), "{reverted}");
    assert_eq!(status(first)["program"], "");
    assert_eq!(program_of(pid), program);

    let listed = fleet.org(&["program", "list", "-j"]);
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    check_schema("muster.org.programs.v1", &listed, SchemaMode::Strict).unwrap();
    assert_eq!(listed["programs"][0]["name"], "0.2.0");
    fleet.run_org(&["program", "remove", "0.2.0"]);
    // The new account token is on its way to the nodes.
    poll_until_ok("the removed program is refused", RETURN_TIMEOUT, async || {
        let command = ["upgrade", "0.2.0", "-I", first, "--noop"];
        let (refused, code) = fleet.demo.run_text(&command);
        let is_refused = code != 0 && refused.contains("lists no program 0.2.0");
        if is_refused { Ok(()) } else { Err(refused) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_return_from_programs_that_end_or_hang() {
    let programs = [("ends", script("exit 1")), ("hangs", script("exec sleep 1000"))];
    let mut fleet = Box::pin(UpgradeFleet::start(&programs)).await;
    for (program, reason) in [
        ("ends", "the program ends ended before it was confirmed"),
        ("hangs", "the program hangs ended before it was confirmed"),
    ] {
        let document = fleet.upgrade(program, &["--confirm-within", "10"]).await;
        assert_eq!(document["results"][0]["result"], "unconfirmed", "{document:#}");
        fleet.restart_ended().await;
        let status = fleet.status().await;
        let found = (&status["state"], &status["reason"], &status["program"]);
        assert_eq!(found, (&json!("reverted"), &json!(reason), &json!("")));
        assert_eq!(program_of(fleet.node.pid()), find_program("rpcd"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_refuse_programs_that_are_not_those_of_the_organisation() {
    let mut organisation = Organisation::new(&["muster"]);
    let fails = organisation.approve_program("fails", b"#!/bin/sh\necho too old >&2; exit 3\n");
    // The broker has other bytes than those that the operator approved.
    organisation.approve_program("replaced", &script("exit 1"));
    let evil = organisation.replace_program("replaced", &script("touch /tmp/evil"));
    organisation.approve_program("other", &script("exit 1"));
    organisation.set_program_machine("other", "riscv64");
    organisation.approve_program("lost", &script("exit 2"));
    let fleet = Box::pin(UpgradeFleet::start_with(organisation, &[fails, evil])).await;
    for (program, problem) in [
        ("fails", "`--check` failed: code 3: too old"),
        ("replaced", "its size or SHA-256 is not that of the account token"),
        ("other", "for riscv64 only"),
        ("lost", "must be stored again"),
        ("unknown", "lists no program unknown"),
    ] {
        let document = fleet.upgrade(program, &[]).await;
        let result = &document["results"][0];
        assert_eq!(result["result"], "failed", "{document:#}");
        assert!(result["message"].as_str().unwrap().contains(problem), "{document:#}");
    }
    let all = fleet.rpc.run(&["upgrade", "fails"]).await;
    assert_eq!(all.status.code(), Some(4), "{}", describe_output(&all));
    assert_eq!(fleet.status().await["state"], "none");
    assert!(!fleet.state().join("programs/selection.json").exists());
}
