//! The broker moves to another address, and its authority is replaced. Nodes and users follow the account token: none of their files is changed by hand.

use std::path::PathBuf;

use muster_tests::await_state;
use muster_tests::command::describe_output;

use super::fixture::{GeneratedBroker, check_daemon};
use crate::operator_rotation::copy_directory;

const NODE: &str = "n1.acme.net";
const USER: &str = "rip";
const CERTIFICATE: &str = "BEGIN CERTIFICATE";

fn read(path: PathBuf) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// The file of this name in the user's cache.
fn cached(broker: &GeneratedBroker, name: &str) -> String {
    let mut directories = vec![broker.path(".cache")];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            if entry.path().is_dir() {
                directories.push(entry.path());
            } else if entry.file_name() == name {
                return read(entry.path());
            }
        }
    }
    String::new()
}

/// Waits until node and user have a file with this content.
async fn await_followed(broker: &GeneratedBroker, name: &str, has: impl Fn(&str) -> bool) {
    await_state("the node follows", || has(&read(broker.path(NODE).join("state").join(name))))
        .await;
    await_state("the user follows", || {
        // Each command tries what is new.
        broker.ping(USER);
        has(&cached(broker, name))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_and_users_follow_a_broker_that_moves_and_its_new_authority() {
    let mut broker = GeneratedBroker::new();
    broker.follows = true;
    broker.run(&["broker", "rename", "--host", "127.0.0.1"]);
    broker.write_bundle("broker1", "127.0.0.1", &[]);
    broker.start_server(1);
    broker.push().await;
    broker.add_user(USER, "127.0.0.1");
    broker.start_node(NODE, "127.0.0.1").await;
    broker.await_answers(USER, &[NODE]).await;
    let configured = read(broker.path(NODE).join("rpcd.toml"));

    // Both names, while the server is at the first one.
    broker.run(&["broker", "rename", "--host", "127.0.0.1", "--host", "127.0.0.2"]);
    broker.write_bundle("broker1", "127.0.0.1", &[]);
    broker.stop_server(1).await;
    broker.start_server(1);
    broker.push().await;
    await_followed(&broker, "broker.json", |text| text.contains("127.0.0.2")).await;
    // The move.
    broker.stop_server(1).await;
    copy_directory(&broker.path("broker1"), &broker.path("broker2"));
    broker.write_bundle("broker2", "127.0.0.2", &[]);
    broker.start_server(2);
    await_state("the server has started", || broker.rpc(&["broker", "status"]).status.success())
        .await;
    broker.await_answers(USER, &[NODE]).await;
    broker.run(&["broker", "rename", "--host", "127.0.0.2"]);
    broker.push().await;

    // A new authority.
    broker.run(&["org", "rotate", "authority"]);
    broker.push().await;
    let two = |text: &str| text.matches(CERTIFICATE).count() == 2;
    await_followed(&broker, "broker-ca.pem", two).await;
    broker.run(&["org", "rotate", "authority", "--finish"]);
    broker.write_bundle("broker2", "127.0.0.2", &[]);
    broker.stop_server(2).await;
    broker.start_server(2);
    broker.push().await;
    let authority = read(broker.path("acme/ca.pem"));
    await_followed(&broker, "broker-ca.pem", |text| text == authority).await;
    assert!(!read(broker.path(NODE).join("ca.pem")).contains(authority.trim()));

    // The configured address stays in the user's file, and stops nothing.
    let diagnosis = broker.rpc_as(Some(USER), &["doctor"]);
    let text = String::from_utf8_lossy(&diagnosis.stdout);
    assert!(diagnosis.status.success(), "{}", describe_output(&diagnosis));
    assert!(text.contains("no longer lists this address"), "{text}");

    // A daemon that starts with the first configuration.
    broker.kill_nodes();
    broker.start_daemon(NODE).await;
    broker.await_answers(USER, &[NODE]).await;
    assert_eq!(read(broker.path(NODE).join("rpcd.toml")), configured);
    let config = broker.path(NODE).join("rpcd.toml");
    let shown = check_daemon(&config);
    assert!(shown.contains("127.0.0.2") && shown.contains("account token"), "{shown}");
}
