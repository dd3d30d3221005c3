//! Refreshes are never lost: the six ways in which a stock Puppet loses one, each through the real `rpcd apply`, and each again with
//! the process killed at random moments.
//!
//! In every story a changed file notifies Y, and Y notifies Z; something keeps Y from being refreshed in the first run. When the cause
//! is gone, Y and Z must have run, exactly once if nobody was killed; and the node must not have looked clean before.

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
use rand::Rng;
use serde_json::{Value, json};
use tempfile::TempDir;

/// How often each story is told with a kill: 6 × 35 = 210.
const KILLS: usize = 35;

/// What keeps Y from being refreshed in the first run, and is gone in the next.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Cause {
    /// Something else that Y needs fails (M1).
    Dependency,
    /// Y's command fails when it is refreshed (M2).
    Refresh,
    /// The run asks for the tags of the source only (M3).
    Tags,
    /// Y is in noop (M4).
    Noop,
    /// Y is outside of its schedule (M5).
    Schedule,
    /// The run is killed between the source and Y (M6).
    Kill,
}

struct World {
    directory: TempDir,
    cause: Cause,
}

impl World {
    fn new(cause: Cause) -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("w")).unwrap();
        std::fs::create_dir(directory.path().join("puppet")).unwrap();
        Self { directory, cause }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The catalog, while the cause is there and afterwards.
    fn catalog(&self, broken: bool) -> Value {
        let w = self.path("w");
        let w = w.display();
        let is = |cause| broken && self.cause == cause;
        let log = |word: &str| json!(["/bin/sh", "-c", format!("echo {word} >> {w}/log")]);
        let mut y = json!({
            "type": "exec", "title": "Y", "command": log("Y"), "refreshonly": true, "tag": "target", "notify": "Exec[Z]",
        });
        if is(Cause::Refresh) {
            y["command"] = json!(["/bin/sh", "-c", "exit 3"]);
        }
        if is(Cause::Noop) {
            y["noop"] = json!(true);
        }
        if is(Cause::Schedule) {
            y["schedule"] = json!("never");
        }
        let site = if is(Cause::Dependency) { "/bin/false" } else { "/bin/true" };
        let pause = if is(Cause::Kill) {
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
        let catalog = self.path("catalog.json");
        std::fs::write(&catalog, self.catalog(broken).to_string()).unwrap();
        let mut command = Command::new(find_program("rpcd"));
        command.arg("apply").arg(catalog).arg("--detailed-exitcodes");
        command.arg("--state-dir").arg(self.path("state"));
        command.arg("--report").arg(self.path("report.json"));
        // A child of a killed run may hold the lock for the moment between its fork and its exec.
        command.args(["--wait", "10"]);
        command.arg("--puppet-state").arg(self.path("puppet"));
        if broken && self.cause == Cause::Tags {
            command.args(["--tags", "source"]);
        }
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, broken: bool) -> Output {
        self.command(broken).output().unwrap()
    }

    /// Starts a run and kills it after a while.
    fn run_and_kill(&self, after: Duration) {
        let mut child = self.command(true).spawn().unwrap();
        let until = Instant::now() + after;
        while Instant::now() < until {
            std::hint::spin_loop();
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }

    fn report(&self) -> Value {
        serde_json::from_slice(&std::fs::read(self.path("report.json")).unwrap()).unwrap()
    }

    fn owed(&self) -> usize {
        self.report()["pending_refreshes"].as_array().unwrap().len()
    }

    /// How often Y and Z ran.
    fn ran(&self) -> (usize, usize) {
        let log = std::fs::read_to_string(self.path("w/log")).unwrap_or_default();
        let count = |word| log.lines().filter(|line| *line == word).count();
        (count("Y"), count("Z"))
    }

    /// Runs without the cause until the node is as described; the process that is always run is not counted as a change.
    fn converge(&self, story: &str) {
        for _ in 0..4 {
            let output = self.run(false);
            assert_eq!(output.status.code(), Some(2), "{story}\n{}", text(&output));
            if self.owed() == 0 {
                return;
            }
        }
        panic!("{story}\nstill owed: {}", self.report()["pending_refreshes"]);
    }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// The story without a kill of chance: nothing is lost, nothing is done twice, and the debt is seen.
fn told_once(cause: Cause) {
    let world = World::new(cause);
    if cause == Cause::Kill {
        let mut child = world.command(true).spawn().unwrap();
        await_file(&world.path("w/between"));
        child.kill().unwrap();
        child.wait().unwrap();
    } else {
        let output = world.run(true);
        assert_ne!(output.status.code(), Some(0), "{}", text(&output));
        assert_eq!(world.owed(), 1, "{}", text(&output));
        assert_eq!(world.report()["pending_refreshes"][0]["target"], "Exec[Y]");
        assert!(text(&output).contains("the refresh of Exec[Y] by "), "{}", text(&output));
    }
    assert_eq!(world.ran(), (0, 0));
    world.converge(&format!("{cause:?}"));
    assert_eq!(world.ran(), (1, 1), "once each");
    world.run(false);
    assert_eq!(world.ran(), (1, 1), "and not again");
}

/// The same with a kill at a random moment of the first run.
fn told_with_kills(cause: Cause) {
    let whole = {
        let world = World::new(if cause == Cause::Kill { Cause::Noop } else { cause });
        let began = Instant::now();
        world.run(true);
        began.elapsed()
    };
    let mut rng = rand::rng();
    for trial in 0..KILLS {
        let world = World::new(cause);
        let after = whole.mul_f64(rng.random_range(0.0..1.3));
        world.run_and_kill(after);
        let mut story = format!("{cause:?}, trial {trial}, killed after {after:?}");
        let _ = write!(story, "\nledger:\n{}", ledger(&world.path("state")));
        world.converge(&story);
        let (y, z) = world.ran();
        assert!(y >= 1 && z >= 1, "lost: Y ran {y} times, Z {z} times\n{story}");
        // A refresh that was interrupted is made again; more than that would be careless.
        assert!(y <= 2 && z <= 3, "Y ran {y} times, Z {z} times\n{story}");
    }
}

fn ledger(state: &Path) -> String {
    std::fs::read_to_string(state.join("refreshes.journal")).unwrap_or_default()
}

fn await_file(path: &Path) {
    let until = Instant::now() + Duration::from_mins(1);
    while !path.exists() {
        assert!(Instant::now() < until, "{} did not come", path.display());
        std::thread::yield_now();
    }
}

macro_rules! stories {
    ($($cause:ident: $once:ident, $killed:ident;)*) => {$(
        #[test]
        fn $once() {
            told_once(Cause::$cause);
        }

        #[test]
        fn $killed() {
            told_with_kills(Cause::$cause);
        }
    )*};
}

stories! {
    Dependency: m1_a_failed_dependency_loses_nothing, m1_killed_at_random;
    Refresh: m2_a_failed_refresh_is_made_again, m2_killed_at_random;
    Tags: m3_a_run_for_other_tags_loses_nothing, m3_killed_at_random;
    Noop: m4_a_target_in_noop_loses_nothing, m4_killed_at_random;
    Schedule: m5_a_target_outside_its_schedule_loses_nothing, m5_killed_at_random;
    Kill: m6_a_killed_run_loses_nothing, m6_killed_at_random;
}
