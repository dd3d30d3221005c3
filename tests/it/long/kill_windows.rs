//! SIGKILL at each moment of a run of the real Puppet, and of the daemon that follows it. No refresh is lost; one is
//! repeated only if the kill came between its effect and Puppet's log line about it.
//!
//! The exec S is changed and notifies Y, which notifies Z. Commands of the catalog kill Puppet, or wait for the test,
//! so each window is hit exactly.

#![expect(clippy::indexing_slicing, reason = "the structure of the documents is known")]

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use muster_tests::command::{describe_output, find_program};
use muster_tests::poll_until_ok;
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};
use serde_json::{Value, json};

use crate::puppet::puppet_daemon::PuppetDaemonFixture;
use crate::puppet::puppet_node::{PuppetNode, has_puppet};

/// When Puppet is killed.
#[derive(Debug, Clone, Copy, PartialEq)]
enum KillWindow {
    /// While S is evaluated, before its change.
    BeforeChange,
    /// After the change of S, before Puppet logs it.
    AfterChange,
    /// After S notified Y, before Y is refreshed.
    AfterNotification,
    /// After the effect of Y's refresh, before Puppet logs it.
    DuringRefresh,
    /// After Y was refreshed and notified Z, before Z is refreshed.
    AfterRefresh,
    /// After all refreshes, before report and summary are written.
    BeforeReport,
}

impl KillWindow {
    /// What the commands have written when both runs have ended without the agent.
    fn stock_log(self) -> &'static [&'static str] {
        match self {
            Self::AfterChange | Self::AfterNotification => &["S"],
            Self::DuringRefresh | Self::AfterRefresh => &["S", "Y"],
            // Puppet makes the change in the second run, or has done everything.
            Self::BeforeChange | Self::BeforeReport => &["S", "Y", "Z"],
        }
    }

    /// The same with the agent.
    fn agent_log(self) -> &'static [&'static str] {
        match self {
            Self::DuringRefresh => &["S", "Y", "Y", "Z"],
            _ => &["S", "Y", "Z"],
        }
    }

    /// The refreshes that are pending after the killed run.
    fn pending(self) -> &'static [&'static str] {
        match self {
            Self::BeforeChange | Self::AfterChange | Self::AfterNotification => &["Exec[Y]"],
            Self::DuringRefresh => &["Exec[Y]", "Exec[Z]"],
            Self::AfterRefresh => &["Exec[Z]"],
            Self::BeforeReport => &[],
        }
    }
}

/// Shell code that kills Puppet, its parent, while the file `w/kill` exists.
fn kill_parent(node: &PuppetNode) -> String {
    format!("if test -e {}; then kill -9 $PPID; fi", node.path("w/kill").display())
}

