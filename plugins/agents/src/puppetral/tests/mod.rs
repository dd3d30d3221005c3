//! Tests of the agent through its handlers, with inputs and outputs validated against the DDL.

mod article;
mod foreign;
mod generated;
mod order;
mod permission;
mod planning;
mod reading;
mod refusals;
mod undo;
mod undo_exactness;

use std::sync::Arc;

use muster_api::system::System;
use muster_api::system::command::CommandOutput;
use muster_api::system::fake::FakeSystem;
use muster_api::system::real::RealSystem;
use muster_api::testing::TestNode;
use muster_api::{ActionError, Agent};
use muster_engine::ResourceEngine;
use serde_json::{Value, json};

use crate::puppetral::{Options, build_agent};

#[derive(Clone)]
struct Machine {
    agent: Agent,
    system: Arc<dyn System>,
}

impl Machine {
    fn new(system: impl System + 'static, options: Value) -> Self {
        let options: Options = serde_json::from_value(options).unwrap();
        Self { agent: build_agent(options).unwrap(), system: Arc::new(system) }
    }

    async fn ask(&self, action: &str, input: Value) -> Result<Value, ActionError> {
        let declared = self.agent.ddl().find_action(action).unwrap();
        let input = declared.validate_input(input.as_object().unwrap()).unwrap();
        let node = TestNode::named("dev1.example.net").unwrap();
        let cx = node.context("puppetral", action, Arc::clone(&self.system)).unwrap();
        let checked = |output| Value::Object(declared.validate_output(&output).unwrap());
        match self.agent.find_handler(action).unwrap().call(&cx, input).await {
            Ok(output) => Ok(checked(output)),
            Err(error) => {
                checked(error.data.clone());
                Err(error)
            }
        }
    }

    /// Plans, applies and applies again: the plan has the events of the change, and the second application changes nothing.
    async fn converges(&self, input: Value) -> Value {
        let plan = self.ask("plan", input.clone()).await.unwrap();
        let done = self.ask("do", input.clone()).await.unwrap();
        assert_eq!(changes(&plan), changes(&done), "{input}");
        assert_eq!((&plan["changed"], &done["changed"]), (&json!(true), &json!(true)), "{done}");
        let again = self.ask("do", input).await.unwrap();
        assert_eq!((&again["changed"], &again["events"]), (&json!(false), &json!([])), "{again}");
        assert_eq!(again["result"], json!("no changes"));
        done
    }

    fn text(&self, path: &str) -> String {
        String::from_utf8(self.system.read_file(path.as_ref(), 1 << 20).unwrap()).unwrap()
    }
}

/// The property, previous value and desired value of each event.
fn changes(report: &Value) -> Vec<Value> {
    let events = report["events"].as_array().unwrap().iter();
    events
        .map(|event| json!([event["property"], event["previous_value"], event["desired_value"]]))
        .collect()
}

/// A scratch directory with the accounts of root and rip.
fn scratch() -> (tempfile::TempDir, RealSystem) {
    let directory = tempfile::tempdir().unwrap();
    let files = [
        (
            "etc/passwd",
            "root:x:0:0:root:/root:/bin/sh\nrip:x:1000:1000:R. I. P.:/home/rip:/bin/sh\n",
        ),
        ("etc/shadow", "root:*:19000:0:99999:7:::\nrip:$1$old$hash:19000:0:99999:7:::\n"),
        ("etc/group", "root:x:0:\nrip:x:1000:\n"),
        ("etc/gshadow", "root:*::\nrip:!::\n"),
        ("etc/hosts", "# mine\n127.0.0.1\tlocalhost\n"),
        ("etc/aliases", "# mine\npostmaster: root\n"),
        ("tmp/.keep", ""),
        ("home/.keep", ""),
        ("run/.keep", ""),
    ];
    for (path, content) in files {
        let path = directory.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    let system = RealSystem::new(directory.path().to_owned());
    (directory, system)
}

/// A simulated machine with a hosts file.
fn memory() -> FakeSystem {
    let system = FakeSystem::new().with_root("/scratch");
    system.add_file("/etc/hosts", "127.0.0.1\tlocalhost\n");
    system
}

#[test]
fn sensitive_attributes_are_sensitive_in_the_ddl() {
    let agent = build_agent(Options::default()).unwrap();
    let engine = ResourceEngine::new(Arc::new(FakeSystem::new()));
    let attributes = engine.type_schemas().flat_map(|schema| schema.attributes);
    let secrets: Vec<&str> = attributes
        .filter(|attribute| attribute.sensitive)
        .map(|attribute| attribute.name)
        .collect();
    assert!(secrets.contains(&"password"));
    for action in ["do", "plan"] {
        let action = agent.ddl().find_action(action).unwrap();
        assert!(secrets.iter().all(|name| action.is_sensitive(name)), "{secrets:?}");
    }
}

fn output(code: i32, text: &str) -> CommandOutput {
    CommandOutput::new(code, text)
}
