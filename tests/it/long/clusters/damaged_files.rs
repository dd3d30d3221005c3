//! One of three servers is stopped, its files are damaged, and it starts again; then all three are killed at once. Revocations stay, and a permit has one
//! holder: the server verifies its streams and gets what is damaged from the others. Without the verification it serves the damaged copy, and `rpc
//! broker status` says so, as it does if the server cannot use its own log of the cluster.

use std::fs;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_bus::BusOptions;
use muster_puppet::permits::{Permit, PermitClient, PermitRequest};
use muster_tests::poll_until_ok;
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::stores::{TRUST_BUCKET, TRUST_HEAD_KEY};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::fixture::{CLUSTER_TIMEOUT, GeneratedBroker};
use crate::demo::describe_output;

/// How long a second node tries to get the permit.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(3);
const HOLDER: &str = "holder.acme.net";
const WAITER: &str = "waiter.acme.net";
/// The index of a stream, or of a log.
const INDEX: &str = "index.db";

/// What is done to a file.
#[derive(Debug, Clone, Copy)]
enum FileDamage {
    /// One bit in each block of 64 bytes is inverted.
    FlipBits,
    /// The second half is lost.
    Halve,
    /// Everything is lost.
    Empty,
}

impl FileDamage {
    fn apply(self, path: &Path) {
        let mut content = fs::read(path).unwrap();
        match self {
            Self::FlipBits => {
                for (number, byte) in content.iter_mut().enumerate().step_by(64) {
                    *byte ^= 1 << (number / 64 % 8);
                }
            }
            Self::Halve => content.truncate(content.len() / 2),
            Self::Empty => content.clear(),
        }
        fs::write(path, content).unwrap();
    }
}

/// Directories of `JetStream` below that of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StoreDirectory {
    /// The messages of streams.
    Streams,
    /// The logs of the servers that have copies of a stream, each in a directory of its own.
    StreamLogs,
    /// The log of all servers: which streams there are, and where.
    ClusterLog,
}

impl StoreDirectory {
    fn of_path(path: &str) -> Self {
        match path {
            path if path.contains("/_js_/_meta_/") => Self::ClusterLog,
            path if path.contains("/_js_/") => Self::StreamLogs,
            _ => Self::Streams,
        }
    }
}

/// All files below a directory whose path contains this.
fn find_files(directory: &Path, part: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(find_files(&path, part));
        } else if path.to_str().unwrap().contains(part) {
            found.push(path);
        }
    }
    found
}

/// Such files of the first server.
fn find_store_files(
    broker: &GeneratedBroker,
    directory: StoreDirectory,
    part: &str,
) -> Vec<PathBuf> {
    let mut files = find_files(&broker.path("broker1/jetstream"), part);
    files.retain(|path| StoreDirectory::of_path(path.to_str().unwrap()) == directory);
    files
}

fn remove_indexes(broker: &GeneratedBroker) {
    for path in find_files(&broker.path("broker1/jetstream"), INDEX) {
        fs::remove_file(path).unwrap();
    }
}

async fn connect_permits(broker: &GeneratedBroker, name: &str, address: &str) -> PermitClient {
    broker.run(&["org", "add", "node", name, "--bundle", broker.path(name).to_str().unwrap()]);
    let client = PermitClient::new(Identity::parse(name).unwrap());
    let options =
        broker.node_options((name, address), |name, servers| BusOptions::for_daemon(name, servers));
    let bus = options.connect().await.unwrap();
    bus.wait_connected().await;
    client.connect(bus);
    client
}

fn request(timeout: Duration) -> PermitRequest {
    let pool = SubjectName::parse("puppet").unwrap();
    PermitRequest::new(pool, NonZeroU32::MIN, Uuid::now_v7(), timeout)
}

/// The head of the account token, as often as each server may answer.
async fn assert_heads(broker: &GeneratedBroker, expected: &[u8]) {
    for address in ["127.0.0.1", "127.0.0.2", "127.0.0.3"] {
        let bus = broker.connect_node((WAITER, address)).await;
        for _ in 0..6 {
            let entry = bus.bucket(TRUST_BUCKET.name).get(TRUST_HEAD_KEY).await.unwrap();
            assert_eq!(entry.unwrap().value.as_deref(), Some(expected), "{address}");
        }
        bus.close().await.unwrap();
    }
}