/// A node whose Puppet is killed in this window; never without one.
fn prepare_node(window: Option<KillWindow>) -> PuppetNode {
    let mut node = PuppetNode::new("n1");
    let w = node.path("w").display().to_string();
    let suicide = kill_parent(&node);
    let code =
        |at: KillWindow| if window == Some(at) { suicide.clone() } else { "true".to_owned() };
    let script = |name: &str, code: &str| {
        fs::write(node.path(name), format!("{code}\n")).unwrap();
        format!("/bin/sh {}", node.path(name).display())
    };
    let check = script("check", &format!("{}; test -e {w}/s", code(KillWindow::BeforeChange)));
    let shell = |line: String| json!(["/bin/sh", "-c", line]);
    let write = |word: &str| format!("echo {word} >> {w}/log");
    // Waits while the pipe `gate` exists, and tells the process id of Puppet.
    let gate = format!(
        "if test -p {w}/gate; then echo $PPID > {w}/pid.new; mv {w}/pid.new {w}/pid; cat {w}/gate; fi"
    );
    let between = format!("{}; {gate}", code(KillWindow::AfterNotification));
    let refresh = format!(
        "test ! -e {w}/broken || exit 1; {}; {}",
        write("Y"),
        code(KillWindow::DuringRefresh)
    );
    // These run only while a test needs them, so that a later run is clean.
    let needed = format!("/usr/bin/test -e {w}/kill -o -p {w}/gate");
    let exec = |title: &str, parameters: Value| json!({"type": "Exec", "title": title, "tags": ["exec"], "parameters": parameters});
    let titles = ["S", "between", "Y", "after", "Z"];
    let mut edges = vec![json!({"source": "Stage[main]", "target": "Class[main]"})];
    edges.extend(
        titles.map(|title| json!({"source": "Class[main]", "target": format!("Exec[{title}]")})),
    );
    node.write_catalog(&json!({
        "name": "n1", "version": "1", "environment": "production", "catalog_format": 1,
        "resources": [
            {"type": "Stage", "title": "main", "parameters": {"name": "main"}},
            {"type": "Class", "title": "main", "parameters": {"name": "main"}},
            exec("S", json!({"command": shell(format!("touch {w}/s; {}; {}", write("S"), code(KillWindow::AfterChange))),
                "unless": check, "notify": "Exec[Y]", "before": "Exec[between]"})),
            exec("between", json!({"command": shell(between), "onlyif": needed, "before": "Exec[Y]"})),
            exec("Y", json!({"command": shell(refresh), "refreshonly": true, "notify": "Exec[Z]", "before": "Exec[after]"})),
            exec("after", json!({"command": shell(code(KillWindow::AfterRefresh)), "onlyif": needed, "before": "Exec[Z]"})),
            exec("Z", json!({"command": shell(write("Z")), "refreshonly": true})),
        ],
        "edges": edges,
    }));
    if window == Some(KillWindow::BeforeReport) {
        // Puppet runs it after the catalog, and before it writes the report.
        let hook = script("hook", &suicide);
        node.options.arguments = vec!["--postrun_command".to_owned(), hook];
    }
    if window.is_some() {
        fs::write(node.path("w/kill"), "").unwrap();
    }
    node
}

fn stop_killing(node: &PuppetNode) {
    fs::remove_file(node.path("w/kill")).unwrap();
}

/// Without the agent: neither report nor state of the killed run exists, and the next run looks clean.
fn assert_stock_puppet(window: KillWindow) {
    let node = prepare_node(Some(window));
    let output = node.run_stock_puppet(&[]);
    assert_eq!(node.report_status(), "no report", "{window:?}: {output}");
    stop_killing(&node);
    let output = node.run_stock_puppet(&[]);
    let status = if window == KillWindow::BeforeChange { "changed" } else { "unchanged" };
    assert_eq!(node.report_status(), status, "{window:?}: {output}");
    assert_eq!(node.log(), window.stock_log(), "{window:?}: {output}");
}

async fn assert_agent(node: PuppetNode, window: KillWindow) {
    let fixture = PuppetDaemonFixture::start(&node).await;
    let (first, exit) = fixture.run_puppet(&[]).await;
    assert_eq!((exit, &first["class"]), (2, &json!("killed")), "{first}");
    assert_eq!(first["pending"], json!(window.pending()), "{first}");
    stop_killing(&node);
    let (second, exit) = fixture.run_puppet(&[]).await;
    assert_eq!((exit, &second["pending"]), (0, &json!([])), "{second}");
    assert_eq!(node.log(), window.agent_log(), "{second}");
    let (third, exit) = fixture.run_puppet(&[]).await;
    assert_eq!((exit, &third["class"]), (0, &json!("clean")), "{third}");
    assert_eq!(node.log(), window.agent_log(), "a further run must not repeat them");
}

macro_rules! windows {
    ($($window:ident: $name:ident;)*) => {$(
        #[tokio::test]
        async fn $name() {
            if has_puppet() {
                assert_stock_puppet(KillWindow::$window);
                assert_agent(prepare_node(Some(KillWindow::$window)), KillWindow::$window).await;
            }
        }
    )*};
}

windows! {
    BeforeChange: m6_kill_before_the_change_makes_one_refresh;
    AfterChange: m6_kill_between_change_and_its_log_line_loses_no_refresh;
    AfterNotification: m6_kill_between_change_and_refresh_loses_no_refresh;
    DuringRefresh: m6_kill_during_the_refresh_repeats_it_once;
    AfterRefresh: m6_kill_after_the_refresh_repeats_nothing_and_loses_no_later_refresh;
    BeforeReport: m6_kill_before_the_report_repeats_nothing;
}

