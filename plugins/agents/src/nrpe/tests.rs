//! Tests of the agent through its handlers.

use std::sync::Arc;
use std::time::Duration;

use muster_api::system::command::CommandOutput;
use muster_api::system::fake::FakeSystem;
use muster_api::testing::{TestNode, data_differences};
use muster_api::wire::status::ReplyStatus;
use muster_api::{ActionError, Agent, DaemonContext, NodePlugin, PluginResult};
use muster_contract::nrpe::NrpeDataOutput;
use serde_json::{Map, Value, json};

use crate::nrpe::{NrpeOptions, NrpePlugin};

const FILE: &str = "/etc/nagios/nrpe.cfg";

fn configure(options: &Value) -> PluginResult<NrpePlugin> {
    let section = options.as_object().cloned().unwrap_or_default();
    let options = NrpePlugin::parse_options(section)?;
    let daemon = DaemonContext { root: "/".into(), ..DaemonContext::default() };
    NrpePlugin::configure(options, &daemon, ())
}

fn agent() -> Agent {
    configure(&json!({"enabled": true})).unwrap().build_agent().unwrap()
}

async fn call(
    system: &FakeSystem,
    action: &str,
    input: Value,
) -> Result<Map<String, Value>, ActionError> {
    let agent = agent();
    let declared = agent.ddl().find_action(action).unwrap();
    let input = declared.validate_input(input.as_object().unwrap()).unwrap();
    let node = TestNode::named("dev1.example.net").unwrap();
    let cx = node.context("nrpe", action, Arc::new(system.clone())).unwrap();
    let output = agent.find_handler(action).unwrap().call(&cx, input).await?;
    Ok(declared.validate_output(&output).unwrap())
}

#[test]
fn types_of_the_data_source_equal_its_ddl() {
    let sources = configure(&json!({"enabled": true})).unwrap().data_sources().unwrap();
    assert_eq!(data_differences::<NrpeDataOutput>(&sources[0]), Vec::<String>::new());
}

#[test]
fn options_have_defaults_and_limits() {
    let options = NrpePlugin::parse_options(Map::new()).unwrap();
    assert_eq!(options, NrpeOptions::default());
    assert_eq!((options.timeout, options.concurrency), (30, 4));
    for (wrong, option) in [
        (json!({"config": "nrpe.cfg"}), "config"),
        (json!({"schedules": "checks.d"}), "schedules"),
        (json!({"timeout": 0}), "timeout"),
        (json!({"timeout": 3601}), "timeout"),
        (json!({"concurrency": 0}), "concurrency"),
    ] {
        let error = configure(&wrong).unwrap_err().to_string();
        assert!(error.contains(&format!("`{option}`")), "{error}");
    }
    assert!(configure(&json!({"timeuot": 1})).is_err());
}

#[test]
fn agent_is_offered_where_the_file_exists() {
    let scratch = tempfile::tempdir().unwrap();
    let daemon = DaemonContext { root: scratch.path().to_owned(), ..DaemonContext::default() };
    let agents = |enabled: Option<bool>| {
        let options = NrpeOptions { enabled, ..NrpeOptions::default() };
        let plugin = NrpePlugin::configure(options, &daemon, ()).unwrap();
        assert_eq!(plugin.agents().unwrap().len(), plugin.data_sources().unwrap().len());
        plugin.agents().unwrap().len()
    };
    assert_eq!((agents(None), agents(Some(true))), (0, 1));
    std::fs::create_dir_all(scratch.path().join("etc/nagios")).unwrap();
    std::fs::write(scratch.path().join("etc/nagios/nrpe.cfg"), "").unwrap();
    assert_eq!((agents(None), agents(Some(false))), (1, 0));
}

