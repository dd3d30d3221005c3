//! Failures from outside the program: a paused machine, a disk without inodes, too many connections to the metrics page, and an organisation that was lost
//! without a backup.

use std::net::TcpStream;
use std::time::Duration;

use muster_calls::{CallTarget, RpcCall};
use muster_tests::command::{RpcCommand, find_program};
use muster_tests::organisation::Organisation;
use muster_tests::rpcd::DaemonHome;
use muster_tests::small_disk::SmallDisk;
use muster_tests::{await_state, now, poll_until_ok};
use muster_wire::identity::Identity;
use muster_wire::status::ReplyStatus;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use super::await_ready;
use super::call_records::record_call;
use super::fixture::{FaultFixture, NODE};

const REPLY_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a request is valid that a node must not execute, in milliseconds.
const SHORT_VALIDITY: u64 = 1_500;
/// More connections than a process may have open by default.
const FLOOD: usize = 1_500;

/// As a virtual machine that is paused, or moved to another host, while requests wait in its buffers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paused_machine_executes_no_request_that_has_expired() {
    let fixture = Box::pin(FaultFixture::new("[requests]\nskew_seconds = 0\n")).await;
    let node = fixture.start().await;
    let pid = Pid::from_raw(node.pid());
    // A node accepts requests that are not older than its start.
    poll_until_ok("a request is executed", REPLY_TIMEOUT, async || {
        fixture.call_tally("strike", REPLY_TIMEOUT).await;
        if fixture.effects().is_empty() { Err(node.log()) } else { Ok(()) }
    })
    .await;
    let before = fixture.effects();
    kill(pid, Signal::SIGSTOP).unwrap();
    await_state("all threads have stopped", || are_threads_stopped(node.pid())).await;
    let target = CallTarget::Nodes([Identity::parse(NODE).unwrap()].into());
    let mut call = RpcCall::new("tally", "strike", target).unwrap();
    (call.ttl, call.wait) = (Duration::from_millis(SHORT_VALIDITY), Duration::from_secs(1));
    let sent = now();
    let record = record_call(&fixture.caller.client, call).await;
    let (stats, _) = record.finished();
    assert_eq!(stats.missing.len(), 1, "the node is listed as missing: {stats:?}");
    await_state("the request has expired", || now() > sent + 2 * SHORT_VALIDITY).await;
    kill(pid, Signal::SIGCONT).unwrap();
    poll_until_ok("the request is refused", REPLY_TIMEOUT, async || {
        let answer = fixture.other.call_action(NODE, "rpcutil", "daemon_stats", json!({})).await;
        let data = answer.reply.data;
        if data["ttlexpired"] == 1 {
            Ok(())
        } else {
            Err(format!("{data:?} {stats:?} {:?}", fixture.effects()))
        }
    })
    .await;
    assert_eq!(fixture.effects(), before);
    fixture.call_tally("strike", REPLY_TIMEOUT).await;
    assert_eq!(fixture.effects().len(), before.len() + 1, "it serves again");
}

/// Whether no thread of the process runs any more.
fn are_threads_stopped(pid: i32) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let mut states = tasks.flatten().filter_map(|task| {
        let stat = std::fs::read_to_string(task.path().join("stat")).ok()?;
        Some(stat.rsplit_once(") ")?.1.starts_with('T'))
    });
    states.all(|is_stopped| is_stopped)
}

