//! External resource types: the example of the documentation, and programs that misbehave.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use muster_engine::ResourceEngine;
use muster_engine::event::ChangeEventStatus;
use muster_engine::external::ExternalTypes;
use muster_system::System;
use muster_system::command::CancelFlag;
use muster_system::real::RealSystem;
use serde_json::{Value as Json, json};

struct Node {
    directory: tempfile::TempDir,
    engine: ResourceEngine,
}

impl Node {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let system: Arc<dyn System> = Arc::new(RealSystem::new("/".into()));
        let types = ExternalTypes::new(Arc::clone(&system), directory.path());
        let engine = ResourceEngine::new(system).with_type_source(Arc::new(types));
        Self { directory, engine }
    }

    fn write(&self, name: &str, text: &str, mode: u32) {
        let path = self.directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
    }

    /// A node with the example type `ini_setting` of the documentation.
    fn with_example() -> Self {
        let node = Self::new();
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples/types.d");
        for (name, mode) in [("ini_setting.json", 0o644), ("ini_setting.py", 0o755)] {
            let text = std::fs::read_to_string(examples.join(name)).unwrap();
            node.write(name, &text, mode);
        }
        node
    }

    /// A node with the type `thing`, whose program is this shell script.
    fn with_script(script: &str) -> Self {
        let node = Self::new();
        let described = json!({
            "description": "For a test.", "program": "program", "timeout": 1, "refreshes": true,
            "attributes": {
                "ensure": {"description": "e", "property": true, "values": ["present", "absent"]},
                "secret": {"description": "s", "property": true, "sensitive": true},
            },
        });
        node.write("thing.json", &described.to_string(), 0o644);
        node.write("program", &format!("#!/bin/sh\n{script}\n"), 0o755);
        node
    }

    /// Returns the messages of the events, or the error if there are none.
    fn apply(&self, type_name: &str, name: &str, words: &Json, noop: bool) -> Vec<String> {
        let resource = match self.engine.check_resource(type_name, name, words.as_object().unwrap())
        {
            Ok(resource) => resource,
            Err(error) => return vec![error.one_line_message()],
        };
        let outcome = self.engine.apply_resource(&resource, CancelFlag::default(), noop);
        assert!(
            outcome
                .events
                .iter()
                .all(|event| event.status != ChangeEventStatus::Failure || outcome.error.is_some())
        );
        let mut said: Vec<String> = outcome.events.into_iter().map(|event| event.message).collect();
        if said.is_empty() {
            said.extend(outcome.error.map(|error| error.one_line_message()));
        }
        said
    }
}

#[test]
fn a10_11_example_type_sets_changes_and_removes_a_setting() {
    let node = Node::with_example();
    let file = node.directory.path().join("app.ini");
    std::fs::write(&file, "top = 1\n[server]\nport = 80\n").unwrap();
    let words = |value: &str| json!({"path": file, "section": "server", "setting": "workers", "value": value});
    let apply = |words: &Json, noop| node.apply("ini_setting", "workers", words, noop);
    assert_eq!(apply(&words("2"), true), ["current_value 'absent', should be 'present' (noop)"]);
    assert_eq!(apply(&words("2"), false), ["created"]);
    assert_eq!(apply(&words("2"), false), [""; 0]);
    assert_eq!(apply(&words("4"), false), ["value changed '2' to '4'"]);
    assert_eq!(
        std::fs::read_to_string(&file).unwrap(),
        "top = 1\n[server]\nport = 80\nworkers = 4\n"
    );
    let mut absent = words("4");
    absent["ensure"] = json!("absent");
    assert_eq!(apply(&absent, false), ["removed"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "top = 1\n[server]\nport = 80\n");
    let refused = apply(&json!({"colour": "red"}), false);
    assert!(refused[0].contains("no property or parameter `colour`"), "{refused:?}");
    let refused = apply(&json!({"ensure": "sideways"}), false);
    assert!(refused[0].contains("must be one of present, absent"), "{refused:?}");
    let failed = apply(&json!({"value": "1"}), false);
    assert!(failed[0].contains("`path` is needed"), "{failed:?}");
}

#[test]
fn misbehaving_program_fails_only_its_resource() {
    for (script, expected) in [
        ("echo nonsense", "did not print exactly one JSON object"),
        ("echo why >&2; exit 3", "ended with code 3: why"),
        ("sleep 60", "did not end within 1 s"),
        ("echo '{\"error\": \"no such thing\"}'", "no such thing"),
        ("echo '{}'", "has no `state`"),
    ] {
        let node = Node::with_script(script);
        let said = node.apply("thing", "x", &json!({"ensure": "present"}), false);
        assert!(said.len() == 1 && said[0].contains(expected), "{script}: {said:?}");
    }
}

#[test]
fn sensitive_values_are_redacted_and_sent_by_standard_input() {
    let node = Node::with_script(
        "cat > call; echo \"$*\" > arguments; echo '{\"state\": {\"ensure\": \"present\", \"secret\": \"old\"}}'",
    );
    let said = node.apply("thing", "x", &json!({"secret": "hush"}), false);
    assert_eq!(said, ["changed [redacted] to [redacted]"]);
    let read = |name: &str| std::fs::read_to_string(node.directory.path().join(name)).unwrap();
    assert_eq!(read("arguments"), "apply\n");
    let call: Json = serde_json::from_str(&read("call")).unwrap();
    assert_eq!(call["protocol"], json!("muster/type/v1"));
    assert_eq!(
        (&call["op"], &call["property"], &call["desired"]["secret"]),
        (&json!("apply"), &json!("secret"), &json!("hush"))
    );
    assert_eq!(call["state"]["secret"], json!("old"));
}

#[test]
fn writable_programs_and_invalid_descriptions_are_refused() {
    for (name, mode) in [("program", 0o777), ("thing.json", 0o666)] {
        let node = Node::with_script("echo '{\"state\": {}}'");
        std::fs::set_permissions(node.directory.path().join(name), PermissionsExt::from_mode(mode))
            .unwrap();
        let said = node.apply("thing", "x", &json!({"ensure": "present"}), false);
        assert!(said[0].contains("run `chmod go-w"), "{said:?}");
    }
    let node = Node::with_script("");
    node.write("thing.json", "{\"description\": \"x\", \"sensitve\": true}", 0o644);
    let said = node.apply("thing", "x", &json!({"ensure": "present"}), false);
    assert!(said[0].contains("is not a type description"), "{said:?}");
    let unknown = node.apply("nothing", "x", &json!({}), false);
    assert!(unknown[0].contains("there is no resource type `nothing`"), "{unknown:?}");
}
