//! Requests that a daemon had begun when it stopped, was killed or lost its machine: work that outlives the daemon is answered by the next one, and
//! everything else is reported as lost at once.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use muster_calls::{CallTarget, ReceivedReply, RpcCall};
use muster_tests::await_state;
use muster_tests::command::RpcCommand;
use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::Organisation;
use muster_tests::program_version::ProgramVersion;
use muster_tests::rpcd::{DaemonHome, Rpcd};
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::request::Request;
use muster_wire::status::{ReplyReason, ReplyStatus};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::node_fixture::{TestCaller, to_object};

const NODE: &str = "node1.example.net";
/// How long a caller waits in these tests. Every answer must come much sooner.
const CALL_WAIT: Duration = Duration::from_mins(2);
/// How long a daemon that hands its work over may take to stop. The drain alone would take 30 s.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// An apt that waits for a file, and records whether it was interrupted. `x` is installed in version 2.0.
const APT_GET: &str = r#"#!/bin/sh
trap 'echo signal > /tmp/interrupted' TERM INT HUP PIPE
case "$*" in *install*) ;; *) exit 0 ;; esac
echo "Setting up x (2.0) ..." || echo output > /tmp/interrupted
echo $$ > /tmp/begun
[ ! -x /tmp/postinst ] || /tmp/postinst
tries=0
until [ -e /tmp/go ]; do
  sleep 0.05; tries=$((tries + 1))
  [ $tries -lt 1200 ] || exit 9
done
echo "Processing triggers ..." || echo output > /tmp/interrupted
echo "install ok installed x 2.0" > /tmp/line
"#;
const DPKG_QUERY: &str = "#!/bin/sh\n[ -s /tmp/line ] || exit 1\ncat /tmp/line\n";
const APT_CACHE: &str = "#!/bin/sh\nprintf 'x:\\n  Installed: (none)\\n  Candidate: 2.0\\n'\n";

/// A broker, a node with a scratch root that has a package tool, and a caller.
pub(crate) struct UnansweredFixture {
    pub(crate) organisation: Organisation,
    pub(crate) server: NatsServer,
    pub(crate) home: DaemonHome,
    pub(crate) caller: TestCaller,
}

impl UnansweredFixture {
    pub(crate) async fn new() -> Self {
        let organisation = Organisation::new(&["muster"]);
        let server = organisation.start_broker().await;
        let more = "[plugins.puppetral]\nallow_types = [\"exec\"]\n";
        let home = DaemonHome::new(&organisation, &organisation.node(NODE), &server.url(), more);
        home.write(
            "conf.d/root.toml",
            &format!("[paths]\nroot = \"{}\"\n", home.path("root").display()),
            0o644,
        );
        for (name, text, mode) in [
            ("usr/local/bin/apt-get", APT_GET, 0o755),
            ("usr/local/bin/apt-cache", APT_CACHE, 0o755),
            ("usr/local/bin/dpkg-query", DPKG_QUERY, 0o755),
            ("var/lib/dpkg/status", "", 0o644),
            ("etc/passwd", "root:x:0:0:root:/root:/bin/sh\n", 0o644),
            ("tmp/line", "", 0o644),
        ] {
            home.write(&format!("root/{name}"), text, mode);
        }
        let caller = TestCaller::connect(&organisation, &server, organisation.caller("rip")).await;
        Self { organisation, server, home, caller }
    }

    async fn start(&self) -> Rpcd {
        self.start_version(ProgramVersion::Present).await
    }

    pub(crate) async fn start_version(&self, version: ProgramVersion) -> Rpcd {
        let mut node = self.home.clone().start_version(version);
        node.await_ready().await;
        node
    }

