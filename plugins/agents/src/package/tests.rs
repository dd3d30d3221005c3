//! Tests of the agent through its handlers, with a simulated apt: the commands that run, and the outputs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use muster_api::system::System;
use muster_api::system::command::CommandOutput;
use muster_api::system::fake::FakeSystem;
use muster_api::testing::TestNode;
use muster_api::wire::status::ReplyStatus;
use muster_api::{ActionError, Agent};
use serde_json::{Value, json};

use crate::package::{PackagePlugin, actions};

const INSTALL: &str = "apt-get -q -y -o DPkg::Options::=--force-confold install";
const INSTALLED: &str = "install ok installed x 1.0\n";
const HELD: &str = "hold ok installed x 1.0\n";
const REMOVED: &str = "deinstall ok config-files x 1.0\n";

struct Machine {
    agent: Agent,
    system: FakeSystem,
}

impl Machine {
    fn new(system: FakeSystem) -> Self {
        Self { agent: PackagePlugin::create_agent().unwrap(), system }
    }

    /// A machine with the package `x` in version 2.0. `line` is what dpkg-query prints;
    /// the simulated apt-get changes it.
    fn with_apt(line: &str) -> Self {
        let system = FakeSystem::new();
        system.add_file("/var/lib/dpkg/status", "");
        system.add_file("/line", line);
        system.script_handler(&["dpkg-query"], |system, _| {
            let line = system.file_text("/line");
            CommandOutput::new(i32::from(line.is_empty()), line)
        });
        let policy = "x:\n  Installed: 1.0\n  Candidate: 2.0\n";
        system.script_output(&["apt-cache", "policy"], CommandOutput::new(0, policy));
        system.script_output(&["apt-mark"], CommandOutput::new(0, ""));
        system.script_handler(&["apt-get"], |system, command| {
            let said = |word: &str| command.argv.iter().any(|said| said == word);
            let wanted = command.argv.last().cloned().unwrap_or_default();
            let version = wanted.split_once('=').map_or("2.0", |(_, version)| version);
            let line = match () {
                () if said("install") => format!("install ok installed x {version}\n"),
                () if said("--purge") => String::new(),
                () => REMOVED.to_owned(),
            };
            system.add_file("/line", line);
            CommandOutput::new(0, "")
        });
        Self::new(system)
    }

    async fn ask(&self, action: &str, input: Value) -> Result<Value, ActionError> {
        let declared = self.agent.ddl().find_action(action).unwrap();
        let input = declared.validate_input(input.as_object().unwrap()).unwrap();
        let node = TestNode::named("dev1.example.net").unwrap();
        let system: Arc<dyn System> = Arc::new(self.system.clone());
        let cx = node.context("package", action, system).unwrap();
        let output = self.agent.find_handler(action).unwrap().call(&cx, input).await?;
        Ok(Value::Object(declared.validate_output(&output).unwrap()))
    }

    fn changes(&self) -> Vec<String> {
        let mut lines = self.system.recorded_command_lines();
        lines.retain(|line| line.starts_with("apt-get") || line.starts_with("apt-mark"));
        lines
    }
}

#[tokio::test]
async fn changes_return_previous_and_current_version() {
    let package = || json!({"package": "x"});
    let version = |version: &str| json!({"package": "x", "version": version});
    for (action, input, line, previous, ensure, call) in [
        ("install", package(), "", "purged", "2.0", Some(format!("{INSTALL} x"))),
        ("install", package(), REMOVED, "absent", "2.0", Some(format!("{INSTALL} x"))),
        ("install", package(), INSTALLED, "1.0", "1.0", None),
        (
            "install",
            version("0.9"),
            INSTALLED,
            "1.0",
            "0.9",
            Some(format!("{INSTALL} --allow-downgrades x=0.9")),
        ),
        ("install", version("1.0"), INSTALLED, "1.0", "1.0", None),
        ("update", package(), INSTALLED, "1.0", "2.0", Some(format!("{INSTALL} x"))),
        (
            "uninstall",
            package(),
            INSTALLED,
            "1.0",
            "absent",
            Some("apt-get -q -y remove x".to_owned()),
        ),
        ("uninstall", package(), "", "purged", "purged", None),
        (
            "purge",
            package(),
            REMOVED,
            "absent",
            "purged",
            Some("apt-get -q -y remove --purge x".to_owned()),
        ),
        ("purge", package(), "", "purged", "purged", None),
    ] {
        let machine = Machine::with_apt(line);
        let report = |previous: &str, changed: bool| json!({"name": "x", "ensure": ensure, "previous": previous, "changed": changed});
        let mut planned_input = input.clone();
        planned_input["noop"] = json!(true);
        let planned = machine.ask(action, planned_input).await.unwrap();
        assert_eq!(planned["changed"], call.is_some(), "{action} {input} {line}");
        assert_eq!(machine.changes(), Vec::<String>::new(), "{action} {input} {line}");
        let first = machine.ask(action, input.clone()).await.unwrap();
        assert_eq!(first, report(previous, call.is_some()), "{action} {input} {line}");
        assert_eq!(Vec::from_iter(call), machine.changes());
        let second = machine.ask(action, input).await.unwrap();
        assert_eq!(second, report(ensure, false), "{action} twice");
    }
}

