//! One call reaches nodes on all servers of a cluster and behind a leaf node; a revocation reaches the leaf node.

use muster_tests::poll_until_ok;
use muster_wire::stores::{PERMITS_BUCKET, fleet_buckets, stream_name};

use super::fixture::{CLUSTER_TIMEOUT, GeneratedBroker, LEAF_ADDRESS, stream_replicas};
use crate::demo::describe_output;

const NODES: [&str; 4] = ["n1.acme.net", "n2.acme.net", "n3.acme.net", "n4.acme.net"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_on_all_servers_and_behind_a_leaf_answer_one_call() {
    let mut broker = GeneratedBroker::cluster_of_three().await;
    let status = broker.await_no_problem().await;
    let replicas = stream_replicas(&status);
    // Without a compiler, the fleet has no stores of catalogs.
    let expected = fleet_buckets(&[]).map(|bucket| (stream_name(bucket.name), 3));
    assert_eq!(replicas, expected.collect());

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
    }

    Box::pin(use_permits_behind_the_leaf(&broker)).await;
    connect_with_many_grants(&broker);

    // Nodes get the revocation through the leaf node, which still accepts the user's connection. It refuses the user with a new bundle.
    let revoked = broker.run(&["org", "revoke", "anna", "--yes"]);
    assert!(revoked.contains("the leaf node berlin gets the account's token"), "{revoked}");
    let account = std::fs::read_to_string(broker.path("acme/account.jwt")).unwrap();
    poll_until_ok("all nodes have the new account token", CLUSTER_TIMEOUT, async || {
        let is_old = |node: &&str| {
            let stored = std::fs::read_to_string(broker.path(node).join("state/account.jwt"));
            stored.ok().as_deref().map(str::trim) != Some(account.trim())
        };
        let old: Vec<_> = NODES.into_iter().filter(is_old).collect();
        if old.is_empty() { Ok(()) } else { Err(old) }
    })
    .await;
    assert_eq!(broker.ping("anna"), [""; 0], "a revoked user got replies");
    broker.restart_leaf().await;
    let refused = broker.rpc_as(Some("anna"), &["rpcutil", "ping"]);
    let text = describe_output(&refused);
    assert!(text.contains("authorization violation"), "{text}");

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

/// A node behind the leaf writes run permits, lists them, and sees the changes of others, as on a server of the cluster.
async fn use_permits_behind_the_leaf(broker: &GeneratedBroker) {
    let [near, far] = [("n1.acme.net", "127.0.0.1"), ("n4.acme.net", LEAF_ADDRESS)];
    let (near, far) = tokio::join!(broker.connect_node(near), broker.connect_node(far));
    let [near, far] = [near, far].map(|bus| bus.bucket(PERMITS_BUCKET.name));
    near.put("wait.1.n1.acme.net", "near".into()).await.unwrap();
    let mut watch = far.watch(">").await.unwrap();
    let first = watch.next().await.unwrap().unwrap();
    assert_eq!(
        (first.key.as_str(), first.value.as_deref()),
        ("wait.1.n1.acme.net", Some(b"near".as_slice()))
    );
    far.put("claim.1.n4.acme.net", "far".into()).await.unwrap();
    near.put("claim.1.n1.acme.net", "near".into()).await.unwrap();
    for key in ["claim.1.n4.acme.net", "claim.1.n1.acme.net"] {
        assert_eq!(watch.next().await.unwrap().unwrap().key, key);
    }
    let mut watch = near.watch(">").await.unwrap();
    assert_eq!(watch.next().await.unwrap().unwrap().key, "wait.1.n1.acme.net");
    assert_eq!(watch.next().await.unwrap().unwrap().key, "claim.1.n4.acme.net");
    for (bucket, node) in [(near, "n1.acme.net"), (far, "n4.acme.net")] {
        bucket.delete(&format!("claim.1.{node}")).await.unwrap();
    }
}

/// A token of more than nats-server's default limit for a line connects; one that would not fit is refused when it is issued.
fn connect_with_many_grants(broker: &GeneratedBroker) {
    let add = |name: &str, count: u32| {
        let agents: Vec<String> =
            (0..count).map(|number| format!("--agent=agent{number:026}")).collect();
        let agents: Vec<&str> = agents.iter().map(String::as_str).collect();
        let directory = broker.path(name);
        let arguments = ["org", "add", "user", name, "--bundle", directory.to_str().unwrap()];
        broker.rpc(&[&arguments, agents.as_slice()].concat())
    };
    let added = add("many", 200);
    assert!(added.status.success(), "{}", describe_output(&added));
    let creds = std::fs::read_to_string(broker.path("acme/creds/users/many.creds")).unwrap();
    assert!(creds.len() > 10_000, "{}", creds.len());
    let output = broker.rpc_as(Some("many"), &["rpcutil", "ping", "-I", "n1.acme.net"]);
    assert!(output.status.success(), "{}", describe_output(&output));
    let refused = add("toomany", 500);
    let text = describe_output(&refused);
    assert!(!refused.status.success() && text.contains("16384"), "{text}");
}