/// `df -h` shows free space, and no file can be created.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn disk_without_inodes_stops_nothing_silently() {
    let base = Box::pin(FaultFixture::new("")).await;
    let paths = "[paths]\nstate = \"../disk/state\"\naudit = \"../disk/audit.log\"\nclasses = \"../classes.txt\"\n";
    base.home.write("conf.d/paths.toml", paths, 0o644);
    let disk = SmallDisk::with_inodes(base.home.path("disk"), 16 * 1024, 200).await;
    let command = disk.command_inside(find_program("rpcd"));
    let mut node = base.home.clone().start_through(&command);
    await_ready(&mut node, 1).await;
    disk.fill_inodes();
    // Files that exist can grow, so that changes are recorded and executed.
    let record = base.call_tally("strike", REPLY_TIMEOUT).await;
    let (_, replies) = record.finished();
    let reply = &replies.values().next().unwrap().reply;
    let executed = base.effects().len();
    match reply.statuscode {
        ReplyStatus::Ok => assert_eq!(executed, 1),
        _ => assert!(
            executed == 0 && reply.statusmsg.raw().contains("space"),
            "{}",
            reply.statusmsg.raw()
        ),
    }
    let fact = json!({"fact": "identity"});
    let answer = base.other.call_action(NODE, "rpcutil", "get_fact", fact).await;
    assert_eq!(answer.reply.statuscode, ReplyStatus::Ok, "{:?}", answer.reply);
    // It starts in this state, too, and repeats nothing.
    kill(Pid::from_raw(node.pid()), Signal::SIGKILL).unwrap();
    await_state("the daemon has ended", || !node.is_running()).await;
    let captured = base.captured();
    let mut node = base.home.clone().start_through(&command);
    await_ready(&mut node, 1).await;
    base.replay(&captured).await;
    let fact = json!({"fact": "identity"});
    let answer = base.other.call_action(NODE, "rpcutil", "get_fact", fact).await;
    assert_eq!(answer.reply.statuscode, ReplyStatus::Ok, "{:?}", answer.reply);
    assert_eq!(base.effects().len(), executed);
}

/// A monitoring system that opens connections and does not close them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_to_the_metrics_page_take_nothing_from_requests() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let metrics = format!("[metrics]\nlisten = \"127.0.0.1:{port}\"\n");
    let fixture = Box::pin(FaultFixture::new(&metrics)).await;
    let node = fixture.start().await;
    let limit = nix::sys::resource::Resource::RLIMIT_NOFILE;
    let (_, hard) = nix::sys::resource::getrlimit(limit).unwrap();
    nix::sys::resource::setrlimit(limit, hard, hard).unwrap();
    let address = format!("127.0.0.1:{port}").parse().unwrap();
    let connect = |_| TcpStream::connect_timeout(&address, Duration::from_millis(200)).ok();
    let flood: Vec<TcpStream> = (0..FLOOD).map_while(connect).collect();
    assert!(flood.len() > 100, "{}", flood.len());
    for _ in 0..3 {
        let record = fixture.call_tally("strike", REPLY_TIMEOUT).await;
        let (stats, _) = record.finished();
        assert!(stats.missing.is_empty(), "{stats:?}: {}", node.log());
    }
    assert_eq!(fixture.effects().len(), 3);
    let log = node.log();
    assert!(log.len() < 64 * 1024, "the log has {} bytes", log.len());
}

/// Nodes get bundles of a new organisation. They keep their state, and the audit log continues.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_of_an_organisation_lost_without_a_backup_serves_the_next_one() {
    let state = |home: &DaemonHome| {
        let paths = format!(
            "[paths]\nstate = \"{}\"\naudit = \"{}\"\n",
            home.path("state").display(),
            home.path("audit.log").display()
        );
        paths + "classes = \"../classes.txt\"\n"
    };
    let mut first_home = None;
    for user in ["rip", "anna"] {
        let organisation = Organisation::new(&["muster"]);
        let server = organisation.start_broker().await;
        let signer = organisation.node(NODE);
        let home = DaemonHome::new(&organisation, &signer, &server.url(), "");
        if let Some(first) = &first_home {
            home.write("conf.d/paths.toml", &state(first), 0o644);
        }
        let mut node = home.clone().start();
        let caller = organisation.caller(user);
        let rpc = RpcCommand::new(&server, &organisation, &caller, "");
        poll_until_ok("the node answers", REPLY_TIMEOUT, async || {
            let output = rpc.run(&["do", "rpcutil", "get_fact", "fact=identity"]).await;
            if output.status.success() { Ok(()) } else { Err(node.log()) }
        })
        .await;
        kill(Pid::from_raw(node.pid()), Signal::SIGTERM).unwrap();
        await_state("the daemon has ended", || !node.is_running()).await;
        first_home.get_or_insert(home);
    }
    let log = std::fs::read_to_string(first_home.unwrap().path("audit.log")).unwrap();
    let headers = log.lines().filter(|line| line.contains(r#""audit":"header""#)).count();
    let records = log.lines().count();
    assert_eq!((headers, records), (2, 4), "the log continues with the new key");
    assert!(log.lines().last().unwrap().starts_with(r#"{"seq":3,"#), "{records} records");
}
