//! Tests of the agent through its handlers, on a machine with init scripts and on a machine with a simulated systemd.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use muster_api::system::System;
use muster_api::system::command::CommandOutput;
use muster_api::system::fake::FakeSystem;
use muster_api::system::real::RealSystem;
use muster_api::testing::TestNode;
use muster_api::wire::status::ReplyStatus;
use muster_api::{ActionError, Agent};
use serde_json::{Value, json};

use crate::service::{ServicePlugin, actions};

/// An init script that runs while its file exists, and records its arguments.
const SCRIPT: &str = r#"#!/bin/sh
echo "$1" >> /tmp/told
case "$1" in
  start) echo on > /tmp/daemon ;;
  stop) rm -f /tmp/daemon ;;
  status) test -e /tmp/daemon ;;
  *) exit 2 ;;
esac
"#;

struct Machine {
    agent: Agent,
    system: Arc<dyn System>,
}

impl Machine {
    fn new(system: impl System + 'static) -> Self {
        Self { agent: ServicePlugin::create_agent().unwrap(), system: Arc::new(system) }
    }

    async fn ask(&self, action: &str, service: &str) -> Result<Value, ActionError> {
        self.call(action, &json!({ "service": service })).await
    }

    async fn call(&self, action: &str, input: &Value) -> Result<Value, ActionError> {
        let declared = self.agent.ddl().find_action(action).unwrap();
        let input = declared.validate_input(input.as_object().unwrap()).unwrap();
        let node = TestNode::named("dev1.example.net").unwrap();
        let cx = node.context("service", action, Arc::clone(&self.system)).unwrap();
        let output = self.agent.find_handler(action).unwrap().call(&cx, input).await?;
        Ok(Value::Object(declared.validate_output(&output).unwrap()))
    }
}

fn with_script(script: &str) -> (tempfile::TempDir, Machine) {
    let directory = tempfile::tempdir().unwrap();
    for name in ["etc/init.d", "tmp"] {
        std::fs::create_dir_all(directory.path().join(name)).unwrap();
    }
    let path = directory.path().join("etc/init.d/httpd");
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    let machine = Machine::new(RealSystem::new(directory.path().to_owned()));
    (directory, machine)
}

/// A simulated systemd with a unit in this state; `start`, `stop` and `restart` change the state.
fn with_systemd(load: &str, active: &str) -> (FakeSystem, Machine) {
    let system = FakeSystem::new();
    system.add_directory("/run/systemd/system");
    system.add_file("/active", active);
    let load = load.to_owned();
    system.script_handler(&["systemctl", "show"], move |system, _| {
        let active = system.file_text("/active");
        let text = format!("LoadState={load}\nActiveState={active}\nUnitFileState=enabled\n");
        CommandOutput::new(0, text)
    });
    for (verb, after) in [("start", "active"), ("stop", "inactive"), ("restart", "active")] {
        system.script_handler(&["systemctl", verb], move |system, _| {
            system.add_file("/active", after);
            CommandOutput::new(0, "")
        });
    }
    system.script_output(&["systemctl", "unmask"], CommandOutput::new(0, ""));
    (system.clone(), Machine::new(system))
}

fn changes(system: &FakeSystem) -> Vec<String> {
    let mut lines = system.recorded_command_lines();
    lines.retain(|line| !line.starts_with("systemctl show"));
    lines
}

#[tokio::test]
async fn noop_reports_the_change_and_runs_no_command() {
    let (system, machine) = with_systemd("loaded", "active");
    for (action, changed) in [("start", false), ("stop", true), ("restart", true)] {
        let input = json!({"service": "httpd", "noop": true});
        let report = machine.call(action, &input).await.unwrap();
        assert_eq!(report, json!({"status": "running", "changed": changed}), "{action}");
    }
    assert_eq!(changes(&system), Vec::<String>::new());
}

#[tokio::test]
async fn init_script_is_started_restarted_and_stopped() {
    let (directory, machine) = with_script(SCRIPT);
    let (running, stopped) = (json!({"status": "running"}), json!({"status": "stopped"}));
    let report = |status: &str, changed: bool| json!({"status": status, "changed": changed});
    assert_eq!(machine.ask("status", "httpd").await.unwrap(), stopped);
    for changed in [true, false] {
        let started = machine.ask("start", "httpd").await.unwrap();
        assert_eq!(started, report("running", changed));
    }
    assert_eq!(machine.ask("status", "httpd").await.unwrap(), running);
    let restarted = machine.ask("restart", "httpd").await.unwrap();
    assert_eq!(restarted, report("running", true));
    for changed in [true, false] {
        let ended = machine.ask("stop", "httpd").await.unwrap();
        assert_eq!(ended, report("stopped", changed));
    }
    assert!(!directory.path().join("tmp/daemon").exists());
    let told = std::fs::read_to_string(directory.path().join("tmp/told")).unwrap();
    let told: Vec<&str> = told.lines().filter(|word| *word != "status").collect();
    assert_eq!(told, ["start", "stop", "start", "stop"]);
}

