//! Tests of the agents through their handlers, with real files below a scratch directory.

mod planning;

use std::path::Path;
use std::sync::Arc;

use muster_api::system::StateDir;
use muster_api::system::real::RealSystem;
use muster_api::testing::TestNode;
use muster_api::wire::status::ReplyStatus;
use muster_api::{ActionError, Agent, NodePlugin as _};
use serde_json::{Value, json};

use crate::catalog::CatalogPlugin;
use crate::catalog::options::Options;

fn options(directory: &Path) -> Options {
    Options {
        enabled: true,
        state_dir: directory.join("state"),
        puppet_state: Some(vec![directory.join("puppet")]),
        lock_wait: 0,
    }
}

fn agent(name: &str, directory: &Path) -> Agent {
    let mut agents = CatalogPlugin(Arc::new(options(directory))).agents().unwrap();
    agents.retain(|agent| agent.name() == name);
    agents.remove(0)
}

async fn ask(agent: &Agent, action: &str, input: Value) -> Result<Value, ActionError> {
    let declared = agent.ddl().find_action(action).unwrap();
    let input = declared.validate_input(input.as_object().unwrap()).unwrap();
    let node = TestNode::named("dev1.example.net").unwrap();
    let system = Arc::new(RealSystem::new("/".into()));
    let cx = node.context("catalog", action, system).unwrap();
    let output = agent.find_handler(action).unwrap().call(&cx, input).await?;
    Ok(Value::Object(declared.validate_output(&output).unwrap()))
}

#[test]
fn agent_catalog_exists_only_if_enabled() {
    let directory = tempfile::tempdir().unwrap();
    let off = Options { enabled: false, ..options(directory.path()) };
    let agents = CatalogPlugin(Arc::new(off)).agents().unwrap();
    assert_eq!(agents.len(), 1);
    assert!(agents.iter().all(|agent| agent.ddl().find_action("replay").is_some()));
    let plugin = CatalogPlugin(Arc::new(options(directory.path())));
    assert_eq!(plugin.data_sources().unwrap().len(), 1);
}

fn catalog(directory: &Path, command: &str) -> String {
    let file = directory.join("motd");
    json!([
        {"type": "file", "title": file, "content": "hello\n", "notify": "Exec[reload]"},
        {"type": "exec", "title": "reload", "command": ["/bin/sh", "-c", command], "refreshonly": true},
    ])
    .to_string()
}

#[tokio::test]
async fn catalog_is_planned_and_applied_and_owed_refreshes_are_replayed() {
    let directory = tempfile::tempdir().unwrap();
    let (apply, ledger) = (agent("catalog", directory.path()), agent("ledger", directory.path()));
    let failing = format!("test -e {}/may", directory.path().display());
    let text = catalog(directory.path(), &failing);
    let planned = ask(&apply, "plan", json!({"catalog": text})).await.unwrap();
    assert_eq!(planned["events"][0]["status"], "noop", "{planned}");
    assert!(!directory.path().join("motd").exists());
    let failed = ask(&apply, "apply", json!({"catalog": text})).await.unwrap_err();
    assert!(failed.message.contains("Exec[reload]"), "{}", failed.message);
    assert_eq!(failed.data["pending"], 1);
    let owed = ask(&ledger, "list", json!({})).await.unwrap();
    assert_eq!(owed["debts"][0]["target"], "Exec[reload]", "{owed}");
    std::fs::write(directory.path().join("may"), "").unwrap();
    let paid = ask(&ledger, "replay", json!({})).await.unwrap();
    assert_eq!(
        (&paid["pending"], &paid["events"][0]["message"]),
        (&json!(0), &json!("Triggered 'refresh' from 1 event")),
        "{paid}"
    );
    let again = ask(&apply, "apply", json!({"catalog": text})).await.unwrap();
    assert_eq!(again["status"], "unchanged");
}