#[tokio::test]
async fn update_does_not_install_a_missing_package() {
    for line in ["", REMOVED] {
        let machine = Machine::with_apt(line);
        let error = machine.ask("update", json!({"package": "x"})).await.unwrap_err();
        assert_eq!(error.status, ReplyStatus::Failed);
        assert_eq!(
            error.message,
            "Package[x]: is not installed, so there is nothing to update; use `install`"
        );
        assert_eq!(machine.changes(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn status_returns_version_and_mark_without_changes() {
    for (line, ensure, mark) in [
        (INSTALLED, "1.0", "none"),
        (HELD, "1.0", "hold"),
        (REMOVED, "absent", "none"),
        ("", "purged", "none"),
    ] {
        let machine = Machine::with_apt(line);
        let found = machine.ask("status", json!({"package": "x"})).await.unwrap();
        assert_eq!(found, json!({"name": "x", "ensure": ensure, "mark": mark}), "{line}");
        assert_eq!(machine.changes(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn outdated_packages_have_both_versions() {
    let machine = Machine::with_apt(INSTALLED);
    let simulation = ["apt-get", "-q", "-s"];
    let text = "Inst new (3.0 Debian:12/stable [all])\nInst x [1.0] (2.0 Debian:12/stable [all])\nConf x (2.0)\n";
    machine.system.script_output(&simulation, CommandOutput::new(0, text));
    let expected = json!({
        "package_manager": "apt",
        "outdated_packages": [{"package": "x", "installed": "1.0", "version": "2.0"}],
        "count": 1,
    });
    assert_eq!(machine.ask("checkupdates", json!({})).await.unwrap(), expected);
    assert_eq!(machine.changes(), ["apt-get -q -s -o Debug::NoLocking=true dist-upgrade"]);
    machine.system.script_output(&simulation, CommandOutput::new(0, "0 upgraded\n"));
    let none = machine.ask("checkupdates", json!({})).await.unwrap();
    assert_eq!((&none["outdated_packages"], &none["count"]), (&json!([]), &json!(0)));
}

#[tokio::test]
async fn refresh_fails_if_a_source_fails() {
    let machine = Machine::with_apt(INSTALLED);
    let update = "apt-get -q -y -o APT::Update::Error-Mode=any update";
    let argv: Vec<&str> = update.split(' ').collect();
    machine
        .system
        .script_output(&argv, CommandOutput::new(0, "Hit:1 stable\nReading package lists...\n"));
    let said = machine.ask("refresh", json!({})).await.unwrap();
    assert_eq!(said, json!({"output": "Hit:1 stable\nReading package lists..."}));
    assert_eq!(machine.changes(), [update]);
    let text = "Err:1 stable\nE: Failed to fetch stable\n";
    machine.system.script_output(&argv, CommandOutput::new(100, text));
    let error = machine.ask("refresh", json!({})).await.unwrap_err();
    assert_eq!(error.status, ReplyStatus::Failed);
    assert!(error.message.ends_with("100: E: Failed to fetch stable"), "{}", error.message);
}

#[tokio::test]
async fn failure_of_apt_is_returned_with_its_message() {
    let machine = Machine::with_apt("");
    let text = "Reading package lists...\nE: Unable to locate package x\n";
    machine.system.script_output(&["apt-get"], CommandOutput::new(100, text));
    let error = machine.ask("install", json!({"package": "x"})).await.unwrap_err();
    assert_eq!(error.status, ReplyStatus::Failed);
    assert_eq!(
        error.message,
        format!("Package[x]: `{INSTALL} x` ended with code 100: E: Unable to locate package x")
    );
}

#[tokio::test]
async fn machine_without_dpkg_returns_an_error() {
    let machine = Machine::new(FakeSystem::new());
    for (action, input) in [
        ("status", json!({"package": "x"})),
        ("install", json!({"package": "x"})),
        ("checkupdates", json!({})),
        ("refresh", json!({})),
    ] {
        let error = machine.ask(action, input).await.unwrap_err();
        assert_eq!(error.status, ReplyStatus::Failed, "{action}");
        assert!(error.message.contains("no package database"), "{action}: {}", error.message);
    }
    assert_eq!(machine.system.recorded_command_lines(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn changes_do_not_overlap() {
    let machine = Machine::with_apt("");
    let (running, most) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let seen = Arc::clone(&most);
    machine.system.script_handler(&["apt-get"], move |_, _| {
        seen.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        (0..1000).for_each(|_| std::thread::yield_now());
        running.fetch_sub(1, Ordering::SeqCst);
        CommandOutput::new(0, "")
    });
    let machine = Arc::new(machine);
    let changes: Vec<_> = (0..8)
        .map(|_| {
            let machine = Arc::clone(&machine);
            tokio::spawn(async move { machine.ask("install", json!({"package": "x"})).await })
        })
        .collect();
    for change in changes {
        change.await.unwrap().unwrap();
    }
    assert_eq!(machine.changes().len(), 8);
    assert_eq!(most.load(Ordering::SeqCst), 1);
}

#[test]
fn versions_and_package_names_are_validated() {
    let agent = PackagePlugin::create_agent().unwrap();
    let install = agent.ddl().find_action("install").unwrap();
    let refused = |input: Value| install.validate_input(input.as_object().unwrap()).is_err();
    for version in ["absent", "purged", "latest", "held", ">= 1", "-o", "", "1 2"] {
        let input = json!({"package": "x", "version": version});
        assert!(refused(input), "{version}");
    }
    for package in ["", "-y", "x y", "x;y", "./x.deb", "x=1", &"x".repeat(91)] {
        assert!(refused(json!({ "package": package })), "{package}");
    }
    for version in ["1:2.36-9+deb12u4", "7.4.3~rc1-1"] {
        assert!(!refused(json!({"package": "libc6:amd64", "version": version})));
    }
}

#[test]
fn data_source_types_names_and_examples_equal_the_ddl() {
    let sources = PackagePlugin::create_data_sources().unwrap();
    let found = muster_api::testing::data_differences::<actions::PackageDataOutput>(&sources[0]);
    assert_eq!(found, Vec::<String>::new());
}
