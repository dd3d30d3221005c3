//! `rpc broker balance` spreads the connections of a cluster, and no node misses a call.

use muster_tests::published_schemas::{SchemaMode, check_schema};
use serde_json::Value;

use super::fixture::GeneratedBroker;
use crate::demo::describe_output;

const NODES: [&str; 3] = ["n1.acme.net", "n2.acme.net", "n3.acme.net"];
/// Connections besides the daemons', all at one server.
const EXTRA_CONNECTIONS: usize = 57;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn balance_spreads_connections_over_the_servers() {
    let mut broker = GeneratedBroker::cluster_of_three().await;
    broker.add_user("rip", "127.0.0.2");
    for node in NODES {
        broker.start_node(node, "127.0.0.1").await;
    }
    let first = (NODES[0], "127.0.0.1");
    let mut extra = Vec::new();
    while extra.len() < EXTRA_CONNECTIONS {
        extra.push(broker.connect_node(first).await);
    }
    let marks: Vec<_> = extra.iter().map(muster_bus::Bus::mark_connection).collect();

    let (before, code) = balance(&broker, &["--dry-run"]);
    assert_eq!(code, Some(2), "{before}");
    assert_eq!(connections(&before, "before"), [60, 0, 0]);
    let (after, code) = balance(&broker, &[]);
    assert_eq!(code, Some(0), "{after}");
    let counts = connections(&after, "after");
    // A client that moves is connected to both servers for a moment.
    assert!((60..=62).contains(&counts.iter().sum::<u64>()), "{after}");
    // The mean is 20, and 10 % are tolerated.
    assert!(counts.iter().all(|count| *count <= 22), "{after}");
    for (bus, mark) in extra.iter().zip(marks) {
        assert_eq!(bus.disturbed_since(mark), None);
    }
    broker.await_answers("rip", &NODES).await;
    let (settled, code) = balance(&broker, &["--dry-run"]);
    assert_eq!((settled.get("requested_moves").unwrap(), code), (&Value::from(0), Some(0)));
}

/// The document and the exit code of `rpc broker balance -j`.
fn balance(broker: &GeneratedBroker, arguments: &[&str]) -> (Value, Option<i32>) {
    let output = broker.rpc(&[&["broker", "balance", "-j"], arguments].concat());
    let document: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", describe_output(&output)));
    check_schema("muster.broker.balance.v1", &document, SchemaMode::Strict).unwrap();
    (document, output.status.code())
}

fn connections(document: &Value, field: &str) -> Vec<u64> {
    let servers = document.get("servers").unwrap().as_array().unwrap();
    servers.iter().map(|server| server.get(field).unwrap().as_u64().unwrap()).collect()
}
