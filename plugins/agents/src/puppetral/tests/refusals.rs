//! Tests that an invalid request changes nothing (status 4), a failed change reports its progress (status 1), and neither reveals secrets.

use muster_api::wire::status::ReplyStatus;
use serde_json::json;

use super::{Machine, memory, output, scratch};

#[tokio::test]
async fn a10_3_invalid_request_is_refused_before_any_change() {
    let cases = [
        (json!({"type": "usr", "name": "rip"}), "did you mean `user`?"),
        (json!({"type": "user", "name": "rip", "shel": "/bin/sh"}), "did you mean `shell`?"),
        (json!({"type": "user", "name": "rip", "ensure": "maybe"}), "maybe"),
        (json!({"type": "user", "name": "rip", "uid": "many"}), "many"),
        (json!({"type": "host", "name": "db", "ip": "10.0.0.256"}), "10.0.0.256"),
        (json!({"type": "host", "name": "db", "require": "User[rip]"}), "single resource"),
        (json!({"type": "host", "name": "", "ip": "10.0.0.1"}), "title"),
        (json!({"type": "host", "name": "db", "ip": null}), "null"),
    ];
    for (input, words) in cases {
        let (_directory, system) = scratch();
        let machine = Machine::new(system, json!({}));
        let before = (machine.text("/etc/passwd"), machine.text("/etc/hosts"));
        for action in ["plan", "do"] {
            let error = machine.ask(action, input.clone()).await.unwrap_err();
            assert_eq!(error.status, ReplyStatus::InvalidData, "{input}: {error:?}");
            assert!(error.message.contains(words), "{input}: {}", error.message);
        }
        assert_eq!(before, (machine.text("/etc/passwd"), machine.text("/etc/hosts")));
    }
    let machine = Machine::new(memory(), json!({}));
    for action in ["find", "search"] {
        let input = match action {
            "find" => json!({"type": "usr", "name": "x"}),
            _ => json!({"type": "usr"}),
        };
        let error = machine.ask(action, input).await.unwrap_err();
        assert_eq!(error.status, ReplyStatus::InvalidData, "{error:?}");
    }
}

#[tokio::test]
async fn a10_2_failed_change_returns_its_error_and_events() {
    let system = memory();
    system.script_output(&["/bin/a"], output(3, "no such luck\n"));
    let machine = Machine::new(system, json!({"allow_types": ["exec"]}));
    let error = machine.ask("do", json!({"type": "exec", "name": "/bin/a"})).await.unwrap_err();
    assert_eq!(error.status, ReplyStatus::Failed);
    assert!(error.message.starts_with("Exec[/bin/a]: "), "{}", error.message);
    assert!(error.message.contains("returned 3 instead of one of [0]"), "{}", error.message);
    assert_eq!(error.data["changed"], json!(false));
    assert_eq!(error.data["events"][0]["status"], json!("failure"));
    assert_eq!(error.data["log"], json!(["no such luck"]));
}

#[tokio::test]
async fn unreadable_file_is_a_failure() {
    let system = memory();
    system.inject_failure("/etc/hosts", "read");
    let machine = Machine::new(system, json!({}));
    for action in ["plan", "do"] {
        let input = json!({"type": "host", "name": "db", "ip": "10.0.0.1"});
        let error = machine.ask(action, input).await.unwrap_err();
        assert_eq!(error.status, ReplyStatus::Failed);
        assert!(error.message.contains("/etc/hosts"), "{}", error.message);
    }
}

#[tokio::test]
async fn errors_never_contain_a_password() {
    let secret = "hunter2";
    let cases = [
        json!({"type": "user", "name": "rip", "password": format!("{secret}:x")}),
        json!({"type": "user", "name": "rip", "password": [secret]}),
        json!({"type": "user", "name": "rip", "password": {"a": secret}}),
        json!({"type": "user", "name": "rip", "password": secret, "uid": "x"}),
        json!({"type": "usr", "name": "rip", "password": secret}),
        json!({"type": "user", "name": "rip", "password": secret}),
        json!({"type": "user", "name": "new", "password": secret, "gid": "nobodys"}),
    ];
    for input in cases {
        let (directory, system) = scratch();
        // A directory at the path of the lock file makes every change of accounts fail.
        std::fs::create_dir(directory.path().join("etc/.pwd.lock")).unwrap();
        let machine = Machine::new(system, json!({}));
        let error = machine.ask("do", input.clone()).await.unwrap_err();
        let told = format!("{error:?} {error}");
        assert!(!told.contains(secret), "{input}: {told}");
    }
}