/// Puppet does not log the begin of a catalog without a version.
#[tokio::test]
async fn m6_kill_with_a_catalog_without_version_loses_no_refresh() {
    if !has_puppet() {
        return;
    }
    let node = prepare_node(Some(KillWindow::AfterChange));
    let catalog = fs::read_to_string(node.path("catalog.json")).unwrap();
    let mut catalog: Value = serde_json::from_str(&catalog).unwrap();
    catalog.as_object_mut().unwrap().remove("version").unwrap();
    node.write_catalog(&catalog);
    assert_agent(node, KillWindow::AfterChange).await;
}

/// A run of the daemon that waits between S and Y.
struct WaitingRun {
    node: PuppetNode,
    fixture: PuppetDaemonFixture,
    id: String,
}

impl WaitingRun {
    async fn begin(node: PuppetNode) -> Self {
        mkfifo(&node.path("w/gate"), Mode::S_IRWXU).unwrap();
        let fixture = PuppetDaemonFixture::start(&node).await;
        let id = fixture.begin_run().await;
        await_file(&node.path("w/pid")).await;
        Self { node, fixture, id }
    }

    /// Lets the waiting command go on.
    fn open_gate(&self) {
        let mut gate = fs::OpenOptions::new().write(true).open(self.node.path("w/gate")).unwrap();
        gate.write_all(b"go\n").unwrap();
        fs::remove_file(self.node.path("w/gate")).unwrap();
    }

    fn kill_puppet(&self) {
        let pid = fs::read_to_string(self.node.path("w/pid")).unwrap();
        kill(Pid::from_raw(pid.trim().parse().unwrap()), Signal::SIGKILL).unwrap();
    }

    /// The result of the run, when the restarted daemon has it.
    async fn await_result(&self) -> Value {
        poll_until_ok("the run has a result", Duration::from_mins(1), async || {
            let run = self.fixture.find_run(&self.id).await;
            let is_over = run["state"] == "finished" || run["state"] == "aborted";
            if is_over { Ok(run) } else { Err(run) }
        })
        .await
    }

    /// The next run has this class, and each command has run once.
    async fn assert_next_run(&self, class: &str) {
        let (run, exit) = self.fixture.run_puppet(&[]).await;
        assert_eq!((exit, &run["class"]), (0, &json!(class)), "{run}");
        assert_eq!(run["pending"], json!([]), "{run}");
        assert_eq!(self.node.log(), ["S", "Y", "Z"], "{run}");
    }
}

async fn await_file(path: &Path) {
    let what = format!("{} exists", path.display());
    let exists = async || if path.exists() { Ok(()) } else { Err("it does not") };
    poll_until_ok(&what, Duration::from_mins(1), exists).await;
}

/// The daemon is killed, and then Puppet, which nothing watches at that time.
#[tokio::test]
async fn m6_kill_of_daemon_and_puppet_loses_no_refresh() {
    if !has_puppet() {
        return;
    }
    let mut run = WaitingRun::begin(prepare_node(None)).await;
    let exit_file = run.fixture.exit_file(&run.id);
    run.fixture.kill_daemon();
    run.kill_puppet();
    await_file(&exit_file).await;
    run.open_gate();
    run.fixture.restart_daemon(&run.node).await;
    let result = run.await_result().await;
    assert_eq!(result["class"], "killed", "{result}");
    assert_eq!(result["pending"], json!(["Exec[Y]"]), "{result}");
    run.assert_next_run("changed").await;
    run.assert_next_run("clean").await;
}

/// The daemon is killed between the end of Puppet, whose refresh failed, and the write to the ledger: it is stopped
/// before Puppet goes on, so it sees nothing of it.
#[tokio::test]
async fn m6_kill_of_daemon_before_the_ledger_write_loses_no_refresh() {
    if !has_puppet() {
        return;
    }
    let node = prepare_node(None);
    fs::write(node.path("w/broken"), "").unwrap();
    let result = end_run_without_daemon(node, "failed+changed", &["Exec[Y]"]).await;
    fs::remove_file(result.node.path("w/broken")).unwrap();
    result.assert_next_run("changed").await;
    result.assert_next_run("clean").await;
}

