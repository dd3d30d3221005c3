//! Tests of undo: a change is undone by the identifier of its request, with everything that it replaced.

use std::path::Path;

use serde_json::{Value, json};

use super::{Machine, memory, scratch};

/// A machine that keeps undo records.
fn machine(state: &Path) -> (tempfile::TempDir, Machine) {
    let (directory, system) = scratch();
    std::fs::write(directory.path().join("tmp/motd"), "old\n").unwrap();
    let options = json!({"state_dir": state, "allow_types": ["file", "user", "group", "host", "exec", "tidy", "resources", "cron", "service"]});
    (directory, Machine::new(system, options))
}

/// The identifiers of the undo records, oldest first.
fn kept(state: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(state.join("undo")).unwrap();
    let name = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.unwrap().file_name().into_string().unwrap()
    };
    let mut names: Vec<String> = entries.map(name).collect();
    names.sort_unstable();
    names
}

async fn changed_and_back(input: Value, file: &str) {
    let state = tempfile::tempdir().unwrap();
    let (_directory, machine) = machine(state.path());
    let before = machine.text(file);
    machine.ask("do", input.clone()).await.unwrap();
    let after = machine.text(file);
    assert_ne!(before, after, "{input}");
    let ids = kept(state.path());
    let [id] = ids.as_slice() else {
        panic!("one change, one record: {ids:?}");
    };
    let plan = machine.ask("do", json!({"undo": id, "noop": true})).await.unwrap();
    assert_eq!(plan["changed"], true, "{plan}");
    assert_eq!(machine.text(file), after, "noop undoes nothing");
    machine.ask("do", json!({"undo": id})).await.unwrap();
    assert_eq!(machine.text(file), before, "{input}");
    let ids = kept(state.path());
    let again = ids.last().filter(|_| ids.len() == 2).unwrap();
    machine.ask("do", json!({"undo": again})).await.unwrap();
    assert_eq!(machine.text(file), after, "an undo can be undone");
}

#[tokio::test]
async fn undo_restores_the_content_of_a_file() {
    changed_and_back(json!({"type": "file", "name": "/tmp/motd", "content": "new\n"}), "/tmp/motd")
        .await;
}

#[tokio::test]
async fn undo_restores_a_property_of_a_user() {
    changed_and_back(json!({"type": "user", "name": "rip", "shell": "/bin/zsh"}), "/etc/passwd")
        .await;
}

#[tokio::test]
async fn undo_removes_created_and_restores_removed_resources() {
    let input = json!({"type": "host", "name": "db1", "ip": "10.0.0.5"});
    let state = tempfile::tempdir().unwrap();
    let (_directory, machine) = machine(state.path());
    let before = machine.text("/etc/hosts");
    machine.ask("do", input).await.unwrap();
    machine.ask("do", json!({"undo": kept(state.path())[0]})).await.unwrap();
    assert!(!machine.text("/etc/hosts").contains("db1"));
    assert!(machine.text("/etc/hosts").starts_with(&before));
    let removed = json!({"type": "file", "name": "/tmp/motd", "ensure": "absent"});
    machine.ask("do", removed).await.unwrap();
    let ids = kept(state.path());
    machine.ask("do", json!({"undo": ids.last().unwrap()})).await.unwrap();
    assert_eq!(machine.text("/tmp/motd"), "old\n");
}

#[tokio::test]
async fn impossible_undo_returns_the_reason() {
    let state = tempfile::tempdir().unwrap();
    let (_directory, machine) = machine(state.path());
    let unknown = "019a9f2e-7c1b-7d44-9a57-0e6f5c1d2b3a";
    let error = machine.ask("do", json!({"undo": unknown})).await.unwrap_err();
    assert!(error.message.contains("no undo record"), "{}", error.message);
    let command = json!({"type": "exec", "name": "/bin/true"});
    machine.ask("do", command).await.unwrap();
    let ids = kept(state.path());
    let error = machine.ask("do", json!({"undo": ids[0]})).await.unwrap_err();
    assert!(
        error.message.contains("the change of Exec[/bin/true] cannot be undone"),
        "{}",
        error.message
    );
    let both = json!({"undo": unknown, "type": "file", "name": "/tmp/motd"});
    let error = machine.ask("do", both).await.unwrap_err();
    assert!(error.message.contains("only `undo` and `force`"), "{}", error.message);
    let nothing = Machine::new(memory(), json!({}));
    let error = nothing.ask("do", json!({"undo": unknown})).await.unwrap_err();
    assert!(error.message.contains("keeps no undo records"), "{}", error.message);
}
