//! A full state directory: changes that cannot be stored are refused with a reason, reads continue, and changes work
//! again when there is space.

use std::time::Duration;

use muster_tests::await_state;
use muster_tests::command::find_program;
use muster_tests::rpcd::Rpcd;
use muster_tests::small_disk::SmallDisk;
use muster_wire::reply::Reply;
use muster_wire::status::ReplyStatus;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use super::await_ready;
use super::fixture::{FaultFixture, NODE};

const REPLY_TIMEOUT: Duration = Duration::from_secs(10);
/// Size of the node's disk.
const DISK_KIB: u32 = 512;

struct DiskFixture {
    base: FaultFixture,
    disk: SmallDisk,
}

impl DiskFixture {
    async fn new(more: &str) -> Self {
        let base = Box::pin(FaultFixture::new(more)).await;
        let paths = "[paths]\nstate = \"../disk/state\"\naudit = \"../disk/audit.log\"\nclasses = \"../classes.txt\"\n";
        base.home.write("conf.d/paths.toml", paths, 0o644);
        let disk = SmallDisk::new(base.home.path("disk"), DISK_KIB).await;
        Self { base, disk }
    }

    async fn start(&self) -> Rpcd {
        let arguments = self.disk.command_inside(find_program("rpcd"));
        let mut node = self.base.home.clone().start_through(&arguments);
        await_ready(&mut node, 1).await;
        node
    }

    async fn send_strike(&self) -> Reply {
        let entry = self.base.call_tally("strike", REPLY_TIMEOUT).await;
        let (stats, answers) = entry.finished();
        assert!(stats.missing.is_empty(), "{stats:?}");
        answers.values().next().unwrap().reply.clone()
    }

    /// Sends changes until one is refused, which happens when the remaining space in the files is used up.
    async fn strike_until_refused(&self) -> Reply {
        for _ in 0..200 {
            let reply = self.send_strike().await;
            if reply.statuscode != ReplyStatus::Ok {
                return reply;
            }
        }
        panic!("changes continue without space to store them");
    }

    async fn assert_reads_continue(&self) {
        for _ in 0..3 {
            let answer = self
                .base
                .other
                .call_action(NODE, "rpcutil", "get_fact", json!({"fact": "identity"}))
                .await;
            assert_eq!(answer.reply.statuscode, ReplyStatus::Ok, "{:?}", answer.reply);
        }
    }

