//! Tests of `find`, `search` and `plan`, which change nothing.

use serde_json::{Value, json};

use super::{Machine, changes, memory, scratch};

#[tokio::test]
async fn find_returns_one_resource_and_search_all_of_a_type() {
    let machine = Machine::new(memory(), json!({}));
    let found = machine.ask("find", json!({"type": "HOST", "name": "localhost"})).await.unwrap();
    let properties = json!({"ensure": "present", "ip": "127.0.0.1", "target": "/etc/hosts"});
    assert_eq!(
        found,
        json!({"type": "host", "name": "localhost", "managed": "unknown", "properties": properties})
    );
    let none = machine.ask("find", json!({"type": "host", "name": "nobody"})).await.unwrap();
    assert_eq!(none["properties"], json!({"ensure": "absent"}));
    let all = machine.ask("search", json!({"type": "host"})).await.unwrap();
    assert_eq!(all, json!({"type": "host", "resources": {"localhost": properties}, "count": 1}));
}

#[tokio::test]
async fn plan_and_noop_change_nothing() {
    let (_directory, system) = scratch();
    let machine = Machine::new(system, json!({}));
    let before = machine.text("/etc/passwd");
    let mut input =
        json!({"type": "user", "name": "rip", "comment": "Other", "shell": "/bin/bash"});
    let plan = machine.ask("plan", input.clone()).await.unwrap();
    input["noop"] = json!(true);
    let noop = machine.ask("do", input).await.unwrap();
    assert_eq!(plan, noop);
    assert_eq!(plan["changed"], json!(true));
    let result = plan["result"].as_str().unwrap();
    assert!(
        result.contains("comment: current_value 'R. I. P.', should be 'Other' (noop)"),
        "{result}"
    );
    let statuses = plan["events"].as_array().unwrap().iter().map(|event| &event["status"]);
    assert_eq!(statuses.collect::<Vec<_>>(), [&json!("noop"), &json!("noop")]);
    assert_eq!(changes(&plan).len(), 2);
    assert_eq!(machine.text("/etc/passwd"), before);
}

#[tokio::test]
async fn messages_of_a_change_are_returned() {
    let machine = Machine::new(memory(), json!({}));
    let done = machine.ask("do", json!({"type": "notify", "name": "hello"})).await.unwrap();
    assert_eq!(done["log"], json!(["hello"]));
    let plan = machine.ask("plan", json!({"type": "notify", "name": "hello"})).await.unwrap();
    assert_eq!(plan["log"], Value::Array(Vec::new()));
}
