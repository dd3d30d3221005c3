//! Tests that a plan starts no program that the catalog specifies and leaves no file behind.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use super::{agent, ask};

#[tokio::test]
async fn plan_runs_no_guard_no_status_command_and_ignores_noop_false() {
    let directory = tempfile::tempdir().unwrap();
    let (mark, program) = (directory.path().join("started"), directory.path().join("canary"));
    std::fs::write(&program, format!("#!/bin/sh\n: > '{}'\n", mark.display())).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let made = directory.path().join("made");
    let hostile = [
        json!({"type": "exec", "title": "a", "command": "/bin/true", "onlyif": program}),
        json!({"type": "exec", "title": "b", "command": "/bin/true", "unless": program}),
        json!({"type": "exec", "title": program, "noop": false}),
        json!({"type": "exec", "title": "d", "command": program, "refreshonly": true, "noop": false, "subscribe": "Exec[e]"}),
        json!({"type": "service", "title": "s", "provider": "base", "status": program, "ensure": "running", "noop": false}),
        json!({"type": "package", "title": "p", "provider": "pip", "command": program, "ensure": "latest", "noop": false}),
        json!({"type": "file", "title": made, "content": "x", "validate_cmd": program, "noop": false}),
    ];
    let catalog = agent("catalog", directory.path());
    for resource in hostile {
        let source = json!({"type": "exec", "title": "e", "command": "/bin/true", "noop": false});
        let text = json!([source, resource]).to_string();
        let plan = ask(&catalog, "plan", json!({"catalog": text})).await.unwrap();
        assert_eq!(plan["changed"], json!(0), "{resource}");
        assert!(!mark.exists() && !made.exists(), "{resource}");
    }
    let left: Vec<String> = std::fs::read_dir(directory.path().join("state"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.contains("lock"))
        .collect();
    assert_eq!(left, Vec::<String>::new());
    // Control: the same guard runs when the catalog is applied.
    let text = json!([{"type": "exec", "title": "a", "command": "/bin/true", "onlyif": program}])
        .to_string();
    ask(&catalog, "apply", json!({"catalog": text})).await.unwrap();
    assert!(mark.exists());
}

#[tokio::test]
async fn resource_that_was_not_evaluated_is_an_event() {
    let directory = tempfile::tempdir().unwrap();
    let catalog = agent("catalog", directory.path());
    let text = json!([
        {"type": "exec", "title": "a", "command": "/bin/true", "onlyif": "/bin/true", "notify": "Exec[b]"},
        {"type": "exec", "title": "b", "command": "/bin/true", "refreshonly": true},
    ]);
    let plan = ask(&catalog, "plan", json!({"catalog": text.to_string()})).await.unwrap();
    let events = plan["events"].as_array().unwrap();
    let message = events[0]["message"].as_str().unwrap();
    assert!(message.starts_with("not evaluated: ") && message.contains("/bin/true"), "{message}");
    assert_eq!((&events[0]["resource"], &events[0]["status"]), (&json!("Exec[a]"), &json!("noop")));
    assert_eq!((&plan["failed"], &plan["status"]), (&json!(0), &Value::from("unchanged")));
}
