//! Runs of an unmodified Puppet in the history: as they happen, when Puppet or the daemon is killed, and when they were started outside.

use std::fs;
use std::path::Path;

use muster_puppet::yaml::parse_mapping;
use muster_tests::command::describe_output;
use muster_tests::poll_until_ok;
use muster_tests::rpcd::Rpcd;
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::{HistoryFleet, NODE, TIMEOUT};
use crate::puppet::puppet_node::{PuppetNode, has_puppet};

/// A catalog that changes a file, waits for the file `go`, changes another one, refreshes a command, fails and skips.
fn write_catalog(node: &PuppetNode) {
    let path = |name: &str| node.path(name).display().to_string();
    let resource = |type_name: &str, title: &str, parameters: Value| {
        json!({
            "type": type_name, "title": title, "tags": ["class", type_name.to_lowercase()], "exported": false,
            "file": "/etc/puppet/site.pp", "line": 3, "parameters": parameters,
        })
    };
    let command =
        |command: &str| json!({"command": command, "provider": "shell", "path": "/usr/bin:/bin"});
    let with = |mut parameters: Value, more: &[(&str, Value)]| {
        for (name, value) in more {
            parameters[*name] = value.clone();
        }
        parameters
    };
    let wait = format!("until test -e '{}'; do sleep 0.02; done", path("go"));
    let first = format!("File[{}]", path("w/first"));
    let mut secret = resource(
        "File",
        &path("w/secret"),
        json!({"content": "verysecret", "require": "Exec[wait]"}),
    );
    secret["sensitive_parameters"] = json!(["content"]);
    let resources = [
        resource("Stage", "main", json!({"name": "main"})),
        resource("Class", "Main", json!({"name": "main"})),
        resource(
            "File",
            &path("w/first"),
            json!({"content": "one\n", "notify": "Exec[refreshed]"}),
        ),
        resource(
            "Exec",
            "wait",
            with(command(&wait), &[("require", json!(first)), ("timeout", json!(0))]),
        ),
        secret,
        resource(
            "Exec",
            "refreshed",
            with(
                command("true"),
                &[("refreshonly", json!(true)), ("require", json!("Exec[wait]"))],
            ),
        ),
        resource(
            "Exec",
            "failing",
            with(
                command("echo output; exit 3"),
                &[("require", json!("Exec[wait]")), ("logoutput", json!(true))],
            ),
        ),
        resource("Notify", "skipped", json!({"require": "Exec[failing]"})),
        resource("Notify", "planned", json!({"noop": true, "require": "Exec[wait]"})),
    ];
    let edges: Vec<Value> = resources
        .iter()
        .skip(1)
        .map(|resource| {
            let target = format!(
                "{}[{}]",
                resource["type"].as_str().unwrap(),
                resource["title"].as_str().unwrap()
            );
            let source = if target == "Class[Main]" { "Stage[main]" } else { "Class[Main]" };
            json!({"source": source, "target": target})
        })
        .collect();
    node.write_catalog(&json!({
        "name": NODE, "version": 1, "environment": "production", "catalog_format": 1, "catalog_uuid": "c",
        "resources": resources, "edges": edges, "classes": ["main"],
    }));
}

impl HistoryFleet {
    /// Requests a run of Puppet; the request ends with the task.
    pub(super) fn begin_puppet_run(&self) -> JoinHandle<()> {
        let words = ["do", "puppet", "runonce", "-I", NODE, "--timeout", "300"];
        let mut request = self.rpc.prepare_command(&words);
        request.kill_on_drop(true);
        tokio::spawn(async move {
            request.output().await.unwrap();
        })
    }

    /// The last run of the node, once it has this status.
    async fn await_run(&self, status: &str) -> Value {
        poll_until_ok("the history has the run", TIMEOUT, async || {
            let output = self.rpc.run(&["report", "show", NODE, "-j"]).await;
            let found: Value =
                serde_json::from_slice(&output.stdout).map_err(|_| describe_output(&output))?;
            if found["run"]["status"] == status { Ok(found) } else { Err(found["run"].to_string()) }
        })
        .await
    }
}

/// A run of Puppet with the catalog of [`write_catalog`].
struct WaitingRun {
    fleet: HistoryFleet,
    node: PuppetNode,
    daemon: Rpcd,
    request: JoinHandle<()>,
}

impl WaitingRun {
    async fn start() -> Self {
        let (fleet, _home) = HistoryFleet::start().await;
        let node = PuppetNode::new(NODE);
        write_catalog(&node);
        let daemon = node.create_daemon_home((&fleet.organisation, &fleet.server)).start();
        fleet.await_node().await;
        let request = fleet.begin_puppet_run();
        Self { fleet, node, daemon, request }
    }
}

/// Puppet's own report of its last run.
fn read_report(node: &PuppetNode) -> Value {
    parse_mapping(&fs::read_to_string(node.path("var/state/last_run_report.yaml")).unwrap())
        .unwrap()
}

/// Waits until the run has changed the first file and waits.
async fn await_waiting_run(fleet: &HistoryFleet, node: &PuppetNode) -> Value {
    let resource = format!("File[{}]", node.path("w/first").display());
    fleet.await_rows(&["resource", &resource], 1).await;
    fleet.await_run("running").await
}