#[tokio::test]
async fn states_are_statuses_with_outputs() {
    let system = FakeSystem::new();
    system.add_file(FILE, "command[check_x]=/check x\n");
    for (code, message) in
        [(0, "OK"), (1, "WARNING"), (2, "CRITICAL"), (3, "UNKNOWN"), (9, "UNKNOWN")]
    {
        system.script_output(&["/check"], CommandOutput::new(code, "text|a=1\nmore"));
        let result = call(&system, "runcommand", json!({"command": "check_x"})).await;
        let output = match result {
            Ok(output) if code == 0 => output,
            Err(error) if code != 0 => {
                assert_eq!((error.status, error.message.as_str()), (ReplyStatus::Failed, message));
                error.data
            }
            other => panic!("{code}: {other:?}"),
        };
        assert_eq!(output["exitcode"], json!(code.min(3)), "{code}");
        assert_eq!((&output["perfdata"], &output["long_output"]), (&json!("a=1"), &json!("more")));
    }
    let commands = system.recorded_commands();
    assert_eq!(commands[0].argv, ["/check", "x"]);
    assert_eq!(commands[0].timeout, Some(Duration::from_secs(30)));
}

#[tokio::test]
async fn problems_of_the_configuration_are_unknown() {
    let system = FakeSystem::new();
    let error = call(&system, "runcommand", json!({"command": "x"})).await.unwrap_err();
    assert!(error.message.contains(FILE), "{error}");
    assert_eq!(error.data["exitcode"], json!(3));
    system.add_file(FILE, "command[bad]=a | b\ncommand[args]=/check $ARG1$\n");
    for (input, status, text) in [
        (json!({"command": "x"}), ReplyStatus::Failed, "No such command: x"),
        (
            json!({"command": "bad"}),
            ReplyStatus::Failed,
            "bad in /etc/nagios/nrpe.cfg: the command line needs a shell",
        ),
        (
            json!({"command": "args", "args": "1"}),
            ReplyStatus::InvalidData,
            "arguments are refused: ",
        ),
    ] {
        let error = call(&system, "runcommand", input).await.unwrap_err();
        assert_eq!(error.status, status, "{error}");
        assert!(error.data["output"].as_str().unwrap().starts_with(text), "{error:?}");
        assert_eq!(error.data["exitcode"], json!(3));
    }
    assert_eq!(system.recorded_commands().len(), 0);
}

/// As NRPE 4.1.0, which replies "Unable to read output".
#[tokio::test]
async fn plugin_without_output_is_unknown_whatever_its_exit_code() {
    let system = FakeSystem::new();
    system.add_file(FILE, "command[check_x]=/check\n");
    for (code, stdout, stderr, exitcode, text) in [
        (0, "", "", 3, "exited with code 0, without standard output"),
        (2, "", "", 3, "exited with code 2, without standard output"),
        (0, "", "oops\n", 3, "exited with code 0, without standard output: oops"),
        (137, "", "", 3, "exited with code 137, or was ended by signal 9, without standard output"),
        (255, "x\n", "", 3, "exited with code 255: x"),
        // An empty line is an output.
        (0, "\n", "", 0, ""),
        (2, "x\n", "oops\n", 2, "x"),
    ] {
        let output = CommandOutput {
            combined: format!("{stdout}{stderr}").into(),
            ..CommandOutput::new(code, stdout)
        };
        system.script_output(&["/check"], output);
        let result = call(&system, "runcommand", json!({"command": "check_x"})).await;
        let data = result.unwrap_or_else(|error| error.data);
        assert_eq!((&data["exitcode"], &data["output"]), (&json!(exitcode), &json!(text)));
    }
}

#[tokio::test]
async fn checks_have_the_environment_of_nrpe_and_names_with_dots_and_blanks() {
    let system = FakeSystem::new();
    system.add_file(FILE, "command[check load.5]=/check\n");
    system.script_output(&["/check"], CommandOutput::new(0, "OK\n"));
    call(&system, "runcommand", json!({"command": "check load.5"})).await.unwrap();
    let environment = &system.recorded_commands()[0].env;
    assert_eq!(environment["NRPE_MULTILINESUPPORT"], "1");
    assert_eq!(environment["NRPE_PROGRAMVERSION"], "4.1.0");
}

#[test]
fn names_that_nrpe_refuses_are_refused() {
    let agent = agent();
    let action = agent.ddl().find_action("runcommand").unwrap();
    for name in ["", "a;b", "a|b", "a'b", "x\n", "\nx", "$(x)`", &"x".repeat(256)] {
        let input = json!({ "command": name });
        assert!(action.validate_input(input.as_object().unwrap()).is_err(), "{name:?}");
    }
}