/// A cluster with a node that holds a permit, one that waits for it, and revocations.
struct DamagedCluster {
    broker: GeneratedBroker,
    holder: PermitClient,
    waiter: PermitClient,
    revoked: u32,
    /// The newest head of the account token, which has all revocations.
    head: Vec<u8>,
}

impl DamagedCluster {
    async fn start() -> (Self, Permit) {
        let broker = GeneratedBroker::cluster_of_three().await;
        let holder = connect_permits(&broker, HOLDER, "127.0.0.2").await;
        let waiter = connect_permits(&broker, WAITER, "127.0.0.3").await;
        let never = CancellationToken::new();
        let held = holder.acquire_permit(request(CLUSTER_TIMEOUT), &never).await.unwrap();
        let mut cluster = Self { broker, holder, waiter, revoked: 0, head: Vec::new() };
        cluster.revoke_another().await;
        (cluster, held)
    }

    /// Revokes a new user. The command succeeds when most servers have the revocation.
    async fn revoke_another(&mut self) {
        self.revoked += 1;
        let name = format!("mallory{}", self.revoked);
        self.broker.run(&["org", "add", "user", &name]);
        self.broker.run(&["org", "revoke", &name, "--yes"]);
        // The third server may be the one that gets it last.
        let bus = self.broker.connect_node((WAITER, "127.0.0.3")).await;
        let newest = poll_until_ok("the head is new", CLUSTER_TIMEOUT, async || {
            let newest = bus.bucket(TRUST_BUCKET.name).get(TRUST_HEAD_KEY).await.unwrap().unwrap();
            let newest = newest.value.unwrap().to_vec();
            if newest == self.head { Err(name.clone()) } else { Ok(newest) }
        })
        .await;
        bus.close().await.unwrap();
        self.head = newest;
    }

    /// Stops the first server, damages its files and starts it.
    async fn damage(&mut self, damage: FileDamage, directory: StoreDirectory, part: &str) {
        self.broker.stop_server(1).await;
        let _ = fs::remove_file(self.broker.path("broker1/log"));
        let files = find_store_files(&self.broker, directory, part);
        assert!(!files.is_empty(), "{directory:?} {part}");
        for path in &files {
            damage.apply(path);
        }
        // As the unit of the package does before it starts the server.
        if part != INDEX {
            remove_indexes(&self.broker);
        }
        self.broker.start_server(1);
    }

    /// Waits until the status reports no problem, or that the server cannot use its files. Then they are removed, as the message says. Returns whether
    /// they were.
    async fn repair(&mut self) -> bool {
        let is_damaged =
            poll_until_ok("the server runs or is named", CLUSTER_TIMEOUT, async || {
                let output = self.broker.rpc(&["broker", "status"]);
                let text = describe_output(&output);
                let is_unhealthy = text.contains("server broker1 is not healthy")
                    && text.contains("corrupt; stop broker1, remove its directory `jetstream`");
                // A server that cannot read the log of all servers ends. Its log is that of the command that the message names.
                let is_ended = text.contains("server broker1 did not answer")
                    && text.contains(
                        "`journalctl -u muster-broker | grep FTL | tail -n 1` on its host",
                    )
                    && text.contains(
                        "If that is `snapshot corrupt`, stop it, remove its directory `jetstream`",
                    )
                    && self
                        .broker
                        .log("broker1")
                        .contains("[FTL] Can't start JetStream: raft: snapshot corrupt");
                match output.status.code() {
                    Some(0) => Ok(false),
                    Some(2) if is_unhealthy || is_ended => Ok(true),
                    _ => Err(text),
                }
            })
            .await;
        if is_damaged {
            self.broker.stop_server(1).await;
            fs::remove_dir_all(self.broker.path("broker1/jetstream")).unwrap();
            self.broker.start_server(1);
            self.broker.await_no_problem().await;
        }
        is_damaged
    }

    async fn assert_kept(&self, held: &Permit, what: &str) {
        let never = CancellationToken::new();
        let second = self.waiter.acquire_permit(request(ATTEMPT_TIMEOUT), &never).await;
        assert!(second.is_err(), "{what}: a second holder");
        assert!(!held.lost_token().is_cancelled(), "{what}: the permit is lost");
        assert_heads(&self.broker, &self.head).await;
    }

