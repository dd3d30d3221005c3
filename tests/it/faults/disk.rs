//! A state directory without room: changes that could not be remembered are refused in words, reads go on, and all is well when there is room again.

#![expect(clippy::disallowed_types, reason = "a disk of its own needs programs")]

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use muster_tests::await_state;
use muster_tests::command::find_program;
use muster_tests::rpcd::Rpcd;
use muster_wire::reply::Reply;
use muster_wire::status::ReplyStatus;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use super::ready;
use super::rig::{NODE, Rig};

const WAIT: Duration = Duration::from_secs(10);
/// Makes a small disk, says so, and stays: whoever enters its namespace sees it.
const DISK: &str = r#"mount -t tmpfs -o size=512k tmpfs "$1" && : > "$1/there" && exec sleep 1000"#;

/// A disk that only those see who are let in.
struct Disk {
    holder: Child,
    path: PathBuf,
}

impl Disk {
    async fn new(path: PathBuf) -> Self {
        std::fs::create_dir_all(&path).unwrap();
        let mut unshare = Command::new("unshare");
        unshare.arg("--mount");
        if !nix::unistd::geteuid().is_root() {
            unshare.arg("--map-root-user");
        }
        let holder =
            unshare.args(["sh", "-c", DISK, "sh"]).arg(&path).stdin(Stdio::null()).spawn().unwrap();
        let disk = Self { holder, path };
        await_state("there is a small disk", || disk.inside("there").exists()).await;
        disk
    }

