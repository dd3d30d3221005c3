//! Rotation of the keys that sign credentials and of the TLS authority (`rpc org rotate`) on a running fleet: a real broker with TLS, real daemons, real commands.

#![expect(clippy::disallowed_types, reason = "runs the real programs")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use muster_tests::command::find_program;
use muster_tests::{await_state, poll_until_ok};
use muster_wire::token::claims::UserClaims;
use muster_wire::token::decode::decode_token;
use muster_wire::token::{KeyPair, PublicKey, UserCredentials};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::demo::{Demo, describe_output};

/// The nodes of the demonstration.
pub(crate) const NODES: [&str; 5] = [
    "db1.acme.net",
    "db1.dev.acme.net",
    "db2.dev.acme.net",
    "web1.dev.acme.net",
    "web1.dev.initech.net",
];

/// Time for the nodes to reconnect after the broker has closed all connections.
pub(crate) const RECONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// Requests to all nodes during a rotation, at least.
const MIN_REQUESTS: usize = 20;

/// The demonstration and its organisation.
pub(crate) struct RotatedFleet {
    pub(crate) demo: Demo,
}

impl RotatedFleet {
    pub(crate) fn start() -> Self {
        let fleet = Self { demo: Demo::start() };
        fleet.run_org(&["push"]);
        fleet
    }

    pub(crate) fn organisation(&self) -> PathBuf {
        self.demo.fleet().join("org")
    }

    pub(crate) fn node(&self, name: &str) -> PathBuf {
        self.demo.fleet().join("nodes").join(name)
    }

    pub(crate) fn org(&self, arguments: &[&str]) -> Output {
        let directory = self.organisation();
        let more = ["--org", directory.to_str().unwrap()];
        self.demo.rpc(&[&["org"], arguments, &more].concat())
    }

    /// Runs a command of `rpc org` that must succeed; returns its messages.
    pub(crate) fn run_org(&self, arguments: &[&str]) -> String {
        let output = self.org(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", describe_output(&output));
        describe_output(&output)
    }

    /// The key that signs new credentials of this role.
    pub(crate) fn signing_key(&self, role: &str) -> PublicKey {
        let path = self.organisation().join(format!("keys/role-{role}.nk"));
        KeyPair::from_seed(std::fs::read_to_string(path).unwrap().trim()).unwrap().public_key()
    }

    /// Sends a request to these nodes by name; fails unless each of them replies.
    pub(crate) fn ping(&self, nodes: &[&str]) -> Result<(), String> {
        let mut arguments = vec!["rpcutil", "ping"];
        arguments.extend(nodes.iter().flat_map(|node| ["-I", node]));
        let output = self.demo.rpc(&arguments);
        output.status.success().then_some(()).ok_or_else(|| describe_output(&output))
    }

    pub(crate) async fn await_replies(&self, nodes: &[&str]) -> Duration {
        let start = Instant::now();
        poll_until_ok("all nodes reply", RECONNECT_TIMEOUT, async || self.ping(nodes)).await;
        start.elapsed()
    }

    /// Runs the command, and sends requests to all nodes until `is_done` and [`MIN_REQUESTS`] were sent. Each must succeed.
    pub(crate) fn run_under_load(&self, arguments: &[&str], is_done: impl Fn() -> bool) -> usize {
        let (stop, count) = (AtomicBool::new(false), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            let load = scope.spawn(|| {
                while !stop.load(Ordering::Acquire) {
                    self.ping(&NODES)?;
                    count.fetch_add(1, Ordering::AcqRel);
                }
                Ok::<(), String>(())
            });
            let output = self.org(arguments);
            let deadline = Instant::now() + RECONNECT_TIMEOUT;
            let is_complete = || is_done() && count.load(Ordering::Acquire) >= MIN_REQUESTS;
            while !load.is_finished() && !is_complete() && Instant::now() < deadline {
                std::thread::yield_now();
            }
            stop.store(true, Ordering::Release);
            load.join().unwrap().unwrap();
            assert!(output.status.success(), "{}", describe_output(&output));
            assert!(is_complete(), "the rotation did not reach all nodes in time");
        });
        count.into_inner()
    }

    /// The process of the broker, if it runs.
    pub(crate) fn broker_process(&self) -> Option<Pid> {
        let directory = self.demo.fleet();
        let is_broker = |pid: &i32| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line);
            line.contains("nats-server") && line.contains(directory.to_str().unwrap())
        };
        let entries = std::fs::read_dir("/proc").unwrap();
        let mut pids =
            entries.filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
        pids.find(is_broker).map(Pid::from_raw)
    }

    /// Sends HUP to the broker.
    pub(crate) fn reload_broker(&self) {
        kill(self.broker_process().unwrap(), Signal::SIGHUP).unwrap();
    }

    pub(crate) fn start_node(&self, name: &str) -> Daemon {
        let config = self.node(name).join("rpcd.toml");
        let log = self.demo.fleet().join(format!("log/{name}.again"));
        Daemon::start(Command::new(find_program("rpcd")).arg("--config").arg(config), log)
    }
}