    /// Kills all servers at once, and checks that everything is kept.
    async fn kill_all(mut self, held: Permit) {
        for server in 1..=3 {
            self.broker.kill_server(server);
        }
        for server in 1..=3 {
            self.broker.start_server(server);
        }
        self.broker.await_no_problem().await;
        self.assert_kept(&held, "all servers were killed").await;
        held.release().await;
        let never = CancellationToken::new();
        let permit = self.waiter.acquire_permit(request(CLUSTER_TIMEOUT), &never).await.unwrap();
        permit.release().await;
        drop(self.holder);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_files_and_power_failures_keep_one_holder_and_all_revocations() {
    let (mut cluster, held) = DamagedCluster::start().await;
    for (damage, part) in [
        (FileDamage::FlipBits, ".blk"),
        (FileDamage::Halve, ".blk"),
        (FileDamage::Empty, ".blk"),
        (FileDamage::FlipBits, "meta.inf"),
        (FileDamage::Empty, "meta.sum"),
        (FileDamage::FlipBits, INDEX),
        (FileDamage::Halve, INDEX),
    ] {
        cluster.damage(damage, StoreDirectory::Streams, part).await;
        cluster.broker.await_no_problem().await;
        cluster.assert_kept(&held, &format!("{damage:?} {part}")).await;
    }
    cluster.kill_all(held).await;
}

/// Damage of the cluster's own logs on one server. A revocation after each is acknowledged and kept, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_logs_of_the_cluster_keep_one_holder_and_all_revocations() {
    use StoreDirectory::{ClusterLog, StreamLogs};
    let (mut cluster, held) = DamagedCluster::start().await;
    for (directory, damage, part) in [
        (StreamLogs, FileDamage::FlipBits, ".blk"),
        (StreamLogs, FileDamage::Empty, ".blk"),
        (StreamLogs, FileDamage::FlipBits, "meta.inf"),
        (StreamLogs, FileDamage::Halve, INDEX),
        (StreamLogs, FileDamage::FlipBits, "peers.idx"),
        (StreamLogs, FileDamage::Halve, "tav.idx"),
        (StreamLogs, FileDamage::FlipBits, "/snapshots/"),
        (ClusterLog, FileDamage::FlipBits, ".blk"),
        (ClusterLog, FileDamage::Empty, ".blk"),
        (ClusterLog, FileDamage::Empty, "meta.sum"),
        (ClusterLog, FileDamage::FlipBits, INDEX),
        (ClusterLog, FileDamage::FlipBits, "peers.idx"),
        (ClusterLog, FileDamage::FlipBits, "tav.idx"),
        (ClusterLog, FileDamage::Halve, "/snapshots/"),
    ] {
        let what = format!("{directory:?} {damage:?} {part}");
        cluster.damage(damage, directory, part).await;
        let is_damaged = cluster.repair().await;
        assert!(!is_damaged || part == "/snapshots/", "{what}: the files were removed");
        cluster.assert_kept(&held, &what).await;
        cluster.revoke_another().await;
        cluster.broker.await_no_problem().await;
        assert_heads(&cluster.broker, &cluster.head).await;
    }
    cluster.kill_all(held).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn status_names_the_server_whose_copy_is_damaged() {
    let mut broker = GeneratedBroker::cluster_of_three().await;
    broker.await_no_problem().await;
    broker.stop_server(1).await;
    for path in find_store_files(&broker, StoreDirectory::Streams, ".blk") {
        FileDamage::FlipBits.apply(&path);
    }
    broker.start_server(1);
    let text = poll_until_ok("the status names the damage", CLUSTER_TIMEOUT, async || {
        let output = broker.rpc(&["broker", "status"]);
        let text = describe_output(&output);
        let is_found = text.contains("stream KV_TRUST: the copy on broker1 is damaged");
        if is_found && output.status.code() == Some(2) { Ok(text) } else { Err(text) }
    })
    .await;
    assert!(text.contains("stop broker1, remove its directory `jetstream`"), "{text}");
    // The steps of the message.
    broker.stop_server(1).await;
    fs::remove_dir_all(broker.path("broker1/jetstream")).unwrap();
    broker.start_server(1);
    broker.await_no_problem().await;
}