    fn effects(&self) -> usize {
        let effects = self.base.effects();
        assert!(effects.values().all(|times| *times == 1), "{effects:?}");
        effects.len()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full_disk_refuses_changes_and_permits_reads() {
    let fixture = DiskFixture::new(UNRECORDED).await;
    let mut node = fixture.start().await;
    assert_eq!(fixture.send_strike().await.statuscode, ReplyStatus::Ok);
    fixture.disk.fill();
    let refused = fixture.strike_until_refused().await;
    assert!(
        refused.statusmsg.raw().contains("could not store the request"),
        "{}",
        refused.statusmsg.raw()
    );
    let done = fixture.effects();
    assert_eq!(fixture.send_strike().await.statuscode, ReplyStatus::Other);
    fixture.assert_reads_continue().await;
    assert_eq!(fixture.effects(), done);

    // Refused requests stay refused and executed ones are not repeated, after space is freed and after the daemon was
    // killed.
    fixture.disk.free_space();
    assert_eq!(fixture.send_strike().await.statuscode, ReplyStatus::Ok);
    let done = fixture.effects();
    let captured = fixture.base.captured();
    fixture.base.replay(&captured).await;
    fixture.assert_reads_continue().await;
    kill(Pid::from_raw(node.pid()), Signal::SIGKILL).unwrap();
    await_state("the daemon has ended", || !node.is_running()).await;
    node = fixture.start().await;
    let executed_ids = fixture.base.effects();
    let executed = captured.iter().filter(|message| {
        let text = String::from_utf8_lossy(&message.payload).into_owned();
        executed_ids.keys().any(|id| text.contains(&id.to_string()))
    });
    let executed: Vec<_> = executed.cloned().collect();
    assert_eq!(executed.len(), done);
    fixture.base.replay(&executed).await;
    let repeated = executed.len() as u64;
    fixture.base.await_counter("replayed", repeated).await;
    assert_eq!(fixture.effects(), done);
    assert!(node.is_running(), "{}", node.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full_disk_with_fail_closed_audit_refuses_all_changes() {
    refuses_unrecorded_changes("[audit]\nfail_closed = true\n").await;
}

/// The default: an action whose class is not stated amounts to root access.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full_disk_refuses_root_access_and_the_loss_is_reported_after_a_restart() {
    let (fixture, mut node) = refuses_unrecorded_changes("").await;
    let log = fixture.disk.path_from_outside("audit.log");
    let started = |text: &str| text.matches("\"verdict\":\"started\"").count();
    assert_eq!(started(&std::fs::read_to_string(&log).unwrap()), fixture.effects());
    // A daemon that is killed while the disk is full has not forgotten the loss.
    fixture.disk.fill();
    fixture.strike_until_refused().await;
    let reported = fixture.disk.path_from_outside("state/audit.lost");
    await_state("the loss is stored", || {
        std::fs::read_to_string(&reported).is_ok_and(|text| text.trim().parse::<u64>().unwrap() > 0)
    })
    .await;
    kill(Pid::from_raw(node.pid()), Signal::SIGKILL).unwrap();
    await_state("the daemon has ended", || !node.is_running()).await;
    fixture.disk.free_space();
    let _node = fixture.start().await;
    assert_eq!(fixture.send_strike().await.statuscode, ReplyStatus::Ok);
    await_state("the loss is recorded", || {
        std::fs::read_to_string(&log).unwrap().contains("\"verdict\":\"lost\"")
    })
    .await;
}

/// Journals refuse changes, too; these settings show it.
const UNRECORDED: &str = "[audit]\nfail_closed_root = false\n";

async fn refuses_unrecorded_changes(configuration: &str) -> (DiskFixture, Rpcd) {
    let fixture = DiskFixture::new(configuration).await;
    let mut node = fixture.start().await;
    assert_eq!(fixture.send_strike().await.statuscode, ReplyStatus::Ok);
    fixture.disk.fill();
    let refused = fixture.strike_until_refused().await;
    assert!(refused.statusmsg.raw().starts_with("refused, because"), "{}", refused.statusmsg.raw());
    fixture.assert_reads_continue().await;
    fixture.disk.free_space();
    // The log retries with each record, and then succeeds.
    let mut last = fixture.send_strike().await;
    for _ in 0..20 {
        if last.statuscode == ReplyStatus::Ok {
            break;
        }
        last = fixture.send_strike().await;
    }
    assert_eq!(last.statuscode, ReplyStatus::Ok, "{}", last.statusmsg.raw());
    fixture.effects();
    assert!(node.is_running(), "{}", node.log());
    (fixture, node)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn daemon_starts_on_a_full_disk_and_reports_refusals() {
    let fixture = DiskFixture::new(UNRECORDED).await;
    let mut node = fixture.start().await;
    assert_eq!(fixture.send_strike().await.statuscode, ReplyStatus::Ok);
    let captured = fixture.base.captured();
    kill(Pid::from_raw(node.pid()), Signal::SIGKILL).unwrap();
    await_state("the daemon has ended", || !node.is_running()).await;
    fixture.disk.fill();
    node = fixture.start().await;
    fixture.assert_reads_continue().await;
    let refused = fixture.strike_until_refused().await;
    assert!(
        refused.statusmsg.raw().contains("could not store the request"),
        "{}",
        refused.statusmsg.raw()
    );
    let done = fixture.effects();
    fixture.base.replay(&captured).await;
    let repeated = captured.len() as u64;
    fixture.base.await_counter("replayed", repeated).await;
    fixture.disk.free_space();
    assert_eq!(fixture.send_strike().await.statuscode, ReplyStatus::Ok);
    assert_eq!(fixture.effects(), done + 1);
    assert!(node.is_running(), "{}", node.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn daemon_with_read_only_state_starts_and_changes_nothing() {
    let fixture = DiskFixture::new("").await;
    // The audit log is on another file system, as /var/log is beside /var/lib.
    let paths = "[paths]\nstate = \"../disk/state\"\naudit = \"../audit.log\"\nclasses = \"../classes.txt\"\n";
    fixture.base.home.write("conf.d/paths.toml", paths, 0o644);
    let mut node = fixture.start().await;
    assert_eq!(fixture.send_strike().await.statuscode, ReplyStatus::Ok);
    let captured = fixture.base.captured();
    kill(Pid::from_raw(node.pid()), Signal::SIGTERM).unwrap();
    await_state("the daemon has stopped", || !node.is_running()).await;
    fixture.disk.make_read_only();
    node = fixture.start().await;
    fixture.assert_reads_continue().await;
    let refused = fixture.send_strike().await;
    assert_eq!(refused.statuscode, ReplyStatus::Other);
    assert!(
        refused.statusmsg.raw().contains("could not store the request"),
        "{}",
        refused.statusmsg.raw()
    );
    fixture.base.replay(&captured).await;
    let repeated = captured.len() as u64;
    fixture.base.await_counter("replayed", repeated).await;
    assert_eq!(fixture.effects(), 1);

    // A second daemon with the same state is refused, although the lock file cannot be opened for writing.
    let mut second =
        fixture.base.home.clone().start_through(&fixture.disk.command_inside(find_program("rpcd")));
    await_state("the second daemon has ended", || !second.is_running()).await;
    assert!(second.log().contains("another rpcd is running"), "{}", second.log());
    assert!(node.is_running());
}