/// The messages of a log.
fn messages(report: &Value) -> Vec<(String, String)> {
    let text = |log: &Value, name: &str| log[name].as_str().unwrap().to_owned();
    let logs = report["logs"].as_array().unwrap().iter();
    logs.map(|log| (text(log, "source"), text(log, "message"))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn run_of_puppet_is_shown_as_it_goes_and_equals_its_report() {
    if !has_puppet() {
        return;
    }
    let WaitingRun { fleet, node, daemon: _daemon, request } = WaitingRun::start().await;
    let shown = await_waiting_run(&fleet, &node).await;
    assert_eq!((&shown["run"]["engine"], &shown["run"]["who"]), (&json!("puppet"), &json!("rip")));
    assert!(shown["report"]["logs"].as_array().unwrap().len() > 3, "{shown}");
    fs::write(node.path("go"), "").unwrap();
    let shown = fleet.await_run("failed").await;
    request.await.unwrap();
    let (mut report, mut expected) = (shown["report"].clone(), read_report(&node));
    // The log that grows begins before Puppet's report.
    let (found, in_report) = (messages(&report), messages(&expected));
    assert!(in_report.len() > 20, "{in_report:?}");
    assert!(found.ends_with(&in_report), "{found:#?}\n{in_report:#?}");
    for document in [&mut report, &mut expected] {
        document.as_object_mut().unwrap().remove("logs");
    }
    assert_eq!(report, expected);
    // What was derived from the log gave way to the report.
    let resource = format!("File[{}]", node.path("w/first").display());
    let rows = fleet.await_rows(&["resource", &resource], 1).await;
    assert_eq!((&rows[0]["property"], &rows[0]["who"]), (&json!("ensure"), &json!("rip")));
    let drift = fleet.rpc.run_json(&["drift"]).await.0;
    assert_eq!(drift["rows"][0]["resource"], "Notify[planned]", "{drift}");
    assert_eq!(drift["rows"][0]["nodes"], json!([NODE]));
    assert!(!shown.to_string().contains("verysecret"));
}

#[tokio::test(flavor = "multi_thread")]
async fn run_of_a_killed_puppet_is_aborted_with_its_events() {
    if !has_puppet() {
        return;
    }
    let WaitingRun { fleet, node, daemon: _daemon, request } = WaitingRun::start().await;
    await_waiting_run(&fleet, &node).await;
    assert!(kill_puppet(&node));
    // Ends the command that Puppet had started.
    fs::write(node.path("go"), "").unwrap();
    let shown = fleet.await_run("aborted").await;
    request.await.unwrap();
    let resource = format!("File[{}]", node.path("w/first").display());
    assert_eq!(shown["report"]["resource_statuses"][&resource]["changed"], true, "{shown}");
    assert_eq!(shown["report"]["status"], "failed");
    let rows = fleet.await_rows(&["resource", &resource], 1).await;
    assert_eq!(rows[0]["status"], "success");
}

#[tokio::test(flavor = "multi_thread")]
async fn run_of_puppet_that_outlives_the_daemon_is_recorded_once() {
    if !has_puppet() {
        return;
    }
    let WaitingRun { fleet, node, mut daemon, request } = WaitingRun::start().await;
    let home = daemon.home().clone();
    await_waiting_run(&fleet, &node).await;
    daemon.kill_and_wait();
    let _daemon = home.start();
    fleet.await_node().await;
    fs::write(node.path("go"), "").unwrap();
    let shown = fleet.await_run("failed").await;
    let (found, in_report) = (messages(&shown["report"]), messages(&read_report(&node)));
    assert!(found.ends_with(&in_report), "{found:#?}\n{in_report:#?}");
    let started = |(_, message): &&(String, String)| message.starts_with("Applying configuration");
    assert_eq!(found.iter().filter(started).count(), 1, "{found:#?}");
    let runs = fleet.rpc.run_json(&["report", "list"]).await.0;
    assert_eq!(runs["runs"].as_array().unwrap().len(), 1, "{runs}");
    request.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn run_that_was_started_outside_is_recorded_from_its_report() {
    if !has_puppet() {
        return;
    }
    let (fleet, _home) = HistoryFleet::start().await;
    let node = PuppetNode::new(NODE);
    write_catalog(&node);
    fs::write(node.path("go"), "").unwrap();
    let home = node.create_daemon_home((&fleet.organisation, &fleet.server));
    let mut daemon = home.clone().start();
    fleet.await_node().await;
    node.run_stock_puppet(&[]);
    let shown = fleet.await_run("failed").await;
    assert_eq!(shown["report"], read_report(&node));
    assert_eq!(shown["run"]["run"], read_report(&node)["transaction_uuid"]);
    assert_eq!(shown["run"]["who"], Value::Null);
    // The next daemon knows that it is recorded, and records the next one.
    daemon.kill_and_wait();
    let _daemon = home.start();
    fleet.await_node().await;
    fs::remove_file(node.path("w/first")).unwrap();
    node.run_stock_puppet(&[]);
    let resource = format!("File[{}]", node.path("w/first").display());
    fleet.await_rows(&["resource", &resource], 2).await;
    let runs = fleet.rpc.run_json(&["report", "list"]).await.0;
    assert_eq!(runs["runs"].as_array().unwrap().len(), 2, "{runs}");
}

/// Kills the Puppet of this node, if it still runs. `puppet apply` has no lock, so it is found by its arguments.
pub(super) fn kill_puppet(node: &PuppetNode) -> bool {
    let catalog = node.path("catalog.json").display().to_string();
    let is_puppet = |process: &Path| {
        let line = fs::read(process.join("cmdline")).unwrap_or_default();
        let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
        words.contains(&b"apply".as_slice()) && words.contains(&catalog.as_bytes())
    };
    let processes = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
    let pids: Vec<i32> = processes
        .filter(|process| is_puppet(process))
        .filter_map(|process| process.file_name()?.to_str()?.parse().ok())
        .collect();
    for pid in &pids {
        match kill(Pid::from_raw(*pid), Signal::SIGKILL) {
            Ok(()) | Err(Errno::ESRCH) => {}
            Err(error) => panic!("{pid}: {error}"),
        }
    }
    !pids.is_empty()
}
