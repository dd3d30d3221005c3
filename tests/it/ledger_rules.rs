//! What becomes of a pending refresh when the catalog changes, with the real `rpcd apply`.

#![expect(
    clippy::disallowed_types,
    clippy::indexing_slicing,
    reason = "the test starts the real program, and knows the documents that it reads"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use muster_engine::ledger::expiry::read_expired;
use muster_tests::command::{RpcCommand, describe_output, find_program};
use muster_tests::ledger::{age_absence, keep_first_intent};
use muster_tests::organisation::Organisation;
use muster_tests::poll_until_ok;
use muster_tests::rpcd::DaemonHome;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};

/// Older than the 30 days for which the refresh of a vanished target is kept.
const EXPIRED_AGE_SECONDS: i64 = 31 * 24 * 3600;

/// A machine whose exec Y owes a refresh: its source was changed, and Y failed.
pub(crate) struct OwedRefreshFixture {
    directory: TempDir,
    /// Directory of the ledger.
    state: PathBuf,
}

impl OwedRefreshFixture {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let state = directory.path().join("state");
        Self::with_state(directory, state)
    }

    pub(crate) fn with_state(directory: TempDir, state: PathBuf) -> Self {
        std::fs::create_dir(directory.path().join("puppet")).unwrap();
        let fixture = Self { directory, state };
        let failing = OwedRefreshFixture::exec(&["/bin/sh", "-c", "exit 3"], &json!({}));
        let first = fixture.apply(&[fixture.source("one"), failing]);
        assert_eq!(fixture.pending(), ["its refresh failed"], "{}", describe_output(&first));
        fixture
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The file that notifies Y.
    pub(crate) fn source(&self, content: &str) -> Value {
        let title = self.path("source");
        json!({"type": "file", "title": title, "ensure": "file", "content": content, "notify": "Exec[Y]"})
    }

    /// The file, which notifies nothing.
    fn silent_source(&self) -> Value {
        json!({"type": "file", "title": self.path("source"), "ensure": "file", "content": "one"})
    }

    pub(crate) fn exec(command: &[&str], more: &Value) -> Value {
        let mut exec =
            json!({"type": "exec", "title": "Y", "command": command, "refreshonly": true});
        exec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        exec
    }

    /// Y with a command that records its execution.
    pub(crate) fn working_exec(&self, more: &Value) -> Value {
        let line = format!("echo Y >> {}", self.path("log").display());
        Self::exec(&["/bin/sh", "-c", &line], more)
    }

    pub(crate) fn run_count(&self) -> usize {
        std::fs::read_to_string(self.path("log")).unwrap_or_default().lines().count()
    }

    pub(crate) fn apply(&self, resources: &[Value]) -> Output {
        self.run(resources, &["--detailed-exitcodes"])
    }

    pub(crate) fn run(&self, resources: &[Value], options: &[&str]) -> Output {
        let catalog = self.path("catalog.json");
        std::fs::write(&catalog, json!(resources).to_string()).unwrap();
        let mut command = Command::new(find_program("rpcd"));
        command.arg("apply").arg(catalog).args(options).arg("--verbose");
        command.arg("--state-dir").arg(&self.state);
        command.arg("--report").arg(self.path("report.json"));
        command.arg("--puppet-state").arg(self.path("puppet"));
        command.output().unwrap()
    }

    /// The reasons of the pending refreshes, as reported by the last run.
    pub(crate) fn pending(&self) -> Vec<String> {
        let report = std::fs::read(self.path("report.json")).unwrap();
        let report: Value = serde_json::from_slice(&report).unwrap();
        let pending = report["pending_refreshes"].as_array().unwrap();
        pending.iter().map(|owed| owed["reason"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Moves the time since which the target is missing into the past.
    fn age_absence(&self, seconds: i64) {
        age_absence(&self.state, seconds);
    }

    /// Values of this field of the pending refreshes, as reported by the last run.
    fn flags(&self, name: &str) -> Vec<bool> {
        let report = std::fs::read(self.path("report.json")).unwrap();
        let report: Value = serde_json::from_slice(&report).unwrap();
        let pending = report["pending_refreshes"].as_array().unwrap();
        pending.iter().map(|owed| owed[name].as_bool().unwrap()).collect()
    }

    /// The file that is not there and notifies Y.
    fn absent_source(&self) -> Value {
        json!({"type": "file", "title": self.path("source"), "ensure": "absent", "notify": "Exec[Y]"})
    }
}

/// The source notifies nothing any more, so only the open intent can refresh Y.
#[test]
fn a13_2_open_intent_is_pending_if_the_source_was_changed_and_dropped_otherwise() {
    for (is_changed, refreshes) in [(true, 1), (false, 0)] {
        let fixture = OwedRefreshFixture::new();
        keep_first_intent(&fixture.state);
        if !is_changed {
            std::fs::remove_file(fixture.path("source")).unwrap();
        }
        let output = fixture.apply(&[fixture.silent_source(), fixture.working_exec(&json!({}))]);
        assert_eq!(fixture.run_count(), refreshes, "{}", describe_output(&output));
        assert_eq!(fixture.pending(), [""; 0]);
    }
}

/// A13.4: the definition of the target changed. It is replayed with the new definition, once, and flagged.
#[test]
fn a13_4_changed_target_is_refreshed_by_its_new_definition_and_flagged() {
    let fixture = OwedRefreshFixture::new();
    assert_eq!(fixture.flags("target_changed"), [false]);
    // The new definition fails, too: still pending, and flagged.
    let failing = OwedRefreshFixture::exec(&["/bin/sh", "-c", "exit 4"], &json!({}));
    let output = describe_output(&fixture.apply(&[fixture.source("one"), failing]));
    assert_eq!(fixture.flags("target_changed"), [true], "{output}");
    assert!(output.contains("its refresh failed; its definition has changed since"), "{output}");
    let resources = [fixture.source("one"), fixture.working_exec(&json!({}))];
    let output = describe_output(&fixture.apply(&resources));
    let flagged = "Notice: /Stage[main]/Main/Exec[Y]: A refresh by File";
    assert!(output.contains(flagged), "{output}");
    assert!(output.contains("; its definition has changed since"), "{output}");
    assert_eq!((fixture.run_count(), fixture.pending().len()), (1, 0), "{output}");
    fixture.apply(&resources);
    assert_eq!(fixture.run_count(), 1);
}

/// A13.4: the source was reverted, by the catalog. The change may have had effects, so the target is refreshed, once, and
/// flagged.
#[test]
fn a13_4_reverted_source_is_replayed_and_flagged() {
    let fixture = OwedRefreshFixture::new();
    assert_eq!(fixture.flags("source_reverted"), [false]);
    // Reverted, and Y still fails: the old entry is flagged, that of the revert is not.
    let failing = OwedRefreshFixture::exec(&["/bin/sh", "-c", "exit 3"], &json!({}));
    let output = describe_output(&fixture.apply(&[fixture.absent_source(), failing.clone()]));
    assert!(!fixture.path("source").exists(), "{output}");
    assert_eq!(fixture.flags("source_reverted"), [true, false], "{output}");
    assert!(output.contains("its refresh failed; its source was reverted since"), "{output}");
    // Changed once more: no longer reverted; the entry of the revert is now the reverted one.
    let output = describe_output(&fixture.apply(&[fixture.source("one"), failing]));
    assert_eq!(fixture.flags("source_reverted"), [false, true, false], "{output}");
    let resources = [fixture.absent_source(), fixture.working_exec(&json!({}))];
    let output = describe_output(&fixture.apply(&resources));
    let flagged = "is still made; its source was reverted since";
    assert!(output.contains(flagged), "{output}");
    assert_eq!((fixture.run_count(), fixture.pending().len()), (1, 0), "{output}");
    fixture.apply(&resources);
    assert_eq!(fixture.run_count(), 1);
}

/// A13.4: the same with a content that changes to and fro, and with a revert by hand that the catalog then agrees with.
#[test]
fn a13_4_reverted_content_is_flagged() {
    let fixture = OwedRefreshFixture::new();
    let failing = OwedRefreshFixture::exec(&["/bin/sh", "-c", "exit 3"], &json!({}));
    fixture.apply(&[fixture.source("two"), failing.clone()]);
    assert_eq!(fixture.flags("source_reverted"), [false, false], "neither absent nor `one`");
    std::fs::write(fixture.path("source"), "one").unwrap();
    let output = describe_output(&fixture.apply(&[fixture.source("one"), failing]));
    assert_eq!(fixture.flags("source_reverted"), [false, true], "{output}");
    let resources = [fixture.source("one"), fixture.working_exec(&json!({}))];
    let output = describe_output(&fixture.apply(&resources));
    assert!(output.contains("its source was reverted since"), "{output}");
    assert_eq!((fixture.run_count(), fixture.pending().len()), (1, 0), "{output}");
}

/// A13.4: the target left the catalog. The refresh is kept for 30 days, in case the target returns, and then dropped with
/// a warning.
#[test]
fn a13_4_refresh_of_a_vanished_target_is_kept_and_expires() {
    let fixture = OwedRefreshFixture::new();
    let without_target = [fixture.silent_source()];
    fixture.apply(&without_target);
    assert_eq!(fixture.pending(), ["it is not in the catalog"]);
    fixture.age_absence(EXPIRED_AGE_SECONDS - 2 * 24 * 3600);
    fixture.apply(&without_target);
    assert_eq!(fixture.pending(), ["it is not in the catalog"], "29 days are not 30");
    fixture.age_absence(2 * 24 * 3600);
    let output = describe_output(&fixture.apply(&without_target));
    assert!(output.contains("Warning: Dropped the refresh of Exec[Y]"), "{output}");
    assert_eq!(fixture.pending(), Vec::<String>::new());
    let expired = read_expired(&fixture.state).unwrap();
    let source = format!("File[{}]", fixture.path("source").display());
    assert_eq!(expired.len(), 1, "{output}");
    assert_eq!((&expired[0].target, &expired[0].source), (&"Exec[Y]".to_owned(), &source));
}

/// A13.4: a target that returns in time is refreshed.
#[test]
fn a13_4_refresh_of_a_target_that_returns_is_made() {
    let fixture = OwedRefreshFixture::new();
    fixture.apply(&[fixture.silent_source()]);
    fixture.age_absence(EXPIRED_AGE_SECONDS - 2 * 24 * 3600);
    let output = describe_output(
        &fixture.apply(&[fixture.silent_source(), fixture.working_exec(&json!({}))]),
    );
    assert_eq!((fixture.run_count(), fixture.pending().len()), (1, 0), "{output}");
}

/// A13.4: `rpc ledger list` shows the flags of a node, and the expiry is an event on the bus, published once.
#[tokio::test]
async fn a13_4_flags_are_listed_and_expiry_is_an_event() {
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker_with_stores().await;
    let rpc = RpcCommand::new(&server, &organisation, &organisation.caller("rip"), "");
    let home = DaemonHome::new(&organisation, &organisation.node("n1"), &server.url(), "");
    let state = home.path("state/engine");
    let daemon = home.start();
    await_node(&rpc, "n1").await;

    let fixture = OwedRefreshFixture::with_state(tempfile::tempdir().unwrap(), state);
    let failing = OwedRefreshFixture::exec(&["/bin/sh", "-c", "exit 4"], &json!({}));
    fixture.apply(&[fixture.absent_source(), failing]);
    let (list, exit) = rpc.run_json(&["ledger", "list"]).await;
    assert_eq!(exit, 0, "{list}");
    let entries = list["replies"][0]["data"]["debts"].as_array().unwrap();
    let flags = entries.iter().map(|entry| (&entry["source_reverted"], &entry["target_changed"]));
    // The first entry was made by the change, the second by its revert.
    let expected = [(&json!(true), &json!(true)), (&json!(false), &json!(false))];
    assert_eq!(flags.collect::<Vec<_>>(), expected, "{list}");

    let arguments = ["events", "--kind", "refresh_expired", "-t", "20", "--jsonl"];
    let mut watcher = rpc.prepare_command(&arguments).spawn().unwrap();
    let mut ready = String::new();
    let mut messages = BufReader::new(watcher.stderr.take().unwrap());
    messages.read_line(&mut ready).await.unwrap();
    assert!(ready.contains("Waiting for events"), "{ready}");
    let without_target = [fixture.silent_source()];
    fixture.apply(&without_target);
    fixture.age_absence(EXPIRED_AGE_SECONDS);
    fixture.apply(&without_target);
    // A restarted daemon does not publish it again.
    let home = daemon.home().clone();
    await_events_file(&home.path("state/events.json")).await;
    drop(daemon);
    let _daemon = home.start();
    let output = watcher.wait_with_output().await.unwrap();
    let lines = String::from_utf8(output.stdout).unwrap();
    let events: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(events.len(), 2, "one for each entry: {lines}");
    for event in events {
        let told = (&event["kind"], &event["sender"], &event["data"]["target"]);
        assert_eq!(told, (&json!("refresh_expired"), &json!("n1"), &json!("Exec[Y]")), "{event}");
        let source = format!("File[{}]", fixture.path("source").display());
        assert_eq!(event["data"]["source"], json!(source), "{event}");
    }
}

pub(crate) async fn await_node(rpc: &RpcCommand, name: &str) {
    poll_until_ok("the daemon replies", Duration::from_mins(1), async || {
        let output = rpc.run(&["ping", "-I", name]).await;
        if output.status.success() { Ok(()) } else { Err(describe_output(&output)) }
    })
    .await;
}

/// Waits until the daemon has stored the ids of two published events.
async fn await_events_file(path: &Path) {
    poll_until_ok("two events are published", Duration::from_mins(1), async || {
        let ids = std::fs::read(path).unwrap_or_default();
        let ids: Vec<Value> = serde_json::from_slice(&ids).unwrap_or_default();
        if ids.len() == 2 { Ok(()) } else { Err(ids) }
    })
    .await;
}

/// A13.9: an exec whose guard says that it is not needed does not run, and clears its own entry.
#[test]
fn a13_9_satisfied_guard_clears_the_entry_without_a_run() {
    for guard in [
        json!({"creates": "/bin/sh"}),
        json!({"unless": "/bin/true"}),
        json!({"onlyif": "/bin/false"}),
    ] {
        let fixture = OwedRefreshFixture::new();
        let resources = [fixture.source("one"), fixture.working_exec(&guard)];
        let output = fixture.apply(&resources);
        let text = describe_output(&output);
        assert_eq!((fixture.run_count(), fixture.pending().len()), (0, 0), "{guard}: {text}");
        // The node is clean again, and stays so when the guard no longer holds.
        let output = fixture.apply(&resources);
        assert_eq!(output.status.code(), Some(0), "{guard}: {}", describe_output(&output));
        let output = fixture.apply(&[fixture.source("one"), fixture.working_exec(&json!({}))]);
        assert_eq!(fixture.run_count(), 0, "{guard}: {}", describe_output(&output));
    }
}

/// A13.9: the other way round: a guard that says that the command is needed does not clear the entry, but runs it.
#[test]
fn a13_9_unsatisfied_guard_runs_the_refresh_once() {
    for guard in [
        json!({"creates": "/nonexistent"}),
        json!({"unless": "/bin/false"}),
        json!({"onlyif": "/bin/true"}),
    ] {
        let fixture = OwedRefreshFixture::new();
        let resources = [fixture.source("one"), fixture.working_exec(&guard)];
        let text = describe_output(&fixture.apply(&resources));
        assert_eq!((fixture.run_count(), fixture.pending().len()), (1, 0), "{guard}: {text}");
    }
}