#[tokio::test]
async fn runs_systemctl_only_for_changes() {
    for (action, before, after, calls) in [
        ("status", "active", "running", vec![]),
        ("status", "failed", "stopped", vec![]),
        (
            "start",
            "inactive",
            "running",
            vec!["systemctl unmask -- nginx.service", "systemctl start -- nginx.service"],
        ),
        ("start", "active", "running", vec![]),
        ("stop", "active", "stopped", vec!["systemctl stop -- nginx.service"]),
        ("stop", "failed", "stopped", vec![]),
        ("restart", "active", "running", vec!["systemctl restart -- nginx.service"]),
        ("restart", "inactive", "running", vec!["systemctl restart -- nginx.service"]),
    ] {
        let (system, machine) = with_systemd("loaded", before);
        let answer = machine.ask(action, "nginx").await.unwrap();
        assert_eq!(answer["status"], json!(after), "{action} {before}");
        assert_eq!(changes(&system), calls, "{action} {before}");
    }
}

#[tokio::test]
async fn every_action_fails_for_an_unknown_service() {
    let (system, machine) = with_systemd("not-found", "inactive");
    for action in ["status", "start", "stop", "restart"] {
        let error = machine.ask(action, "ngnix").await.unwrap_err();
        assert_eq!(error.status, ReplyStatus::Failed, "{action}");
        assert_eq!(
            error.message,
            "Service[ngnix]: there is no such service: looked for a systemd unit ngnix.service"
        );
    }
    assert_eq!(changes(&system), Vec::<String>::new());
    let (_directory, machine) = with_script(SCRIPT);
    let error = machine.ask("stop", "ghost").await.unwrap_err();
    assert_eq!(error.status, ReplyStatus::Failed);
    assert!(error.message.contains("/etc/init.d/ghost"), "{}", error.message);
}

#[tokio::test]
async fn failing_service_returns_its_output() {
    let (_directory, machine) = with_script("#!/bin/sh\necho no such luck; exit 1\n");
    for (action, verb) in [("start", "start"), ("restart", "stop")] {
        let error = machine.ask(action, "httpd").await.unwrap_err();
        assert_eq!(error.status, ReplyStatus::Failed);
        assert_eq!(
            error.message,
            format!("Service[httpd]: `/etc/init.d/httpd {verb}` ended with code 1: no such luck")
        );
    }
}

#[tokio::test]
async fn invalid_service_names_are_refused() {
    let agent = ServicePlugin::create_agent().unwrap();
    for action in agent.ddl().actions() {
        for name in ["", "--all", "../x", "a b", "x;reboot", &"x".repeat(91)] {
            let input = json!({ "service": name });
            let refused = action.validate_input(input.as_object().unwrap());
            assert!(refused.is_err(), "{} {name}", action.name());
        }
    }
    // The engine is stricter than the validator of the DDL.
    let (_directory, machine) = with_script(SCRIPT);
    let error = machine.ask("status", "..").await.unwrap_err();
    assert_eq!(error.status, ReplyStatus::InvalidData, "{error:?}");
}

#[test]
fn data_source_types_names_and_examples_equal_the_ddl() {
    let sources = ServicePlugin::create_data_sources().unwrap();
    let found = muster_api::testing::data_differences::<actions::ServiceDataOutput>(&sources[0]);
    assert_eq!(found, Vec::<String>::new());
}

#[tokio::test]
async fn data_source_returns_the_state_of_a_service() {
    let node = TestNode::named("dev1").unwrap();
    let source = ServicePlugin::create_data_sources().unwrap().remove(0);
    for (load, active, expected) in [
        (
            "loaded",
            "active",
            serde_json::json!({"present": true, "running": true, "status": "running", "enabled": true}),
        ),
        (
            "loaded",
            "inactive",
            serde_json::json!({"present": true, "running": false, "status": "stopped", "enabled": true}),
        ),
        (
            "not-found",
            "inactive",
            serde_json::json!({"present": false, "running": false, "status": "absent", "enabled": null}),
        ),
    ] {
        let (system, _) = with_systemd(load, active);
        let cx = node.context("data", "service", Arc::new(system)).unwrap();
        let found = source.query_values(&cx, Some("httpd")).await.unwrap();
        assert_eq!(Value::Object(found), expected, "{load} {active}");
    }
}
