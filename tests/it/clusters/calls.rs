//! One call reaches nodes on all servers of a cluster and behind a leaf node; a revocation reaches the leaf node.

use muster_tests::poll_until_ok;

use super::fixture::{CLUSTER_TIMEOUT, GeneratedBroker, LEAF_ADDRESS, stream_replicas};
use crate::demo::describe_output;

const NODES: [&str; 4] = ["n1.acme.net", "n2.acme.net", "n3.acme.net", "n4.acme.net"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_on_all_servers_and_behind_a_leaf_answer_one_call() {
    let mut broker = GeneratedBroker::cluster_of_three().await;
    let status = broker.await_no_problem().await;
    let replicas = stream_replicas(&status);
    let expected = ["KV_PERMITS", "KV_PROVISION", "KV_TRUST"].map(|name| (name.to_owned(), 3));
    assert_eq!(replicas, expected.into());

    broker.start_leaf().await;
    broker.add_user("rip", "127.0.0.1");
    broker.add_user("anna", LEAF_ADDRESS);
    for (number, node) in (1..).zip(NODES) {
        broker.start_node(node, &format!("127.0.0.{number}")).await;
    }
    for user in ["rip", "anna"] {
        broker.await_answers(user, &NODES).await;
        for node in NODES {
            let output = broker.rpc_as(Some(user), &["rpcutil", "ping", "-I", node]);
            assert!(output.status.success(), "{user} {node}: {}", describe_output(&output));
        }
        // Run permits are in a bucket of the cluster, which the node behind the leaf reads and writes, too.
        let output = broker.rpc_as(Some(user), &["permit", "list"]);
        assert!(output.status.success(), "{user}: {}", describe_output(&output));
    }

    // The leaf node has an account token of its own, which the revocation must reach.
    let revoked = broker.run(&["org", "revoke", "anna", "--yes"]);
    assert!(revoked.contains("to the leaf node berlin"), "{revoked}");
    let refused = broker.rpc_as(Some("anna"), &["rpcutil", "ping"]);
    assert!(
        describe_output(&refused).contains("rpc org add user anna") || !refused.status.success(),
        "{}",
        describe_output(&refused)
    );

    // The credentials of the leaf are revoked like those of a user: the servers of the cluster disconnect it.
    broker.run(&["org", "revoke", "berlin", "--yes"]);
    poll_until_ok("the leaf node is refused", CLUSTER_TIMEOUT, async || {
        let (status, _) = broker.status();
        let leafs = status.get("leafs").unwrap().as_array().unwrap().len();
        if leafs == 0 { Ok(()) } else { Err(status) }
    })
    .await;
    broker.await_answers("rip", NODES.get(..3).unwrap()).await;
}
