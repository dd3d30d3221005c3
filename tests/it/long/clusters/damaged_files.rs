//! One of three servers is stopped, its files are damaged, and it starts again; then all three are killed at once. A revocation stays, and a permit has one
//! holder: the server verifies its streams and gets what is damaged from the others. Without the verification it serves the damaged copy, and `rpc
//! broker status` says so.

use std::fs;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_bus::BusOptions;
use muster_permits::{PermitClient, PermitRequest};
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

/// All files below a directory whose name ends so.
fn find_files(directory: &Path, end: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(find_files(&path, end));
        } else if path.to_str().unwrap().ends_with(end) {
            found.push(path);
        }
    }
    found
}

/// The streams of the first server, without the files of the cluster's own log.
fn stream_directory(broker: &GeneratedBroker) -> PathBuf {
    let accounts = broker.path("broker1/jetstream/jetstream");
    let mut accounts = fs::read_dir(accounts).unwrap().map(|entry| entry.unwrap().path());
    accounts.find_map(|path| Some(path.join("streams")).filter(|path| path.exists())).unwrap()
}

fn remove_indexes(broker: &GeneratedBroker) {
    for path in find_files(&broker.path("broker1/jetstream"), "index.db") {
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_files_and_power_failures_keep_one_holder_and_all_revocations() {
    let mut broker = GeneratedBroker::cluster_of_three().await;
    let never = CancellationToken::new();
    let holder = connect_permits(&broker, HOLDER, "127.0.0.2").await;
    let waiter = connect_permits(&broker, WAITER, "127.0.0.3").await;
    let held = holder.acquire_permit(request(CLUSTER_TIMEOUT), &never).await.unwrap();
    let mallory = broker.path("mallory");
    broker.run(&["org", "add", "user", "mallory", "--bundle", mallory.to_str().unwrap()]);
    broker.run(&["org", "revoke", "mallory", "--yes"]);
    let bus = broker.connect_node((WAITER, "127.0.0.3")).await;
    let newest = bus.bucket(TRUST_BUCKET.name).get(TRUST_HEAD_KEY).await.unwrap().unwrap();
    let newest = newest.value.unwrap();
    bus.close().await.unwrap();

    for (damage, end) in [
        (FileDamage::FlipBits, ".blk"),
        (FileDamage::Halve, ".blk"),
        (FileDamage::Empty, ".blk"),
        (FileDamage::FlipBits, "meta.inf"),
        (FileDamage::Empty, "meta.sum"),
    ] {
        broker.stop_server(1).await;
        let files = find_files(&stream_directory(&broker), end);
        assert!(!files.is_empty(), "{end}");
        for path in &files {
            damage.apply(path);
        }
        // As the unit of the package does before it starts the server.
        remove_indexes(&broker);
        broker.start_server(1);
        broker.await_no_problem().await;
        let second = waiter.acquire_permit(request(ATTEMPT_TIMEOUT), &never).await;
        assert!(second.is_err(), "{damage:?} {end}: a second holder");
        assert!(!held.lost_token().is_cancelled(), "{damage:?} {end}");
        assert_heads(&broker, &newest).await;
    }

    for server in 1..=3 {
        broker.kill_server(server);
    }
    for server in 1..=3 {
        broker.start_server(server);
    }
    broker.await_no_problem().await;
    let second = waiter.acquire_permit(request(ATTEMPT_TIMEOUT), &never).await;
    assert!(second.is_err(), "a second holder after all servers were killed");
    assert!(!held.lost_token().is_cancelled());
    assert_heads(&broker, &newest).await;
    held.release().await;
    waiter.acquire_permit(request(CLUSTER_TIMEOUT), &never).await.unwrap().release().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn status_names_the_server_whose_copy_is_damaged() {
    let mut broker = GeneratedBroker::cluster_of_three().await;
    broker.await_no_problem().await;
    broker.stop_server(1).await;
    for path in find_files(&stream_directory(&broker), ".blk") {
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
