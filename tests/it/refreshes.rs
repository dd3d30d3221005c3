//! Refreshes are never lost: the six ways in which a stock Puppet loses one, each with the real `rpcd apply`, and again
//! with the process killed at random moments.
//!
//! In each scenario a changed file notifies Y, and Y notifies Z; the cause prevents the refresh of Y in the first run.
//! After the cause is removed, Y and Z must have run, exactly once if no process was killed; until then the node must
//! not be reported as clean.

#![expect(
    clippy::disallowed_types,
    clippy::indexing_slicing,
    reason = "the test starts and kills the real program, and knows the documents that it reads"
)]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use muster_tests::command::find_program;
use muster_tests::program_version::ProgramVersion;
use muster_tests::tier::repetitions;
use rand::Rng;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Number of killed runs per scenario: 6 × 35 = 210, and 6 × 10 in `make test`.
fn kills_per_cause() -> usize {
    repetitions(100).min(35)
}

/// What prevents the refresh of Y in the first run; it is removed for the next run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum RefreshBlocker {
    /// Another dependency of Y fails (M1).
    Dependency,
    /// Y's command fails when it is refreshed (M2).
    Refresh,
    /// The run is limited to the tags of the source (M3).
    Tags,
    /// Y is in noop (M4).
    Noop,
    /// Y is outside its schedule (M5).
    Schedule,
    /// The run is killed between the source and Y (M6).
    Kill,
}

pub(crate) struct RefreshFixture {
    directory: TempDir,
    cause: RefreshBlocker,
}

impl RefreshFixture {
    pub(crate) fn new(cause: RefreshBlocker) -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("w")).unwrap();
        std::fs::create_dir(directory.path().join("puppet")).unwrap();
        Self { directory, cause }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The catalog, with the cause or without it.
    fn catalog(&self, broken: bool) -> Value {
        let w = self.path("w");
        let w = w.display();
        let is = |cause| broken && self.cause == cause;
        let log = |word: &str| json!(["/bin/sh", "-c", format!("echo {word} >> {w}/log")]);
        let mut y = json!({
            "type": "exec", "title": "Y", "command": log("Y"), "refreshonly": true, "tag": "target", "notify": "Exec[Z]",
        });
        if is(RefreshBlocker::Refresh) {
            y["command"] = json!(["/bin/sh", "-c", "exit 3"]);
        }
        if is(RefreshBlocker::Noop) {
            y["noop"] = json!(true);
        }
        if is(RefreshBlocker::Schedule) {
            y["schedule"] = json!("never");
        }
        let site = if is(RefreshBlocker::Dependency) { "/bin/false" } else { "/bin/true" };
        let pause = if is(RefreshBlocker::Kill) {
            format!("touch {w}/between; exec sleep 20")
        } else {
            "exit 0".to_owned()
        };
        json!([
            {"type": "file", "title": format!("{w}/source"), "ensure": "file", "content": "x-1.0\n", "tag": "source",
             "notify": "Exec[Y]", "before": "Exec[pause]"},
            {"type": "exec", "title": "pause", "command": ["/bin/sh", "-c", pause], "before": "Exec[Y]",
             "onlyif": format!("/usr/bin/test ! -e {w}/between")},
            {"type": "exec", "title": "site", "command": [site], "before": "Exec[Y]"},
            y,
            {"type": "exec", "title": "Z", "command": log("Z"), "refreshonly": true, "tag": "target"},
        ])
    }

    fn command(&self, broken: bool) -> Command {
        self.command_of(ProgramVersion::Present, broken)
    }

    fn command_of(&self, version: ProgramVersion, broken: bool) -> Command {
        let catalog = self.path("catalog.json");
        std::fs::write(&catalog, self.catalog(broken).to_string()).unwrap();
        let mut command = Command::new(version.find_program("rpcd"));
        command.arg("apply").arg(catalog);
        command.arg("--state-dir").arg(self.path("state"));
        command.arg("--report").arg(self.path("report.json"));
        // A child of a killed run may hold the lock between its fork and its exec.
        command.args(["--wait", "10"]);
        command.arg("--puppet-state").arg(self.path("puppet"));
        if broken && self.cause == RefreshBlocker::Tags {
            command.args(["--tags", "source"]);
        }
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, broken: bool) -> Output {
        self.run_version(ProgramVersion::Present, broken)
    }

    pub(crate) fn run_version(&self, version: ProgramVersion, broken: bool) -> Output {
        self.command_of(version, broken).arg("--detailed-exitcodes").output().unwrap()
    }

    /// Starts a run and kills it after this time.
    fn run_and_kill(&self, after: Duration) {
        let mut child = self.command(true).spawn().unwrap();
        let deadline = Instant::now() + after;
        while Instant::now() < deadline {
            std::hint::spin_loop();
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }

    fn report(&self) -> Value {
        serde_json::from_slice(&std::fs::read(self.path("report.json")).unwrap()).unwrap()
    }

    pub(crate) fn pending_count(&self) -> usize {
        self.report()["pending_refreshes"].as_array().unwrap().len()
    }

    /// How often Y and Z ran.
    pub(crate) fn run_counts(&self) -> (usize, usize) {
        let log = std::fs::read_to_string(self.path("w/log")).unwrap_or_default();
        let count = |word| log.lines().filter(|line| *line == word).count();
        (count("Y"), count("Z"))
    }

    /// Runs without the cause until no refresh is pending. Each run has exit code 2, because the exec `site` always
    /// runs.
    fn converge(&self, context: &str) {
        for _ in 0..4 {
            let output = self.run(false);
            assert_eq!(output.status.code(), Some(2), "{context}\n{}", output_text(&output));
            if self.pending_count() == 0 {
                return;
            }
        }
        panic!("{context}\nstill pending: {}", self.report()["pending_refreshes"]);
    }
}

