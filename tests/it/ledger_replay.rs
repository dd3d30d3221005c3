//! When a pending refresh is made again, and how often, with the real `rpcd apply`.

use muster_tests::command::{RpcCommand, describe_output};
use muster_tests::organisation::Organisation;
use muster_tests::rpcd::DaemonHome;
use serde_json::{Value, json};

use crate::ledger_rules::{OwedRefreshFixture, await_node};

/// What prevents a replay: more parameters of Y, more resources, options of the run, and the reason that is stated.
fn blockers() -> [(Value, Vec<Value>, &'static [&'static str], &'static str); 5] {
    let site = json!({"type": "exec", "title": "site", "command": ["/bin/false"]});
    [
        (json!({"require": "Exec[site]"}), vec![site], &[], "a dependency failed"),
        (json!({}), vec![], &["--tags", "other"], "the run selects other tags"),
        (json!({}), vec![], &["--skip-tags", "exec"], "the run skips one of its tags"),
        (json!({"schedule": "never"}), vec![], &[], "it is outside its schedule"),
        (json!({"noop": true}), vec![], &[], "it is in noop"),
    ]
}

/// A13.3: a replay honours dependencies, tags, schedules and noop. The refresh stays pending with the reason, and is made
/// once when nothing prevents it.
#[test]
fn a13_3_replay_waits_for_dependencies_tags_schedules_and_noop() {
    for (more, resources, options, reason) in blockers() {
        let fixture = OwedRefreshFixture::new();
        let mut blocked = vec![fixture.source("one"), fixture.working_exec(&more)];
        blocked.extend(resources);
        // Twice: a replay that was prevented does not count as one.
        for _ in 0..2 {
            let output = describe_output(&fixture.run(&blocked, options));
            assert_eq!(fixture.pending(), [reason], "{output}");
            assert_eq!(fixture.run_count(), 0, "{output}");
        }
        let free = [fixture.source("one"), fixture.working_exec(&json!({}))];
        let output = describe_output(&fixture.apply(&free));
        assert_eq!((fixture.run_count(), fixture.pending().len()), (1, 0), "{reason}: {output}");
    }
}

/// A13.3: `rpc ledger list` shows the reason, and the age in seconds.
#[tokio::test]
async fn a13_3_pending_refreshes_are_listed_with_reason_and_age() {
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker().await;
    let rpc = RpcCommand::new(&server, &organisation, &organisation.caller("rip"), "");
    let home = DaemonHome::new(&organisation, &organisation.node("n1"), &server.url(), "");
    let state = home.path("state/engine");
    let _daemon = home.start();
    await_node(&rpc, "n1").await;
    OwedRefreshFixture::with_state(tempfile::tempdir().unwrap(), state);
    let (list, exit) = rpc.run_json(&["ledger", "list"]).await;
    assert_eq!(exit, 0, "{list}");
    let entry = &list["replies"][0]["data"]["debts"][0];
    assert_eq!(entry["reason"], "its refresh failed", "{list}");
    let since = entry["since"].as_i64().unwrap();
    let age = entry["age"].as_i64().unwrap();
    assert!((0..=60).contains(&age), "{list}");
    assert!(
        (i64::try_from(muster_tests::now() / 1000).unwrap() - since - age).abs() <= 60,
        "{list}"
    );
}

/// A13.5: a target is refreshed once in a run, however many resources notify it, in how many runs, and with how many
/// pending refreshes of earlier runs.
#[test]
fn a13_5_target_of_many_events_is_refreshed_once() {
    let fixture = OwedRefreshFixture::new();
    let file = |name: &str, content: &str| json!({"type": "file", "title": fixture.path(name), "ensure": "file", "content": content, "notify": "Exec[Y]"});
    let all = |content: &str, y: Value| {
        let names = ["source", "second", "third", "fourth"];
        let mut resources: Vec<Value> = names.iter().map(|name| file(name, content)).collect();
        resources.push(y);
        resources
    };
    let failing = OwedRefreshFixture::exec(&["/bin/sh", "-c", "exit 3"], &json!({}));
    fixture.apply(&all("two", failing.clone()));
    let output = describe_output(&fixture.apply(&all("three", failing)));
    assert!(fixture.pending().len() > 4, "{output}");
    let resources = all("four", fixture.working_exec(&json!({})));
    let output = describe_output(&fixture.apply(&resources));
    assert_eq!((fixture.run_count(), fixture.pending().len()), (1, 0), "{output}");
    fixture.apply(&resources);
    assert_eq!(fixture.run_count(), 1);
}

/// A13.5: a chain A ~> B ~> C persists across failures at B: C is refreshed once, after B has succeeded.
#[test]
fn a13_5_chain_persists_across_failures_in_its_middle() {
    let fixture = OwedRefreshFixture::new();
    let last = json!({
        "type": "exec", "title": "C", "refreshonly": true,
        "command": ["/bin/sh", "-c", format!("echo C >> {}", fixture.path("log").display())],
    });
    let to_last = json!({"notify": "Exec[C]"});
    let failing = OwedRefreshFixture::exec(&["/bin/sh", "-c", "exit 3"], &to_last);
    for _ in 0..3 {
        let resources = [fixture.source("one"), failing.clone(), last.clone()];
        let output = describe_output(&fixture.apply(&resources));
        assert_eq!((fixture.run_count(), fixture.pending().len()), (0, 1), "{output}");
    }
    let resources = [fixture.source("one"), fixture.working_exec(&to_last), last];
    let output = describe_output(&fixture.apply(&resources));
    let log = std::fs::read_to_string(fixture.path("log")).unwrap();
    assert_eq!((log.as_str(), fixture.pending().len()), ("Y\nC\n", 0), "{output}");
    fixture.apply(&resources);
    assert_eq!(fixture.run_count(), 2);
}