    /// A file of it, as those see it who were not let in.
    fn inside(&self, name: &str) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.holder.id()));
        let path = self.path.strip_prefix("/").unwrap();
        root.join(path).join(name)
    }

    /// What becomes a program that is let in.
    fn entered_by(&self, program: PathBuf) -> Vec<std::ffi::OsString> {
        let pid = self.holder.id().to_string();
        let mut words = vec!["nsenter", "--target", &pid, "--mount"];
        if !nix::unistd::geteuid().is_root() {
            words.extend(["--user", "--preserve-credentials"]);
        }
        let mut words: Vec<_> = words.into_iter().map(std::ffi::OsString::from).collect();
        words.push(program.into());
        words
    }

    /// Takes all the room that is left.
    fn fill(&self) {
        let mut filler =
            File::options().create(true).append(true).open(self.inside("filler")).unwrap();
        while filler.write_all(&[0; 4096]).is_ok() {}
        while filler.write_all(&[0]).is_ok() {}
    }

    /// Remounts it, as a file system with errors is: nothing can be written any more.
    fn make_read_only(&self) {
        let words = self.entered_by("mount".into());
        let [first, rest @ ..] = words.as_slice() else {
            panic!("no command");
        };
        let done = Command::new(first)
            .args(rest)
            .args(["-o", "remount,ro"])
            .arg(&self.path)
            .status()
            .unwrap();
        assert!(done.success(), "{done}");
    }

    fn make_room(&self) {
        std::fs::remove_file(self.inside("filler")).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

struct Small {
    rig: Rig,
    disk: Disk,
}

impl Small {
    async fn new(more: &str) -> Self {
        let rig = Box::pin(Rig::new(more)).await;
        let paths = "[paths]\nstate = \"../disk/state\"\naudit = \"../disk/audit.log\"\nclasses = \"../classes.txt\"\n";
        rig.home.write("conf.d/paths.toml", paths, 0o644);
        let disk = Disk::new(rig.home.path("disk")).await;
        Self { rig, disk }
    }

    async fn start(&self) -> Rpcd {
        let words = self.disk.entered_by(find_program("rpcd"));
        let mut node = self.rig.home.clone().start_through(&words);
        ready(&mut node, 1).await;
        node
    }

    async fn strike(&self) -> Reply {
        let entry = self.rig.ask("strike", WAIT).await;
        let (stats, answers) = entry.told();
        assert!(stats.missing.is_empty(), "{stats:?}");
        answers.values().next().unwrap().reply.clone()
    }

    /// Asks for changes until one is refused, which it is as soon as what the file system had left in the files is used up.
    async fn strike_until_refused(&self) -> Reply {
        for _ in 0..200 {
            let reply = self.strike().await;
            if reply.statuscode != ReplyStatus::Ok {
                return reply;
            }
        }
        panic!("changes go on without room to remember them");
    }

    async fn assert_reads_go_on(&self) {
        for _ in 0..3 {
            let answer =
                self.rig.other.ask(NODE, "rpcutil", "get_fact", json!({"fact": "identity"})).await;
            assert_eq!(answer.reply.statuscode, ReplyStatus::Ok, "{:?}", answer.reply);
        }
    }

    fn effects(&self) -> usize {
        let effects = self.rig.effects();
        assert!(effects.values().all(|times| *times == 1), "{effects:?}");
        effects.len()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_full_disk_changes_are_refused_and_reads_go_on() {
    let small = Small::new("").await;
    let mut node = small.start().await;
    assert_eq!(small.strike().await.statuscode, ReplyStatus::Ok);
    small.disk.fill();
    let refused = small.strike_until_refused().await;
    assert!(refused.statusmsg.contains("could not store the request"), "{}", refused.statusmsg);
    let done = small.effects();
    assert_eq!(small.strike().await.statuscode, ReplyStatus::Other);
    small.assert_reads_go_on().await;
    assert_eq!(small.effects(), done);

    // What was refused stays refused, and what was done stays done, when there is room, and after the daemon was killed.
    small.disk.make_room();
    assert_eq!(small.strike().await.statuscode, ReplyStatus::Ok);
    let done = small.effects();
    let captured = small.rig.captured();
    small.rig.replay(&captured).await;
    small.assert_reads_go_on().await;
    kill(Pid::from_raw(node.pid()), Signal::SIGKILL).unwrap();
    await_state("it is dead", || !node.is_running()).await;
    node = small.start().await;
    let carried_out = small.rig.effects();
    let of_those = captured.iter().filter(|message| {
        let text = String::from_utf8_lossy(&message.payload).into_owned();
        carried_out.keys().any(|id| text.contains(&id.to_string()))
    });
    let of_those: Vec<_> = of_those.cloned().collect();
    assert_eq!(of_those.len(), done);
    small.rig.replay(&of_those).await;
    let again = of_those.len() as u64;
    small.rig.await_counted("replayed", again).await;
    assert_eq!(small.effects(), done);
    assert!(node.is_running(), "{}", node.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_full_disk_nothing_is_done_without_a_record_where_that_is_demanded() {
    let small = Small::new("[audit]\nfail_closed = true\n").await;
    let mut node = small.start().await;
    assert_eq!(small.strike().await.statuscode, ReplyStatus::Ok);
    small.disk.fill();
    let refused = small.strike_until_refused().await;
    assert!(refused.statusmsg.starts_with("refused, because"), "{}", refused.statusmsg);
    small.assert_reads_go_on().await;
    small.disk.make_room();
    // The log tries again with each record, and then knows that there is room.
    let mut last = small.strike().await;
    for _ in 0..20 {
        if last.statuscode == ReplyStatus::Ok {
            break;
        }
        last = small.strike().await;
    }
    assert_eq!(last.statuscode, ReplyStatus::Ok, "{}", last.statusmsg);
    small.effects();
    assert!(node.is_running(), "{}", node.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_starts_on_a_full_disk_and_says_what_it_cannot_do() {
    let small = Small::new("").await;
    let mut node = small.start().await;
    assert_eq!(small.strike().await.statuscode, ReplyStatus::Ok);
    let captured = small.rig.captured();
    kill(Pid::from_raw(node.pid()), Signal::SIGKILL).unwrap();
    await_state("it is dead", || !node.is_running()).await;
    small.disk.fill();
    node = small.start().await;
    small.assert_reads_go_on().await;
    let refused = small.strike_until_refused().await;
    assert!(refused.statusmsg.contains("could not store the request"), "{}", refused.statusmsg);
    let done = small.effects();
    small.rig.replay(&captured).await;
    let again = captured.len() as u64;
    small.rig.await_counted("replayed", again).await;
    small.disk.make_room();
    assert_eq!(small.strike().await.statuscode, ReplyStatus::Ok);
    assert_eq!(small.effects(), done + 1);
    assert!(node.is_running(), "{}", node.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_starts_on_a_read_only_state_and_changes_nothing() {
    let small = Small::new("").await;
    // The audit log stands elsewhere, as /var/log does beside /var/lib.
    let paths = "[paths]\nstate = \"../disk/state\"\naudit = \"../audit.log\"\nclasses = \"../classes.txt\"\n";
    small.rig.home.write("conf.d/paths.toml", paths, 0o644);
    let mut node = small.start().await;
    assert_eq!(small.strike().await.statuscode, ReplyStatus::Ok);
    let captured = small.rig.captured();
    kill(Pid::from_raw(node.pid()), Signal::SIGTERM).unwrap();
    await_state("it has stopped", || !node.is_running()).await;
    small.disk.make_read_only();
    node = small.start().await;
    small.assert_reads_go_on().await;
    let refused = small.strike().await;
    assert_eq!(refused.statuscode, ReplyStatus::Other);
    assert!(refused.statusmsg.contains("could not store the request"), "{}", refused.statusmsg);
    small.rig.replay(&captured).await;
    let again = captured.len() as u64;
    small.rig.await_counted("replayed", again).await;
    assert_eq!(small.effects(), 1);

    // A second daemon with the same state is kept out, though the lock file cannot be opened for writing.
    let mut second =
        small.rig.home.clone().start_through(&small.disk.entered_by(find_program("rpcd")));
    await_state("the second has ended", || !second.is_running()).await;
    assert!(second.log().contains("another rpcd is running"), "{}", second.log());
    assert!(node.is_running());
}