/// The daemon is killed between the start of Puppet and the record of its process: the next daemon finds the process, and
/// knows how it ended.
#[tokio::test]
async fn m6_kill_of_daemon_at_the_start_of_puppet_loses_no_refresh() {
    if !has_puppet() {
        return;
    }
    let node = prepare_node(None);
    fs::write(node.path("w/broken"), "").unwrap();
    let mut run = WaitingRun::begin(node).await;
    run.fixture.kill_daemon();
    run.fixture.forget_process(&run.id);
    run.fixture.restart_daemon(&run.node).await;
    // Puppet still runs, so the run has no result yet.
    let state = run.fixture.find_run(&run.id).await["state"].clone();
    assert!(state == "starting" || state == "applying", "{state}");
    run.open_gate();
    let result = run.await_result().await;
    let class = (&result["class"], &result["pending"]);
    assert_eq!(class, (&json!("failed+changed"), &json!(["Exec[Y]"])), "{result}");
    fs::remove_file(run.node.path("w/broken")).unwrap();
    run.assert_next_run("changed").await;
    run.assert_next_run("clean").await;
}

/// The same with a refresh that succeeded: it is not repeated.
#[tokio::test]
async fn m6_kill_of_daemon_before_the_ledger_write_repeats_no_refresh() {
    if has_puppet() {
        let run = end_run_without_daemon(prepare_node(None), "changed", &[]).await;
        run.assert_next_run("clean").await;
    }
}

/// While no daemon runs, `rpcd apply` leaves a newer refresh of Y pending. The daemon that then reads the older log, in
/// which Y was refreshed, does not take that for the newer one.
#[tokio::test]
async fn m6_late_reading_of_the_log_settles_no_newer_refresh() {
    if !has_puppet() {
        return;
    }
    let mut run = WaitingRun::begin(prepare_node(None)).await;
    end_without_daemon(&mut run).await;
    apply_failing_refresh(&run);
    run.fixture.restart_daemon(&run.node).await;
    // The resumed run made the newer refresh, too.
    let result = run.await_result().await;
    let made = (&result["replayed"], &result["pending"]);
    assert_eq!(made, (&json!(["Exec[Y]"]), &json!([])), "{result}");
    assert_eq!(run.node.log(), ["S", "Y", "Z", "Y", "Z"], "{result}");
}

/// Applies a catalog in which a file notifies Y, whose command fails.
#[expect(clippy::disallowed_types, reason = "runs the real program")]
fn apply_failing_refresh(run: &WaitingRun) {
    let catalog = json!([
        {"type": "file", "title": run.node.path("w/newer"), "ensure": "file", "notify": "Exec[Y]"},
        {"type": "exec", "title": "Y", "command": ["/bin/false"], "refreshonly": true},
    ]);
    let path = run.node.path("newer.json");
    fs::write(&path, catalog.to_string()).unwrap();
    let output = std::process::Command::new(find_program("rpcd"))
        .arg("apply")
        .arg(path)
        .arg("--detailed-exitcodes")
        .arg("--state-dir")
        .arg(run.fixture.engine_dir())
        .arg("--puppet-state")
        .arg(run.node.path("var/state"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(6), "{}", describe_output(&output));
}

/// Stops the daemon during a run, and kills it when Puppet has ended.
async fn end_without_daemon(run: &mut WaitingRun) {
    let exit_file = run.fixture.exit_file(&run.id);
    run.fixture.daemon().freeze().await;
    run.open_gate();
    await_file(&exit_file).await;
    run.fixture.kill_daemon();
}

/// Stops the daemon during a run, kills it when Puppet has ended, and starts it again. It then knows how the run ended.
async fn end_run_without_daemon(node: PuppetNode, class: &str, pending: &[&str]) -> WaitingRun {
    let mut run = WaitingRun::begin(node).await;
    end_without_daemon(&mut run).await;
    run.fixture.restart_daemon(&run.node).await;
    let result = run.await_result().await;
    assert_eq!(
        (&result["class"], &result["pending"]),
        (&json!(class), &json!(pending)),
        "{result}"
    );
    run
}
