//! A broker grows, and `rpc org push` keeps its streams: from one replica to three, and from one server to a cluster.

use muster_tests::poll_until_ok;

use super::fixture::{CLUSTER_TIMEOUT, GeneratedBroker, stream_replicas};
use crate::demo::describe_output;

/// The name of a machine that an enroller admitted is only in the bucket, so it shows whether data was lost.
const NODE: &str = "n1.acme.net";

/// Puts something into the buckets: a reserved name, and the token of a node that expires.
fn write_data(broker: &GeneratedBroker) {
    broker.run(&["org", "add", "enroller", "provisioner"]);
    broker.run(&["org", "add", "node", NODE, "--expires", "90d"]);
}

/// Messages of each stream.
fn messages(broker: &GeneratedBroker) -> Vec<(String, u64)> {
    let (status, _) = broker.status();
    let streams = status.get("streams").unwrap().as_array().unwrap();
    let entry = |stream: &serde_json::Value| {
        let name = stream.get("name").unwrap().as_str().unwrap().to_owned();
        (name, stream.get("messages").unwrap().as_u64().unwrap())
    };
    streams.iter().map(entry).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn push_raises_the_replicas_of_existing_streams_after_the_cluster_grew() {
    let mut broker = GeneratedBroker::new();
    for number in [1, 2] {
        broker.write_cluster_member(number, 2);
        broker.start_server(number);
    }
    let created = broker.push().await;
    assert!(created.contains("created the store TRUST with 1 replica\n"), "{created}");
    write_data(&broker);
    let before = messages(&broker);
    assert!(before.iter().any(|(_, count)| *count > 0), "{before:?}");
    assert!(broker.push().await.contains("the stores are up to date"));

    for number in [1, 2, 3] {
        broker.write_cluster_member(number, 3);
    }
    for number in [1, 2] {
        broker.kill_server(number);
        broker.start_server(number);
    }
    broker.start_server(3);
    // Until the third server is a peer of the metadata, two servers have one replica each.
    let changed = poll_until_ok("the cluster has three servers", CLUSTER_TIMEOUT, async || {
        let text = broker.push().await;
        if text.contains("replicas 1 -> 3") { Ok(text) } else { Err(text) }
    })
    .await;
    for store in ["PERMITS", "PROVISION", "TRUST"] {
        assert!(
            changed.contains(&format!("updated the store {store}: replicas 1 -> 3")),
            "{changed}"
        );
    }
    let status = broker.await_no_problem().await;
    assert!(stream_replicas(&status).values().all(|replicas| *replicas == 3), "{status}");
    assert_eq!(messages(&broker), before);

    // Fewer replicas must be asked for.
    assert!(broker.push().await.contains("the stores are up to date"));
    let lowered = broker.push_with(&["--replicas", "1"]).await;
    assert!(lowered.contains("updated the store TRUST: replicas 3 -> 1"), "{lowered}");
    assert_eq!(messages(&broker), before);
}

/// nats-server removes streams of a server that joins a cluster, 30 seconds after the cluster has a leader, unless they are adopted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn push_adopts_the_streams_of_a_server_that_became_a_cluster() {
    let mut broker = GeneratedBroker::new();
    broker.write_bundle("broker1", "127.0.0.1", &[]);
    broker.start_server(1);
    broker.push().await;
    write_data(&broker);
    let before = messages(&broker);
    broker.kill_server(1);
    for number in [1, 2, 3] {
        broker.write_cluster_member(number, 3);
        broker.start_server(number);
    }
    let mut printed = String::new();
    poll_until_ok("the stores are adopted", CLUSTER_TIMEOUT, async || {
        let output = broker.rpc(&["org", "push"]);
        printed.push_str(&describe_output(&output));
        if output.status.success()
            && !printed.is_empty()
            && printed.contains("store TRUST: replicas 1 -> 3")
        {
            Ok(())
        } else {
            Err(printed.clone())
        }
    })
    .await;
    assert!(printed.contains("adopted the store PROVISION of broker1"), "{printed}");
    assert!(!printed.contains("created the store"), "{printed}");
    broker.await_no_problem().await;
    assert_eq!(messages(&broker), before);
    // The copies of the other servers are complete: the first one is not needed.
    broker.kill_server(1);
    poll_until_ok("the other servers have the streams", CLUSTER_TIMEOUT, async || {
        let found = messages(&broker);
        if found == before { Ok(()) } else { Err(found) }
    })
    .await;
    let taken = broker.rpc(&["org", "add", "user", NODE]);
    assert!(!taken.status.success(), "{}", describe_output(&taken));
}
