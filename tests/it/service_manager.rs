//! What the daemon reports to the service manager: "ready" without a broker, and the state of its connection.

use std::ffi::OsString;
use std::os::unix::net::UnixDatagram;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use muster_tests::await_state;
use muster_tests::command::find_program;
use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::Organisation;
use muster_tests::rpcd::{DaemonHome, Rpcd};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const NODE: &str = "node1.example.net";
/// How long the daemon may take to stop while it is not connected. The drain alone may take 30 s.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// The notifications of one daemon, as systemd receives them.
struct Notifications(Arc<Mutex<Vec<String>>>);

impl Notifications {
    /// Starts the daemon with a notification socket.
    fn start(home: DaemonHome) -> (Rpcd, Self) {
        let path = home.path("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        let received = Arc::new(Mutex::new(Vec::new()));
        let lines = Arc::clone(&received);
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length) = socket.recv(&mut buffer) {
                let text = String::from_utf8_lossy(buffer.get(..length).unwrap()).into_owned();
                lines.lock().unwrap().extend(text.lines().map(str::to_owned));
            }
        });
        let mut variable = OsString::from("NOTIFY_SOCKET=");
        variable.push(&path);
        let command = ["env".into(), variable, find_program("rpcd").into_os_string()];
        (home.start_through(&command), Self(received))
    }

    fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    /// The status that `systemctl status` shows.
    fn status(&self) -> String {
        let lines = self.lines();
        let status = lines.iter().rev().find_map(|line| line.strip_prefix("STATUS="));
        status.unwrap_or_default().to_owned()
    }

    async fn await_ready(&self, node: &mut Rpcd) {
        await_state("the daemon reports that it is ready", || {
            assert!(node.is_running(), "rpcd ended: {}", node.log());
            self.lines().contains(&"READY=1".to_owned())
        })
        .await;
    }
}

/// Stops the daemon as systemd does, and returns how long that took.
async fn stop(node: &mut Rpcd) -> Duration {
    let started = Instant::now();
    kill(Pid::from_raw(node.pid()), Signal::SIGTERM).unwrap();
    await_state("the daemon stopped", || !node.is_running()).await;
    started.elapsed()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_broker_is_away_is_ready_and_stops_at_once() {
    let organisation = Organisation::new(&["muster"]);
    let configuration = organisation.broker_configuration();
    let broker = NatsServer::start_on(&configuration, "127.0.0.1", None).await;
    let (port, url) = (broker.port(), broker.url());
    drop(broker);
    let node = organisation.node(NODE);
    let home = DaemonHome::new(&organisation, &node, &url, "");
    let (mut rpcd, notifications) = Notifications::start(home.clone());
    notifications.await_ready(&mut rpcd).await;
    await_state("the status names the problem", || {
        notifications.status().starts_with("not connected to the broker, retrying: ")
    })
    .await;
    let took = stop(&mut rpcd).await;
    assert!(took < STOP_TIMEOUT, "{took:?}");

    // `systemctl restart rpcd`: the next daemon is ready too, and says when it is connected.
    std::fs::remove_file(home.path("notify")).unwrap();
    let (mut rpcd, notifications) = Notifications::start(home);
    notifications.await_ready(&mut rpcd).await;
    assert!(!rpcd.log().contains("ready identity="), "{}", rpcd.log());
    let broker = NatsServer::start_on(&configuration, "127.0.0.1", Some(port)).await;
    await_state("the daemon reports its connection", || {
        notifications.status() == "connected to the broker"
    })
    .await;
    drop(broker);
    await_state("the daemon reports that the connection is lost", || {
        notifications.status().starts_with("not connected to the broker, retrying")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_key_is_revoked_is_ready_and_says_that_it_is_refused() {
    let mut organisation = Organisation::new(&["muster"]);
    let node = organisation.node(NODE);
    organisation.revoke_user(&node);
    let broker = organisation.start_broker().await;
    let home = DaemonHome::new(&organisation, &node, &broker.url(), "");
    let (mut rpcd, notifications) = Notifications::start(home);
    notifications.await_ready(&mut rpcd).await;
    await_state("the status says that the broker refuses the node", || {
        notifications.status().to_lowercase().contains("authorization")
    })
    .await;
    let took = stop(&mut rpcd).await;
    assert!(took < STOP_TIMEOUT, "{took:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_that_waits_for_its_enrolment_is_ready() {
    let organisation = Organisation::new(&["muster"]);
    let broker = organisation.start_broker().await;
    let bootstrap = organisation.bootstrap_account().bootstrap(&["name:node*"], None);
    let name = format!("identity = \"{NODE}\"\n");
    let home = DaemonHome::bootstrapping(&organisation, &bootstrap, &broker.url(), &name, "");
    let (mut rpcd, notifications) = Notifications::start(home);
    notifications.await_ready(&mut rpcd).await;
    assert_eq!(notifications.status(), "waiting for enrolment");
    let took = stop(&mut rpcd).await;
    assert!(took < STOP_TIMEOUT, "{took:?}");
}

#[test]
fn the_unit_does_not_wait_for_the_broker() {
    let unit = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/rpcd.service");
    let unit = std::fs::read_to_string(unit).unwrap();
    let timeout = unit.lines().find(|line| line.starts_with("TimeoutStartSec="));
    assert_eq!(timeout, None, "READY=1 comes within systemd's default of 90 s");
    assert!(unit.contains("\nType=notify\n"));
}

/// Runs the daemon as systemd does, with its standard error connected to the journal: here, to the log file.
const RUN_WITH_JOURNAL: &str =
    r#"JOURNAL_STREAM=$(stat -L -c %d:%i /proc/self/fd/2) && export JOURNAL_STREAM && exec "$@""#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_lines_for_the_journal_have_a_priority_and_no_time() {
    let organisation = Organisation::new(&["muster"]);
    let broker = organisation.start_broker().await;
    let rpcd = find_program("rpcd").into_os_string();
    for format in ["text", "json"] {
        for is_journal in [true, false] {
            let more = format!("[log]\nformat = \"{format}\"\n");
            let node = organisation.node(NODE);
            let home = DaemonHome::new(&organisation, &node, &broker.url(), &more);
            home.write("policies/broken.policy", "this is no policy\n", 0o644);
            let shell = ["sh", "-c", RUN_WITH_JOURNAL, "sh"].map(OsString::from);
            let command: Vec<OsString> =
                shell.into_iter().filter(|_| is_journal).chain([rpcd.clone()]).collect();
            let mut daemon = home.start_through(&command);
            await_state("the node is connected", || {
                assert!(daemon.is_running(), "rpcd ended: {}", daemon.log());
                daemon.log().lines().any(|line| line.contains("ready") && line.contains("INFO"))
            })
            .await;
            let log = daemon.log();
            let year = |line: &str| line.contains("\"timestamp\"") || line.starts_with("20");
            for line in log.lines() {
                let level = ["ERROR", "WARN", "INFO"].iter().position(|level| line.contains(level));
                let priority = level.and_then(|level| ["<3>", "<4>", "<6>"].get(level)).unwrap();
                assert_eq!(line.starts_with(*priority), is_journal, "{line}");
                assert_eq!(year(line.trim_start_matches(*priority)), !is_journal, "{line}");
            }
            assert!(log.contains("ERROR"), "the policy is reported: {log}");
        }
    }
}
