//! What local users leave where `again` reads as root: files in its spool and journal, in Puppet's state, and links on the path of the spool.

#![expect(clippy::disallowed_types, reason = "runs rpcd")]
#![expect(clippy::indexing_slicing, reason = "knows the documents that it reads")]

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use muster_tests::command::{describe_output, find_program};
use muster_tests::memory::anonymous_kib;
use muster_tests::{now, poll_until_ok};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::{Value, json};

use super::fixture::{AgainFixture, SCRIPT, TIMEOUT, UNLIMITED};
use crate::puppet::puppet_node::PuppetNode;

/// A user who is neither root nor the daemon's: Puppet's.
const THIRD_USER: u32 = 65_534;
/// Most memory of a daemon, whatever files there are.
const MAX_MEMORY_KIB: u64 = 256 * 1024;
/// Largest journal after a report with large fields, in bytes.
const MAX_JOURNAL_BYTES: u64 = 64 * 1024;
/// Size of one of these fields, in bytes.
const FIELD_BYTES: usize = 4 * 1024 * 1024;

fn assert_root() {
    assert!(nix::unistd::geteuid().is_root(), "only root can give files away");
}

fn give_away(path: &Path) {
    lchown(path, Some(THIRD_USER), None).unwrap();
}

impl AgainFixture {
    /// Where Puppet has its state, which belongs to Puppet's user.
    fn puppet_state(&self) -> PathBuf {
        let state = self.node.path("var/state");
        give_away(&self.node.path("var"));
        give_away(&state);
        state
    }

    /// Asks for a run, and waits until the history has `count` entries. Returns the newest.
    async fn ask_and_await(&self, count: usize) -> Value {
        self.ask(&[]);
        let mut entries = self.await_history(count).await;
        let newest = entries.remove(0);
        assert_eq!(newest["end"], "ran", "{newest:#}");
        newest
    }
}

/// A request of another user, as a file of the spool.
fn write_request(path: &Path, requester: &str) {
    let request = json!({"do": "request", "request": {
        "id": uuid::Uuid::now_v7(), "requester": requester, "reason": "test", "min_delay": 0,
        "max_delay": null, "group": null, "not_before": null, "deadline": null,
        "start_timer_now": true, "noop": false, "requested_at": now(), "process": null,
    }});
    fs::write(path, request.to_string()).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
}

/// Whatever is in the spool besides requests of root neither begins a run, nor delays the next request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_of_others_in_the_spool_begin_no_run_and_delay_none() {
    assert_root();
    let node = PuppetNode::scripted("n1.example.net", SCRIPT);
    let fixture = AgainFixture::prepare(node, UNLIMITED).await;
    fixture.ask(&["--cancel"]);
    let spool = fixture.home.path("state/again/requests");
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(spool.parent().unwrap()), mode(&spool)), (0o700, 0o700));
    for entry in fs::read_dir(&spool).unwrap() {
        assert_eq!(mode(&entry.unwrap().path()), 0o600);
    }
    // These sort before the ids of requests.
    fs::create_dir(spool.join("00.json")).unwrap();
    mkfifo(&spool.join("01.json"), Mode::S_IRWXU).unwrap();
    symlink("/dev/zero", spool.join("02.json")).unwrap();
    symlink("/nowhere", spool.join("03.json")).unwrap();
    write_request(&spool.join("04\n.json"), "Exec[of a user]");
    give_away(&spool.join("04\n.json"));
    write_request(&spool.join("05.json"), "Exec[open to all]");
    fs::set_permissions(spool.join("05.json"), Permissions::from_mode(0o666)).unwrap();
    fs::write(spool.join("06.json"), vec![b' '; 1024 * 1024]).unwrap();
    for number in 10..1000 {
        fs::write(spool.join(format!("{number:08}.json")), "no request").unwrap();
    }
    let mut fixture = fixture;
    fixture.start_daemon().await;
    let newest = fixture.ask_and_await(1).await;
    let text = newest.to_string();
    assert!(text.contains("Exec[again]") && !text.contains("Exec[of"), "{newest:#}");
    assert!(!text.contains("Exec[open"), "{newest:#}");
    poll_until_ok("what is no request has been removed", TIMEOUT, async || {
        let left: Vec<_> =
            fs::read_dir(&spool).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        if left == ["00.json"] { Ok(()) } else { Err(left) }
    })
    .await;
}

