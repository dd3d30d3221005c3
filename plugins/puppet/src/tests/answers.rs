//! Tests of the actions that read Puppet's files and locks, and of `disable` and `enable`.

use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use super::machine::{Machine, ask};

#[tokio::test]
async fn m14_disable_writes_the_format_of_puppet_and_keeps_the_first_message() {
    let machine = Machine::new("exit 1");
    let puppet = machine.puppet();
    let lock = machine.state("agent_disabled.lock");
    let answer = ask(&puppet, "disable", json!({"message": "hand hacking"})).await.unwrap();
    assert_eq!(
        (&answer["enabled"], &answer["disable_message"]),
        (&json!(false), &json!("hand hacking"))
    );
    assert_eq!(std::fs::read(&lock).unwrap(), br#"{"disabled_message":"hand hacking"}"#);
    assert_eq!(std::fs::metadata(&lock).unwrap().permissions().mode() & 0o777, 0o644);
    let again = ask(&puppet, "disable", json!({"message": "another"})).await.unwrap();
    assert_eq!(again["disable_message"], "hand hacking");
    let status = ask(&puppet, "status", json!({})).await.unwrap();
    assert_eq!(
        (&status["status"], &status["enabled"], &status["disable_message"]),
        (&json!("disabled"), &json!(false), &json!("hand hacking"))
    );
    for _ in 0..2 {
        assert_eq!(ask(&puppet, "enable", json!({})).await.unwrap()["enabled"], true);
        assert!(!lock.exists());
    }
    let by = ask(&puppet, "disable", json!({})).await.unwrap();
    assert_eq!(by["disable_message"], "Disabled via Muster by tester");
}

#[tokio::test]
async fn noop_of_disable_and_enable_changes_nothing() {
    let machine = Machine::new("exit 1");
    let puppet = machine.puppet();
    let lock = machine.state("agent_disabled.lock");
    let input = json!({"message": "moving", "noop": true});
    let planned = ask(&puppet, "disable", input.clone()).await.unwrap();
    assert_eq!(
        planned,
        json!({"status": "would be disabled: moving", "enabled": true, "disable_message": "moving", "changed": true})
    );
    let nothing = ask(&puppet, "enable", json!({"noop": true})).await.unwrap();
    assert_eq!((&nothing["enabled"], &nothing["changed"]), (&json!(true), &json!(false)));
    assert!(!lock.exists());
    std::fs::write(&lock, r#"{"disabled_message":"first"}"#).unwrap();
    let nothing = ask(&puppet, "disable", input).await.unwrap();
    assert_eq!((&nothing["enabled"], &nothing["changed"]), (&json!(false), &json!(false)));
    let planned = ask(&puppet, "enable", json!({"noop": true})).await.unwrap();
    assert_eq!((&planned["enabled"], &planned["changed"]), (&json!(false), &json!(true)));
    assert!(lock.exists());
    assert_eq!(ask(&puppet, "enable", json!({})).await.unwrap()["changed"], true);
    assert!(!lock.exists());
}

#[tokio::test]
async fn m14_lock_file_with_any_content_disables() {
    let machine = Machine::new("exit 1");
    let puppet = machine.puppet();
    for content in ["", "garbage", "{\"other\":1}"] {
        std::fs::write(machine.state("agent_disabled.lock"), content).unwrap();
        let status = ask(&puppet, "status", json!({})).await.unwrap();
        assert_eq!(
            (&status["status"], &status["disable_message"]),
            (&json!("disabled"), &json!("reason not specified")),
            "{content}"
        );
    }
}

#[tokio::test]
async fn locks_are_listed_with_their_states() {
    let machine = Machine::new("exit 1");
    let puppet = machine.puppet();
    std::fs::write(machine.state("agent_catalog_run.lock"), "999999999").unwrap();
    std::fs::write(machine.state("agent_disabled.lock"), "{\"disabled_message\":\"no\"}").unwrap();
    let told = ask(&puppet, "locks", json!({})).await.unwrap();
    let locks: Vec<_> = told["locks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|lock| (lock["name"].clone(), lock["state"].clone()))
        .collect();
    assert_eq!(
        locks,
        [
            (json!("run"), json!("free")),
            (json!("puppet"), json!("stale")),
            (json!("disabled"), json!("held")),
        ]
    );
    assert_eq!(told["locks"][2]["message"], "no");
}

#[tokio::test]
async fn machine_without_a_run_has_no_summary_and_no_report() {
    let machine = Machine::new("exit 1");
    let puppet = machine.puppet();
    for action in ["last_run_summary", "last_run_report"] {
        let error = ask(&puppet, action, json!({})).await.unwrap_err();
        assert!(error.message.starts_with("no readable"), "{}", error.message);
    }
    let status = ask(&puppet, "status", json!({})).await.unwrap();
    assert_eq!(status["message"], "Currently stopped; last completed run unknown");
}
