//! Tests of the options that allow and deny changes, and of resources that Puppet manages.

use muster_api::ActionError;
use muster_api::wire::status::{ReplyReason, ReplyStatus};
use serde_json::{Value, json};

use super::{Machine, memory};
use crate::puppetral::Options;

/// The rule that denied the call; `None` for any other result.
fn rule(answer: Result<Value, ActionError>) -> Option<String> {
    match answer {
        Err(ActionError {
            status: ReplyStatus::Other,
            reason: Some(ReplyReason::Denied { rule }),
            ..
        }) => Some(rule),
        _ => None,
    }
}

#[tokio::test]
async fn a10_7_types_are_allowed_and_denied_by_option() {
    let exec = json!({"type": "exec", "name": "/bin/true"});
    let host = json!({"type": "Host", "name": "db", "ip": "10.0.0.1"});
    let cases = [
        (json!({}), Some("deny_types"), None),
        (json!({"allow_types": ["exec"]}), None, Some("allow_types")),
        (
            json!({"allow_types": ["exec", "host"], "deny_types": ["exec"]}),
            Some("deny_types"),
            None,
        ),
        (json!({"deny_types": ["host"]}), None, Some("deny_types")),
        (json!({"deny_types": []}), None, None),
    ];
    for (options, of_exec, of_host) in cases {
        for (input, expected) in [(&exec, of_exec), (&host, of_host)] {
            let system = memory();
            let machine = Machine::new(system.clone(), options.clone());
            let expected = expected.map(|rule| format!("plugins.puppetral.{rule}"));
            for action in ["plan", "do"] {
                assert_eq!(
                    rule(machine.ask(action, input.clone()).await),
                    expected,
                    "{options} {input}"
                );
            }
            let untouched = system.recorded_command_lines().is_empty()
                && system.file_text("/etc/hosts").lines().count() == 1;
            assert_eq!(untouched, expected.is_some(), "{options} {input}");
        }
    }
}

#[tokio::test]
async fn allowed_names_apply_to_the_real_name_of_the_resource() {
    let options = json!({"allow_names": {"host": ["db"], "file": ["/etc/motd"]}});
    let machine = Machine::new(memory(), options);
    let denied = Some("plugins.puppetral.allow_names.host".to_owned());
    let other = machine.ask("do", json!({"type": "host", "name": "www", "ip": "10.0.0.1"})).await;
    assert_eq!(rule(other), denied);
    machine.converges(json!({"type": "host", "name": "db", "ip": "10.0.0.1"})).await;
    machine.converges(json!({"type": "mailalias", "name": "x", "recipient": "y"})).await;
    let elsewhere =
        json!({"type": "file", "name": "/etc/motd", "path": "/etc/shadow", "content": "x"});
    let denied = Some("plugins.puppetral.allow_names.file".to_owned());
    assert_eq!(rule(machine.ask("do", elsewhere).await), denied);
    machine.converges(json!({"type": "file", "name": "//etc/motd/", "content": "x"})).await;

    let options = json!({"allow_types": ["exec"], "allow_names": {"exec": ["/bin/true"]}});
    let machine = Machine::new(memory(), options);
    let hidden = json!({"type": "exec", "name": "/bin/true", "command": "/bin/false"});
    assert!(rule(machine.ask("plan", hidden).await).is_some());
    machine
        .ask("plan", json!({"type": "exec", "name": "t", "command": "/bin/true"}))
        .await
        .unwrap();
}

#[tokio::test]
async fn denial_of_exec_includes_commands_of_other_types() {
    let input =
        json!({"type": "file", "name": "/etc/x", "content": "x", "validate_cmd": "/bin/true %"});
    let machine = Machine::new(memory(), json!({}));
    let denied = Some("plugins.puppetral.deny_types".to_owned());
    assert_eq!(rule(machine.ask("do", input.clone()).await), denied);
    let machine = Machine::new(memory(), json!({"deny_types": []}));
    machine.ask("plan", input).await.unwrap();
}

#[tokio::test]
async fn resources_that_puppet_manages_are_refused() {
    let system = memory();
    system.add_file("/var/cache/puppet/state/resources.txt", "class[main]\nhost[db]\nuser[rip]\n");
    let db = json!({"type": "host", "name": "db", "ip": "10.0.0.1"});
    let www = json!({"type": "host", "name": "www", "ip": "10.0.0.2"});
    let machine = Machine::new(system.clone(), json!({}));
    let denied = Some("plugins.puppetral.allow_managed".to_owned());
    assert_eq!(rule(machine.ask("do", db.clone()).await), denied);
    machine.converges(www.clone()).await;
    for (name, managed) in [("db", true), ("www", false)] {
        let found = machine.ask("find", json!({"type": "host", "name": name})).await.unwrap();
        assert_eq!(found["managed"], json!(managed));
    }
    Machine::new(system.clone(), json!({"allow_managed": true})).converges(db.clone()).await;

    system.inject_failure("/var/cache/puppet/state/resources.txt", "read");
    let unsure = machine.ask("do", db).await.unwrap_err();
    assert_eq!(unsure.status, ReplyStatus::Failed);
    let elsewhere = json!({"resources_file": "/none"});
    let found =
        Machine::new(system, elsewhere).ask("find", json!({"type": "host", "name": "www"})).await;
    assert_eq!(found.unwrap()["managed"], json!("unknown"));
}

#[test]
fn unknown_options_are_refused() {
    for options in
        [json!({"allow_type": ["user"]}), json!({"lock_wait": -1}), json!({"allow_types": "user"})]
    {
        assert!(serde_json::from_value::<Options>(options.clone()).is_err(), "{options}");
    }
}
