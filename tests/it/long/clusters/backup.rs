//! Backups of the broker's stores, restored into brokers with as many servers, with fewer and with more; and a server's files that are put on a single server.

#![expect(clippy::disallowed_types, reason = "copies a directory with cp")]
#![expect(clippy::indexing_slicing, reason = "documents are indexed; tests end by panic")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use muster_tests::poll_until_ok;
use serde_json::Value;

use super::fixture::{CLUSTER_TIMEOUT, GeneratedBroker, stream_replicas};
use crate::demo::describe_output;

/// The name of a machine; only the broker has its token's name in the register.
const NODE: &str = "n1.acme.net";

/// Starts a broker of this many servers without streams. Those of the servers before are removed.
fn start_servers(broker: &mut GeneratedBroker, count: u8) {
    for number in 1..=count {
        let directory = broker.path(&format!("broker{number}"));
        let _ = std::fs::remove_dir_all(&directory);
        if count == 1 {
            broker.write_bundle("broker1", "127.0.0.1", &[]);
        } else {
            broker.write_cluster_member(number, count);
        }
        broker.start_server(number);
    }
}

async fn stop_servers(broker: &mut GeneratedBroker, count: u8) {
    for number in 1..=count {
        broker.stop_server(number).await;
    }
}

/// Keys of each store in a backup.
fn count_keys(path: &Path) -> BTreeMap<String, usize> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut counts = BTreeMap::new();
    for line in text.lines().skip(1) {
        let key: Value = serde_json::from_str(line).unwrap();
        *counts.entry(key["store"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    counts
}

/// Runs a command until the cluster has a leader; returns what the last one printed.
async fn run_until_success(broker: &GeneratedBroker, arguments: &[&str]) -> String {
    poll_until_ok("the command succeeds", CLUSTER_TIMEOUT, async || {
        let output = broker.rpc(arguments);
        let text = describe_output(&output);
        if output.status.success() { Ok(text) } else { Err(text) }
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn backup_is_restored_into_more_fewer_and_as_many_servers() {
    let mut broker = GeneratedBroker::new();
    let (file, again) = (broker.path("stores.jsonl"), broker.path("again.jsonl"));
    let (path, again_path) = (file.to_str().unwrap(), again.to_str().unwrap());
    let mut running = 1;
    start_servers(&mut broker, running);
    broker.push().await;
    broker.run(&["org", "add", "enroller", "provisioner"]);
    broker.run(&["org", "add", "node", NODE, "--expires", "90d"]);
    for count in [1, 3, 3, 1] {
        broker.run(&["broker", "backup", path]);
        let before = count_keys(&file);
        assert!(before["PROVISION"] >= 2 && before["TOKENS"] == 1, "{before:?}");
        stop_servers(&mut broker, running).await;
        start_servers(&mut broker, count);
        running = count;
        let told = run_until_success(&broker, &["broker", "restore", path, "--yes"]).await;
        assert!(told.contains("restored "), "{told}");
        broker.push().await;
        let status = broker.await_no_problem().await;
        let replicas = u64::from(count);
        assert!(stream_replicas(&status).values().all(|found| *found == replicas), "{status}");
        broker.run(&["broker", "backup", again_path]);
        assert_eq!(count_keys(&again), before, "{running} servers");
        // A second time, and after the servers were restarted, nothing is missing.
        let told = broker.run(&["broker", "restore", path, "--yes"]);
        assert!(told.contains("restored 0 keys; 3 keys were written"), "{told}");
        stop_servers(&mut broker, running).await;
        for number in 1..=count {
            broker.start_server(number);
        }
        run_until_success(&broker, &["broker", "backup", again_path]).await;
        assert_eq!(count_keys(&again), before, "{running} servers after a restart");
    }
    let taken = broker.rpc(&["org", "add", "user", NODE]);
    assert!(!taken.status.success(), "{}", describe_output(&taken));
}

/// nats-server refuses the files of a stream with three replicas at each start without a cluster (error 10074).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_of_a_cluster_are_used_by_a_single_server() {
    let mut broker = GeneratedBroker::cluster_of_three().await;
    broker.run(&["org", "add", "enroller", "provisioner"]);
    broker.run(&["org", "add", "node", NODE, "--expires", "90d"]);
    let file = broker.path("stores.jsonl");
    let path = file.to_str().unwrap().to_owned();
    broker.run(&["broker", "backup", &path]);
    let before = count_keys(&file);
    stop_servers(&mut broker, 3).await;
    broker.write_bundle("single", "127.0.0.1", &[]);
    let copied = Command::new("cp")
        .args(["-rp", "broker1/jetstream", "single/"])
        .current_dir(broker.scratch.path())
        .status()
        .unwrap();
    assert!(copied.success());
    broker.start_named("single");
    poll_until_ok("the loss is named", CLUSTER_TIMEOUT, async || {
        let output = broker.rpc(&["org", "push"]);
        let text = describe_output(&output);
        assert!(!output.status.success(), "{text}");
        if text.contains("has lost the store") { Ok(()) } else { Err(text) }
    })
    .await;
    broker.run(&["org", "push", "--create-missing"]);
    broker.stop_named("single").await;
    broker.start_named("single");
    run_until_success(&broker, &["broker", "backup", &path]).await;
    assert_eq!(count_keys(&file), before);
    let status = broker.await_no_problem().await;
    assert!(stream_replicas(&status).values().all(|replicas| *replicas == 1), "{status}");
}