    /// A file below `/tmp` of the node.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.home.path("root/tmp").join(name)
    }

    pub(crate) async fn await_begun(&self) {
        await_state("the work has begun", || self.file("begun").exists()).await;
    }

    pub(crate) async fn call(&self, agent: &str, action: &str, data: Value) -> ReceivedReply {
        let nodes = [Identity::parse(NODE).unwrap()].into();
        let mut call = RpcCall::new(agent, action, CallTarget::Nodes(nodes)).unwrap();
        call.data = to_object(data);
        call.wait = CALL_WAIT;
        let (mut replies, stats) = self.caller.call(call).await;
        replies.pop_first().unwrap_or_else(|| panic!("no answer: {stats:?}")).1
    }

    pub(crate) async fn install(&self) -> ReceivedReply {
        self.call("package", "install", json!({"package": "x"})).await
    }

    /// Kills every process that was started for this node, as a power failure does.
    pub(crate) fn kill_all(&self, node: &mut Rpcd) {
        node.kill_and_wait();
        let marker = self.home.path("").display().to_string();
        let marker = marker.trim_end_matches('/').as_bytes();
        let pids = || {
            let entries = fs::read_dir("/proc").unwrap().flatten();
            let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
            pids.filter(|pid| {
                let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                let root = fs::read_link(format!("/proc/{pid}/root")).unwrap_or_default();
                let inside = root.as_os_str().as_encoded_bytes().starts_with(marker);
                inside || command.windows(marker.len()).any(|part| part == marker)
            })
            .collect::<Vec<_>>()
        };
        while !pids().is_empty() {
            for pid in pids() {
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
        }
    }

    /// The verdicts and reasons in the audit log of changes.
    pub(crate) fn audit_of_changes(&self) -> Vec<(String, Option<String>)> {
        let text = fs::read_to_string(self.home.path("audit.log")).unwrap_or_default();
        // The last line may be incomplete.
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let record = |line: Value| {
            let verdict = line.get("verdict")?.as_str()?.to_owned();
            let reason = line.get("reason").and_then(Value::as_str).map(str::to_owned);
            Some((verdict, reason))
        };
        lines.filter_map(record).collect()
    }
}

pub(crate) async fn stop(node: &mut Rpcd, signal: Signal) {
    let started = Instant::now();
    kill(Pid::from_raw(node.pid()), signal).unwrap();
    await_state("the daemon stopped", || !node.is_running()).await;
    let took = started.elapsed();
    assert!(took < STOP_TIMEOUT, "{took:?}: {}", node.log());
}

#[track_caller]
pub(crate) fn assert_installed(fixture: &UnansweredFixture, reply: &ReceivedReply) {
    let reply = &reply.reply;
    assert_eq!((reply.statuscode, reply.statusmsg.raw()), (ReplyStatus::Ok, "OK"));
    let expected = json!({"name": "x", "ensure": "2.0", "previous": "purged", "changed": true});
    assert_eq!(Value::Object(reply.data.clone()), expected);
    assert!(!fixture.file("interrupted").exists(), "apt was interrupted");
    let kept: Vec<_> = fs::read_dir(fixture.home.path("state/package")).unwrap().collect();
    assert_eq!(kept.len(), 1, "only the lock is left: {kept:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn package_change_outlives_the_daemon_and_the_next_one_replies() {
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        let fixture = UnansweredFixture::new().await;
        let mut first = fixture.start().await;
        let restarting = async {
            fixture.await_begun().await;
            stop(&mut first, signal).await;
            let second = fixture.start().await;
            fs::write(fixture.file("go"), "").unwrap();
            second
        };
        let (reply, mut second) = tokio::join!(fixture.install(), restarting);
        let applied = Instant::now();
        await_state("the files of the change are removed", || {
            fs::read_dir(fixture.home.path("state/package")).unwrap().count() == 1
        })
        .await;
        assert_installed(&fixture, &reply);
        assert!(applied.elapsed() < STOP_TIMEOUT);
        assert!(second.is_running());
        // The end of an action is written to the audit log beside its reply.
        let expected = [("started".to_owned(), None), ("executed".to_owned(), None)];
        await_state("the audit log has both records", || fixture.audit_of_changes() == expected)
            .await;
    }
}