/// The state directory in the middle of a run is what a power failure leaves. The refresh is replayed by the catalog that was cut off: there may be no
/// other, and an earlier one does not have the target.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refresh_of_a_run_that_was_cut_off_is_replayed() {
    for has_earlier_run in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let apply = agent("catalog", directory.path());
        if has_earlier_run {
            let other = json!([{"type": "file", "title": path("other"), "content": "x"}]);
            ask(&apply, "apply", json!({"catalog": other.to_string()})).await.unwrap();
        }
        let script = format!(
            ": > {0}/begun; until test -e {0}/may; do sleep 0.05; done",
            directory.path().display()
        );
        let text = catalog(directory.path(), &script);
        let running =
            tokio::spawn(async move { ask(&apply, "apply", json!({"catalog": text})).await });
        while !path("begun").exists() {
            tokio::task::yield_now().await;
        }
        std::fs::create_dir_all(path("cut/state")).unwrap();
        for entry in std::fs::read_dir(path("state")).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_file() {
                std::fs::copy(entry.path(), path("cut/state").join(entry.file_name())).unwrap();
            }
        }
        std::fs::write(path("may"), "").unwrap();
        running.await.unwrap().unwrap();
        let ledger = agent("ledger", &path("cut"));
        let owed = ask(&ledger, "list", json!({})).await.unwrap();
        assert_eq!(owed["debts"][0]["target"], "Exec[reload]", "{owed}");
        let paid = ask(&ledger, "replay", json!({})).await.unwrap();
        assert_eq!(
            (&paid["pending"], &paid["events"][0]["message"]),
            (&json!(0), &json!("Triggered 'refresh' from 1 event")),
            "{paid}"
        );
    }
}

#[tokio::test]
async fn owed_refresh_can_be_dropped_by_target() {
    let directory = tempfile::tempdir().unwrap();
    let (apply, ledger) = (agent("catalog", directory.path()), agent("ledger", directory.path()));
    let text = catalog(directory.path(), "exit 1");
    ask(&apply, "apply", json!({"catalog": text})).await.unwrap_err();
    ask(&ledger, "drop", json!({"target": "Exec[other]"})).await.unwrap_err();
    let drop = |noop: bool| json!({"target": "Exec[reload]", "noop": noop});
    let planned = ask(&ledger, "drop", drop(true)).await.unwrap();
    assert_eq!(planned, json!({"dropped": 1, "pending": 1, "changed": true}));
    let replayed = ask(&ledger, "replay", json!({"noop": true})).await.unwrap();
    assert_eq!(
        (&replayed["failed"], &replayed["pending"]),
        (&json!(0), &json!(1)),
        "{replayed}: the command would fail"
    );
    let dropped = ask(&ledger, "drop", drop(false)).await.unwrap();
    assert_eq!(dropped, json!({"dropped": 1, "pending": 0, "changed": true}));
}

#[tokio::test]
async fn apply_is_refused_during_a_run_and_if_puppet_is_disabled() {
    let directory = tempfile::tempdir().unwrap();
    let apply = agent("catalog", directory.path());
    let text = catalog(directory.path(), "exit 0");
    let state = StateDir::open(&directory.path().join("state")).unwrap();
    let lock = state.acquire_lock("run.lock", std::time::Duration::ZERO).unwrap();
    let busy = ask(&apply, "apply", json!({"catalog": text})).await.unwrap_err();
    assert!(busy.reason.is_some() && busy.status == ReplyStatus::Other, "{}", busy.message);
    drop(lock);
    let puppet = directory.path().join("puppet");
    std::fs::create_dir(&puppet).unwrap();
    std::fs::write(puppet.join("agent_disabled.lock"), r#"{"disabled_message":"hand hacking"}"#)
        .unwrap();
    let disabled = ask(&apply, "apply", json!({"catalog": text})).await.unwrap_err();
    assert!(disabled.message.contains("Reason: 'hand hacking'"), "{}", disabled.message);
    assert!(!directory.path().join("motd").exists());
}

#[tokio::test]
async fn invalid_catalog_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let apply = agent("catalog", directory.path());
    let file = directory.path().join("x");
    for text in [
        "{".to_owned(),
        json!([{"type": "file", "title": file, "ensure": "file", "require": "File[/nowhere]"}]).to_string(),
        json!([{"type": "file", "title": file, "ensure": "file"}, {"type": "nosuchtype", "title": "x"}]).to_string(),
    ] {
        let refused = ask(&apply, "apply", json!({"catalog": text})).await.unwrap_err();
        assert_eq!(refused.status, ReplyStatus::InvalidData, "{}", refused.message);
    }
    assert!(!file.exists());
}