fn output_text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Runs the scenario without a random kill: nothing is lost, nothing is done twice, and the pending refresh is
/// reported.
fn check_without_kills(cause: RefreshBlocker) {
    let fixture = RefreshFixture::new(cause);
    if cause == RefreshBlocker::Kill {
        let mut child = fixture.command(true).spawn().unwrap();
        await_file(&fixture.path("w/between"));
        child.kill().unwrap();
        child.wait().unwrap();
    } else {
        let output = fixture.run(true);
        assert_ne!(output.status.code(), Some(0), "{}", output_text(&output));
        assert_eq!(fixture.pending_count(), 1, "{}", output_text(&output));
        assert_eq!(fixture.report()["pending_refreshes"][0]["target"], "Exec[Y]");
        assert!(
            output_text(&output).contains("the refresh of Exec[Y] by "),
            "{}",
            output_text(&output)
        );
    }
    assert_eq!(fixture.run_counts(), (0, 0));
    fixture.converge(&format!("{cause:?}"));
    assert_eq!(fixture.run_counts(), (1, 1), "each must run once");
    fixture.run(false);
    assert_eq!(fixture.run_counts(), (1, 1), "a further run must not repeat them");
}

/// Runs the scenario with a kill at a random moment of the first run.
fn check_with_kills(cause: RefreshBlocker) {
    let run_time = {
        let fixture = RefreshFixture::new(if cause == RefreshBlocker::Kill {
            RefreshBlocker::Noop
        } else {
            cause
        });
        let started = Instant::now();
        fixture.run(true);
        started.elapsed()
    };
    let mut rng = rand::rng();
    for trial in 0..kills_per_cause() {
        let fixture = RefreshFixture::new(cause);
        let after = run_time.mul_f64(rng.random_range(0.0..1.3));
        fixture.run_and_kill(after);
        let mut context = format!("{cause:?}, trial {trial}, killed after {after:?}");
        let _ = write!(context, "\nledger:\n{}", read_ledger(&fixture.path("state")));
        fixture.converge(&context);
        let (y, z) = fixture.run_counts();
        assert!(y >= 1 && z >= 1, "lost: Y ran {y} times, Z {z} times\n{context}");
        // An interrupted refresh is repeated once; further repetitions are an error.
        assert!(y <= 2 && z <= 3, "Y ran {y} times, Z {z} times\n{context}");
    }
}

/// Without `--detailed-exitcodes`, too, a run does not succeed while refreshes are pending.
#[test]
fn a13_6_apply_does_not_succeed_with_pending_refreshes() {
    let fixture = RefreshFixture::new(RefreshBlocker::Tags);
    let output = fixture.command(true).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", output_text(&output));
    assert_eq!(fixture.pending_count(), 1);
    let output = fixture.command(false).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", output_text(&output));
}

/// With `--root`, ledger, lock and reports are below this directory; nothing is written outside.
#[test]
fn apply_keeps_its_state_below_the_root() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("root");
    for name in ["etc", "opt/puppetlabs/puppet/cache/state"] {
        std::fs::create_dir_all(root.join(name)).unwrap();
    }
    let catalog = directory.path().join("catalog.json");
    let resources = json!([{"type": "file", "title": "/etc/motd", "content": "hello\n"}]);
    std::fs::write(&catalog, resources.to_string()).unwrap();
    let mut command = Command::new(find_program("rpcd"));
    command.arg("apply").arg(&catalog).arg("--root").arg(&root);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", output_text(&output));
    assert!(root.join("etc/motd").exists());
    for name in ["refreshes.journal", "run.lock", "last_run_report.json", "catalog"] {
        let path = root.join("var/lib/muster/engine").join(name);
        assert!(path.exists(), "{} is missing", path.display());
    }
}

fn read_ledger(state: &Path) -> String {
    std::fs::read_to_string(state.join("refreshes.journal")).unwrap_or_default()
}

fn await_file(path: &Path) {
    let deadline = Instant::now() + Duration::from_mins(1);
    while !path.exists() {
        assert!(Instant::now() < deadline, "{} was not created", path.display());
        std::thread::yield_now();
    }
}

macro_rules! scenarios {
    ($($cause:ident: $once:ident, $killed:ident;)*) => {$(
        #[test]
        fn $once() {
            check_without_kills(RefreshBlocker::$cause);
        }

        #[test]
        fn $killed() {
            check_with_kills(RefreshBlocker::$cause);
        }
    )*};
}

scenarios! {
    Dependency: m1_failed_dependency_loses_no_refresh, m1_killed_at_random;
    Refresh: a13_5_m2_failed_refresh_is_repeated, m2_killed_at_random;
    Tags: a13_3_m3_run_with_other_tags_loses_no_refresh, m3_killed_at_random;
    Noop: a13_3_m4_noop_target_loses_no_refresh, m4_killed_at_random;
    Schedule: a13_3_m5_target_outside_its_schedule_loses_no_refresh, m5_killed_at_random;
    Kill: m6_killed_run_loses_no_refresh, a13_1_m6_killed_at_random;
}