/// The work of a request belongs to its sender: ids of requests are shown to all who may list what runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn request_of_another_caller_with_the_same_id_takes_no_reply_and_no_work() {
    let fixture = UnansweredFixture::new().await;
    let mut first = fixture.start().await;
    let mallory = fixture.organisation.caller("mallory");
    let mallory = TestCaller::connect(&fixture.organisation, &fixture.server, mallory).await;
    let nodes = [Identity::parse(NODE).unwrap()].into();
    let mut call = RpcCall::new("package", "install", CallTarget::Nodes(nodes)).unwrap();
    (call.data, call.wait) = (to_object(json!({"package": "x"})), CALL_WAIT);
    let id = uuid::Uuid::now_v7();
    call.id = Some(id);
    let copy = |agent: &str, action: &str, data: Value| {
        let request = mallory.ping_request();
        let name = |text: &str| SubjectName::parse(text).unwrap();
        Request { id, agent: name(agent), action: name(action), data: to_object(data), ..request }
    };
    let attacking = async {
        fixture.await_begun().await;
        // It begins and ends.
        let source = json!({"source": "fstat", "query": "/tmp/begun"});
        let reply = mallory.send(&copy("rpcutil", "get_data", source)).await;
        assert_eq!(reply.statuscode, ReplyStatus::Ok, "{reply:?}");
        stop(&mut first, Signal::SIGTERM).await;
        let second = fixture.start().await;
        // This change of packages waits for the first one.
        let bob = fixture.organisation.caller("bob");
        let bob = TestCaller::connect(&fixture.organisation, &fixture.server, bob).await;
        let refresh = Request {
            caller: bob.signer.identity().clone(),
            ..copy("package", "refresh", json!({}))
        };
        let asking = bob.send(&refresh);
        let going = async { fs::write(fixture.file("go"), "").unwrap() };
        let (reply, ()) = tokio::join!(asking, going);
        assert_eq!(reply.statuscode, ReplyStatus::Ok, "{reply:?}");
        second
    };
    let ((mut replies, stats), _second) = tokio::join!(fixture.caller.call(call), attacking);
    let reply = replies.pop_first().unwrap_or_else(|| panic!("no answer: {stats:?}")).1;
    let expected = json!({"name": "x", "ensure": "2.0", "previous": "purged", "changed": true});
    assert_eq!(Value::Object(reply.reply.data.clone()), expected, "{:?}", reply.reply);
    // The lock, and the result of the second change, which its daemon has answered itself.
    await_state("the files of the first change are removed", || {
        fs::read_dir(fixture.home.path("state/package")).unwrap().count() == 2
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restart_in_place_during_a_package_change_does_not_wait_for_it() {
    let fixture = UnansweredFixture::new().await;
    let mut node = fixture.start().await;
    let restarting = async {
        fixture.await_begun().await;
        kill(Pid::from_raw(node.pid()), Signal::SIGUSR2).unwrap();
        let started = Instant::now();
        await_state("the daemon is connected again", || {
            assert!(node.is_running(), "rpcd ended: {}", node.log());
            node.log().matches("ready identity=").count() == 2
        })
        .await;
        assert!(started.elapsed() < STOP_TIMEOUT, "{:?}", started.elapsed());
        fs::write(fixture.file("go"), "").unwrap();
    };
    let (reply, ()) = tokio::join!(fixture.install(), restarting);
    await_state("the files of the change are removed", || {
        fs::read_dir(fixture.home.path("state/package")).unwrap().count() == 1
    })
    .await;
    assert_installed(&fixture, &reply);
}

/// As `systemctl restart rpcd` in a postinst does: it returns when the old daemon has ended, and apt ends after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn package_that_restarts_rpcd_does_not_deadlock() {
    let fixture = UnansweredFixture::new().await;
    let mut first = fixture.start().await;
    let postinst = format!(
        "#!/bin/sh\nkill -TERM {pid} || exit 1\nwhile kill -0 {pid} 2>/dev/null; do sleep 0.05; done\n: > /tmp/restarted\n",
        pid = first.pid()
    );
    fs::write(fixture.file("postinst"), postinst).unwrap();
    fs::set_permissions(fixture.file("postinst"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(fixture.file("go"), "").unwrap();
    let started = Instant::now();
    let restarting = async {
        await_state("the daemon stopped", || !first.is_running()).await;
        fixture.start().await
    };
    let (reply, _second) = tokio::join!(fixture.install(), restarting);
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    assert!(fixture.file("restarted").exists());
    await_state("the files of the change are removed", || {
        fs::read_dir(fixture.home.path("state/package")).unwrap().count() == 1
    })
    .await;
    assert_installed(&fixture, &reply);
}

/// A machine loses power during a change: the caller gets a reply as soon as the node is back, before the timeout.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn request_that_a_power_failure_ended_is_reported_as_lost() {
    let script = "echo > /tmp/begun; while :; do sleep 0.1; done";
    let exec = json!({"type": "exec", "name": "wait", "command": script, "provider": "shell"});
    for (agent, action, data) in
        [("package", "install", json!({"package": "x"})), ("puppetral", "do", exec)]
    {
        let fixture = UnansweredFixture::new().await;
        let mut first = fixture.start().await;
        let failing = async {
            fixture.await_begun().await;
            fixture.kill_all(&mut first);
            (fixture.start().await, Instant::now())
        };
        let (reply, (second, back)) = tokio::join!(fixture.call(agent, action, data), failing);
        assert!(back.elapsed() < Duration::from_secs(5), "{:?}", back.elapsed());
        let reply = reply.reply;
        assert_eq!((reply.statuscode, reply.reason), (ReplyStatus::Other, Some(ReplyReason::Lost)));
        assert!(
            reply.statusmsg.raw().contains("whether the node was changed"),
            "{}",
            reply.statusmsg.raw()
        );
        await_state("the end is in the audit log", || {
            let lost = ("executed".to_owned(), Some("lost".to_owned()));
            fixture.audit_of_changes() == [("started".to_owned(), None), lost]
        })
        .await;
        // It is reported once: its end is written after the reply was sent.
        await_state("the end of the request is written", || {
            let journal = fs::read_to_string(fixture.home.path("state/begun")).unwrap();
            journal.contains("\"ended\"")
        })
        .await;
        drop(second);
        let third = fixture.start().await;
        assert!(!third.log().contains("an earlier daemon had begun"), "{}", third.log());
    }
}

/// A daemon is killed during a read: the next one replies, and `rpc` shows the reason.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rpc_shows_a_lost_request_as_such() {
    let fixture = UnansweredFixture::new().await;
    let mut first = fixture.start().await;
    let rpc = RpcCommand::new(
        &fixture.server,
        &fixture.organisation,
        &fixture.organisation.caller("anna"),
        "",
    );
    let command = "command=echo > /tmp/begun; while :; do sleep 0.1; done";
    let arguments = [
        "do",
        "puppetral",
        "type=exec",
        "name=wait",
        "provider=shell",
        command,
        "-I",
        NODE,
        "-t",
        "120",
    ];
    let started = Instant::now();
    let failing = async {
        fixture.await_begun().await;
        fixture.kill_all(&mut first);
        fixture.start().await
    };
    let ((document, code), _second) = tokio::join!(rpc.run_json(&arguments), failing);
    assert_eq!(code, 2, "{document:#}");
    assert_eq!(document["replies"][0]["reason"]["kind"], "lost", "{document:#}");
    assert!(started.elapsed() < Duration::from_mins(1), "{:?}", started.elapsed());
}