/// A journal of another user, who can still change it, is not read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn journal_of_another_user_is_refused_with_its_remedy() {
    assert_root();
    let node = PuppetNode::scripted("n1.example.net", SCRIPT);
    let mut fixture = AgainFixture::prepare(node, UNLIMITED).await;
    fixture.ask(&["--cancel"]);
    let journal = fixture.home.path("state/again/again.journal");
    fs::write(&journal, "").unwrap();
    give_away(&journal);
    fixture.start_daemon().await;
    poll_until_ok("the journal is refused", TIMEOUT, async || {
        let log = fixture.daemon.as_ref().unwrap().log();
        let is_refused = log.contains("again.journal belongs to user 65534")
            && log.contains("run `chown -h root /")
            && log.contains("again.journal`");
        if is_refused { Ok(()) } else { Err(log) }
    })
    .await;
    chown(&journal, Some(0), None).unwrap();
    poll_until_ok("the journal is open", TIMEOUT, async || {
        let output = fixture.rpc.run(&["do", "again", "list"]).await;
        if output.status.success() { Ok(()) } else { Err(describe_output(&output)) }
    })
    .await;
    fixture.ask_and_await(1).await;
}

/// Puppet's user replaces files that the daemon reads by pipes and by links to a device that has no end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pipes_and_devices_in_puppets_state_stop_no_run_and_fill_no_memory() {
    assert_root();
    let node = PuppetNode::scripted("n1.example.net", SCRIPT);
    let fixture = AgainFixture::start(node, UNLIMITED).await;
    let state = fixture.puppet_state();
    let names = ["agent_catalog_run.lock", "last_run_report.yaml", "last_run_summary.yaml"];
    for (round, plant) in [
        (|path: &Path| mkfifo(path, Mode::S_IRWXU).unwrap()) as fn(&Path),
        |path: &Path| symlink("/dev/zero", path).unwrap(),
        |path: &Path| fs::create_dir(path).unwrap(),
    ]
    .into_iter()
    .enumerate()
    {
        for name in names {
            plant(&state.join(name));
            give_away(&state.join(name));
        }
        fixture.ask_and_await(round + 1).await;
        let daemon = fixture.daemon.as_ref().unwrap();
        let memory = anonymous_kib(daemon.pid().unsigned_abs()).unwrap();
        assert!(memory < MAX_MEMORY_KIB, "{memory} KiB");
        for name in names {
            let path = state.join(name);
            let removed =
                if path.is_dir() { fs::remove_dir(&path) } else { fs::remove_file(&path) };
            removed.unwrap();
        }
    }
}

/// The journal is read at the next start, so that a report must not make it larger than what is read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_fields_of_a_report_do_not_fill_the_journal() {
    assert_root();
    let node = PuppetNode::scripted("n1.example.net", SCRIPT);
    let fixture = AgainFixture::start(node, UNLIMITED).await;
    // The daemon has looked for a report, and found none.
    fixture.ask_and_await(1).await;
    let report = fixture.puppet_state().join("last_run_report.yaml");
    let large = "x".repeat(FIELD_BYTES);
    let line = |source: &str| {
        format!(
            "- level: notice\n  message: Would have triggered 'refresh' from 1 event\n  source: \"{source}\"\n"
        )
    };
    let text = format!(
        "---\nstatus: unchanged\ntransaction_uuid: {large}\nnoop: true\nlogs:\n{}{}",
        line(&format!("/Stage[main]/Main/Exec[again-delta-{large}]")),
        line("/Stage[main]/Main/Exec[again-delta-small]"),
    );
    fs::write(&report, text).unwrap();
    give_away(&report);
    let entries = fixture.await_history(2).await;
    assert!(entries[0].to_string().contains("Exec[again-delta-small]"), "{:#}", entries[0]);
    let journal = fixture.home.path("state/again/again.journal").metadata().unwrap().len();
    assert!(journal < MAX_JOURNAL_BYTES, "{journal} bytes");
}

/// A command of root whose state directory is reached through a link of another user creates nothing there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn link_of_another_user_leads_no_command_of_root_elsewhere() {
    assert_root();
    let scratch = tempfile::tempdir().unwrap();
    let target = scratch.path().join("target");
    let shared = scratch.path().join("shared");
    for (directory, mode) in [(&target, 0o755), (&shared, 0o1777)] {
        fs::create_dir(directory).unwrap();
        fs::set_permissions(directory, Permissions::from_mode(mode)).unwrap();
    }
    let link = shared.join("link");
    symlink(&target, &link).unwrap();
    give_away(&link);
    let output = Command::new(find_program("rpcd"))
        .args(["--config", "/nowhere/rpcd.toml", "again", "--state-dir"])
        .arg(link.join("state"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let problem = String::from_utf8_lossy(&output.stderr).into_owned();
    let expected = format!("run `chown -h root {}`", link.display());
    assert!(!output.status.success() && problem.contains(&expected), "{problem}");
    assert_eq!(fs::read_dir(&target).unwrap().count(), 0, "{target:?} must stay empty");
}