/// A program that the test started; dropping it kills it.
pub(crate) struct Daemon {
    pub(crate) child: Child,
    pub(crate) log: PathBuf,
}

impl Daemon {
    /// Starts a program whose messages go to this file.
    pub(crate) fn start(command: &mut Command, log: PathBuf) -> Self {
        let messages = std::fs::File::create(&log).unwrap();
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(messages).spawn();
        Self { child: child.unwrap(), log }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The key that signed a token.
fn issuer(token: &str) -> PublicKey {
    decode_token::<UserClaims>(token.trim()).unwrap().unverified_claims().iss
}

/// The key that signed the renewed token that a node stored, if it stored one.
fn stored_issuer(node: &Path) -> Option<PublicKey> {
    std::fs::read_to_string(node.join("state/token.jwt")).ok().map(|token| issuer(&token))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn key_that_signs_nodes_is_rotated_on_a_running_fleet() {
    let fleet = RotatedFleet::start();
    fleet.await_replies(&NODES).await;
    let old = fleet.signing_key("node");

    let has_new_tokens = || {
        let new = fleet.signing_key("node");
        NODES.iter().all(|node| stored_issuer(&fleet.node(node)) == Some(new))
    };
    let requests = fleet.run_under_load(&["rotate", "node"], has_new_tokens);
    let new = fleet.signing_key("node");
    assert_ne!(old, new);

    // A second call continues the same rotation.
    let again = fleet.run_org(&["rotate", "node"]);
    assert!(again.contains("exists already"), "{again}");
    assert_eq!(fleet.signing_key("node"), new);

    // The broker closes the connections that use tokens of the old key; the nodes come back with the new ones.
    fleet.run_org(&["rotate", "node", "--finish"]);
    let outage = fleet.await_replies(&NODES).await;
    eprintln!(
        "{requests} requests during the rotation succeeded; all nodes replied {outage:?} after its end"
    );

    // A restarted daemon uses the stored token: the one in its credentials is of the old key.
    let restarted = "db1.acme.net";
    let creds = std::fs::read_to_string(fleet.node(restarted).join("node.creds")).unwrap();
    let creds = UserCredentials::parse(&creds).unwrap();
    assert_eq!(issuer(creds.jwt()), old);
    fleet.demo.stop_node(restarted);
    let daemon = fleet.start_node(restarted);
    fleet.await_replies(&[restarted]).await;
    drop(daemon);

    // The token of the old key alone gives no access.
    std::fs::remove_file(fleet.node(restarted).join("state/token.jwt")).unwrap();
    let refused = fleet.start_node(restarted);
    await_state("the broker refuses the old token", || {
        std::fs::read_to_string(&refused.log)
            .unwrap_or_default()
            .contains("authorization violation")
    })
    .await;
    assert!(fleet.ping(&[restarted]).is_err());
    assert!(fleet.ping(&NODES[1..]).is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn key_that_signs_users_is_rotated_on_a_running_fleet() {
    let fleet = RotatedFleet::start();
    fleet.await_replies(&NODES).await;
    let with_credentials = |path: &Path| {
        let mut arguments = vec!["rpcutil", "ping"];
        arguments.extend(NODES.iter().flat_map(|node| ["-I", node]));
        let output = Command::new(find_program("rpc"))
            .args(arguments)
            .env("RPC_CONFIG", fleet.demo.fleet().join("rpc.toml"))
            .env("RPC_CREDENTIALS", path)
            .env("XDG_STATE_HOME", fleet.demo.fleet().join("state"))
            .env("XDG_CACHE_HOME", fleet.demo.fleet().join("cache"))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        output.status.success().then_some(()).ok_or_else(|| describe_output(&output))
    };
    let old_creds = fleet.demo.fleet().join("user.creds");
    fleet.run_org(&["rotate", "user"]);
    with_credentials(&old_creds).unwrap();

    // Users without new credentials would lose access, so the rotation cannot be finished.
    let refused = fleet.org(&["rotate", "user", "--finish"]);
    assert_eq!(refused.status.code(), Some(1), "{}", describe_output(&refused));
    assert!(describe_output(&refused).contains("guest"), "{}", describe_output(&refused));
    with_credentials(&old_creds).unwrap();

    let new_creds = fleet.demo.fleet().join("new.creds");
    fleet.run_org(&["add", "user", "demo", "--renew", "--out", new_creds.to_str().unwrap()]);
    fleet.run_org(&["add", "user", "guest", "--renew"]);
    poll_until_ok("nodes accept the new key", RECONNECT_TIMEOUT, async || {
        with_credentials(&new_creds)
    })
    .await;
    with_credentials(&old_creds).unwrap();

    fleet.run_org(&["rotate", "user", "--finish"]);
    poll_until_ok("nodes reply to the new credentials", RECONNECT_TIMEOUT, async || {
        with_credentials(&new_creds)
    })
    .await;
    let refused = with_credentials(&old_creds).unwrap_err();
    assert!(refused.contains("authorization") || refused.contains("refused"), "{refused}");
}

/// The broker of the demonstration reads its certificate again at HUP. Connections stay open; later ones need the new authority.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_authority_is_rotated_on_a_running_fleet() {
    let fleet = RotatedFleet::start();
    fleet.await_replies(&NODES).await;
    let authority = fleet.organisation().join("ca.pem");
    let old = std::fs::read_to_string(&authority).unwrap();
    let install = || {
        for node in NODES {
            std::fs::copy(&authority, fleet.node(node).join("ca.pem")).unwrap();
        }
        std::fs::copy(&authority, fleet.demo.fleet().join("ca.pem")).unwrap();
    };
    fleet.run_org(&["rotate", "authority"]);
    install();
    fleet.ping(&NODES).unwrap();

    fleet.run_org(&["rotate", "authority", "--finish"]);
    fleet.reload_broker();
    let nodes_log = || std::fs::read_to_string(fleet.demo.fleet().join("log/broker.log")).unwrap();
    await_state("the broker has reloaded its certificate", || {
        nodes_log().contains("Reloaded: tls")
    })
    .await;
    fleet.ping(&NODES).unwrap();
    install();
    fleet.ping(&NODES).unwrap();

    // A restarted daemon and a command that know the new authority only can connect; a command that knows the old one only cannot.
    fleet.demo.stop_node(NODES[0]);
    let daemon = fleet.start_node(NODES[0]);
    fleet.await_replies(&NODES).await;
    drop(daemon);
    std::fs::write(fleet.demo.fleet().join("ca.pem"), old).unwrap();
    let refused = fleet.ping(&NODES[1..]).unwrap_err();
    assert!(refused.contains("certificate"), "{refused}");
}

/// The keys for administration rotate in one step. Afterwards the identity keys of the accounts are not needed, and old copies of the replaced
/// credentials and keys are worthless.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_for_administration_are_rotated_on_a_running_fleet() {
    let fleet = RotatedFleet::start();
    fleet.await_replies(&NODES).await;
    for key in ["account.nk", "storage.nk", "system.nk", "newcomers.nk"] {
        std::fs::remove_file(fleet.organisation().join("keys").join(key)).unwrap();
    }
    let creds_file = fleet.organisation().join("creds/system.creds");
    let (old_creds, old_key) = (std::fs::read(&creds_file).unwrap(), fleet.signing_key("system"));
    let old_admin = fleet.signing_key("admin");
    let admin_file = fleet.organisation().join("keys/role-admin.nk");
    let old_admin_seed = std::fs::read(&admin_file).unwrap();

    fleet.run_under_load(&["rotate", "admin"], || fleet.signing_key("admin") != old_admin);
    fleet.run_under_load(&["rotate", "system"], || fleet.signing_key("system") != old_key);
    assert_ne!(std::fs::read(&creds_file).unwrap(), old_creds);
    fleet.run_org(&["push"]);
    fleet.run_org(&["revoke", "guest", "--yes"]);
    fleet.ping(&NODES).unwrap();

    // A command that has the replaced credentials of the system account cannot push.
    let new_creds = std::fs::read(&creds_file).unwrap();
    std::fs::write(&creds_file, old_creds).unwrap();
    let refused = fleet.org(&["push"]);
    assert_eq!(refused.status.code(), Some(1), "{}", describe_output(&refused));
    assert!(describe_output(&refused).contains("authorization"), "{}", describe_output(&refused));
    std::fs::write(&creds_file, new_creds).unwrap();
    // Nor can a command that has the replaced key for administrators write to the stores: the account token does not list it.
    let new_admin_seed = std::fs::read(&admin_file).unwrap();
    std::fs::write(&admin_file, old_admin_seed).unwrap();
    let refused = describe_output(&fleet.org(&["push"]));
    assert!(refused.contains("storage.nk"), "{refused}");
    std::fs::write(&admin_file, new_admin_seed).unwrap();
    fleet.run_org(&["push"]);
}
