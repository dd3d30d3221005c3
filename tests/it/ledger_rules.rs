//! What becomes of a pending refresh when the catalog changes, and what `--lint` reports, with the real `rpcd apply`.

#![expect(
    clippy::disallowed_types,
    clippy::indexing_slicing,
    reason = "the test starts the real program, and knows the documents that it reads"
)]

use std::path::PathBuf;
use std::process::{Command, Output};

use muster_engine::ledger::JOURNAL_FILE;
use muster_engine::ledger::journal::{LedgerRecord, parse_journal};
use muster_tests::command::{describe_output, find_program};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Older than the 30 days for which the refresh of a vanished target is kept.
const EXPIRED_AGE_SECONDS: i64 = 31 * 24 * 3600;

/// A machine whose exec Y owes a refresh: its source was changed, and Y failed.
struct OwedRefreshFixture {
    directory: TempDir,
}

impl OwedRefreshFixture {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("puppet")).unwrap();
        let fixture = Self { directory };
        let failing = OwedRefreshFixture::exec(&["/bin/sh", "-c", "exit 3"], &json!({}));
        let first = fixture.apply(&[fixture.source("one"), failing]);
        assert_eq!(fixture.pending(), ["its refresh failed"], "{}", describe_output(&first));
        fixture
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The file that notifies Y.
    fn source(&self, content: &str) -> Value {
        let title = self.path("source");
        json!({"type": "file", "title": title, "ensure": "file", "content": content, "notify": "Exec[Y]"})
    }

    /// The file, which notifies nothing.
    fn silent_source(&self) -> Value {
        json!({"type": "file", "title": self.path("source"), "ensure": "file", "content": "one"})
    }

    fn exec(command: &[&str], more: &Value) -> Value {
        let mut exec =
            json!({"type": "exec", "title": "Y", "command": command, "refreshonly": true});
        exec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        exec
    }

    /// Y with a command that records its execution.
    fn working_exec(&self, more: &Value) -> Value {
        let line = format!("echo Y >> {}", self.path("log").display());
        Self::exec(&["/bin/sh", "-c", &line], more)
    }

    fn run_count(&self) -> usize {
        std::fs::read_to_string(self.path("log")).unwrap_or_default().lines().count()
    }

    fn apply(&self, resources: &[Value]) -> Output {
        self.run(resources, &["--detailed-exitcodes"])
    }

    fn run(&self, resources: &[Value], options: &[&str]) -> Output {
        let catalog = self.path("catalog.json");
        std::fs::write(&catalog, json!(resources).to_string()).unwrap();
        let mut command = Command::new(find_program("rpcd"));
        command.arg("apply").arg(catalog).args(options).arg("--verbose");
        command.arg("--state-dir").arg(self.path("state"));
        command.arg("--report").arg(self.path("report.json"));
        command.arg("--puppet-state").arg(self.path("puppet"));
        command.output().unwrap()
    }

    /// The reasons of the pending refreshes, as reported by the last run.
    fn pending(&self) -> Vec<String> {
        let report = std::fs::read(self.path("report.json")).unwrap();
        let report: Value = serde_json::from_slice(&report).unwrap();
        let pending = report["pending_refreshes"].as_array().unwrap();
        pending.iter().map(|owed| owed["reason"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Makes all entries of the ledger this much older.
    fn age_ledger(&self, seconds: i64) {
        let path = self.path("state").join(JOURNAL_FILE);
        let (records, damage) = parse_journal(&std::fs::read(&path).unwrap());
        assert_eq!(damage, Vec::<String>::new());
        let aged = records.into_iter().map(|record| match record {
            LedgerRecord::Owed { mut refresh } => {
                refresh.since -= seconds;
                LedgerRecord::Owed { refresh }
            }
            record => record,
        });
        std::fs::write(&path, aged.flat_map(|record| record.to_line()).collect::<Vec<u8>>())
            .unwrap();
    }
}

/// A13.4: the definition of the target changed. The new one is refreshed, once, and the log says so.
#[test]
fn changed_target_is_refreshed_by_its_new_definition() {
    let fixture = OwedRefreshFixture::new();
    let resources = [fixture.source("one"), fixture.working_exec(&json!({}))];
    let output = describe_output(&fixture.apply(&resources));
    assert!(output.contains("its definition has changed since"), "{output}");
    assert_eq!((fixture.run_count(), fixture.pending().len()), (1, 0), "{output}");
    fixture.apply(&resources);
    assert_eq!(fixture.run_count(), 1);
}

/// A13.4: the source was reverted. The effects of the change may still have to be replaced, so the target is refreshed.
#[test]
fn reverted_source_still_refreshes_its_target() {
    let fixture = OwedRefreshFixture::new();
    std::fs::remove_file(fixture.path("source")).unwrap();
    let absent = json!({"type": "file", "title": fixture.path("source"), "ensure": "absent", "notify": "Exec[Y]"});
    let output = describe_output(&fixture.apply(&[absent, fixture.working_exec(&json!({}))]));
    assert_eq!((fixture.run_count(), fixture.pending().len()), (1, 0), "{output}");
}

/// A13.4: the target left the catalog. The refresh is kept for 30 days, in case the target returns, and then dropped with a warning.
#[test]
fn refresh_of_a_vanished_target_is_kept_and_expires() {
    let fixture = OwedRefreshFixture::new();
    let without_target = [fixture.silent_source()];
    fixture.apply(&without_target);
    assert_eq!(fixture.pending(), ["it is not in the catalog"]);
    fixture.age_ledger(EXPIRED_AGE_SECONDS);
    let output = describe_output(&fixture.apply(&without_target));
    assert!(output.contains("Dropped the refresh of Exec[Y]"), "{output}");
    assert_eq!(fixture.pending(), Vec::<String>::new());
}

/// A13.4: a target that returns in time is refreshed.
#[test]
fn refresh_of_a_target_that_returns_is_made() {
    let fixture = OwedRefreshFixture::new();
    fixture.apply(&[fixture.silent_source()]);
    let output = describe_output(
        &fixture.apply(&[fixture.silent_source(), fixture.working_exec(&json!({}))]),
    );
    assert_eq!((fixture.run_count(), fixture.pending().len()), (1, 0), "{output}");
}

/// A13.9: an exec whose guard says that it is not needed does not run, and clears its own entry.
#[test]
fn satisfied_guard_clears_the_entry_without_a_run() {
    for guard in [json!({"creates": "/bin/sh"}), json!({"unless": "/bin/true"})] {
        let fixture = OwedRefreshFixture::new();
        let resources = [fixture.source("one"), fixture.working_exec(&guard)];
        let output = describe_output(&fixture.apply(&resources));
        assert_eq!((fixture.run_count(), fixture.pending().len()), (0, 0), "{guard}: {output}");
    }
}

/// A13.8: the lint reports execs that can lose their refresh, with the path to the resource whose failure loses it, and orphans. It
/// fails under `--strict` only.
#[test]
fn lint_reports_fragile_and_orphaned_execs() {
    let fixture = OwedRefreshFixture::new();
    let command = ["/bin/true"];
    let dependency =
        json!({"type": "exec", "title": "site", "command": command, "before": "Exec[Y]"});
    let fragile =
        [fixture.source("one"), dependency, OwedRefreshFixture::exec(&command, &json!({}))];
    let output = fixture.run(&fragile, &["--lint"]);
    let text = describe_output(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("Exec[Y]") && text.contains("if Exec[site] fails"), "{text}");
    assert_eq!(fixture.run(&fragile, &["--lint", "--strict"]).status.code(), Some(1));

    let orphan = [
        fixture.silent_source(),
        OwedRefreshFixture::exec(&command, &json!({"creates": "/bin/x"})),
    ];
    let output = fixture.run(&orphan, &["--lint", "--strict"]);
    let text = describe_output(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("Exec[Y] never runs"), "{text}");

    let sound =
        [fixture.source("one"), OwedRefreshFixture::exec(&command, &json!({"creates": "/bin/x"}))];
    let output = fixture.run(&sound, &["--lint", "--strict"]);
    assert_eq!(output.status.code(), Some(0), "{}", describe_output(&output));
}
