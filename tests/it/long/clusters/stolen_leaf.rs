//! Stolen credentials of a leaf node at a cluster of three: each server admits them before the revocation, and none after it, also when a server was
//! restarted with its bundle from before the revocation. A leaf node of named nodes carries all of these, and no record or permit of others.

use muster_tests::{await_state, poll_until_ok};
use muster_wire::stores::{NODES_BUCKET, PERMITS_BUCKET};

use super::fixture::{CLUSTER_TIMEOUT, GeneratedBroker, LEAF_ADDRESS, RunningProcess};
use crate::demo::describe_output;

/// Part of a name of a directory of a thief.
const THIEF: &str = "thief";

impl GeneratedBroker {
    /// Copies the bundle of the leaf node, for a leaf node of a thief that connects to one server only.
    fn steal_leaf(&self, number: u8) -> String {
        let name = format!("{THIEF}{number}");
        let (from, to) = (self.path("berlin"), self.path(&name));
        std::fs::create_dir_all(&to).unwrap();
        for entry in std::fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            let target = to.join(entry.file_name());
            if !entry.file_type().unwrap().is_file() || entry.file_name() == "log" {
                continue;
            }
            std::fs::copy(entry.path(), &target).unwrap();
            if target.extension().is_some_and(|end| end == "conf") {
                let text = std::fs::read_to_string(&target).unwrap();
                let others = |line: &&str| {
                    let is_remote = line.contains("tls://127.0.0.");
                    !is_remote || line.contains(&format!("tls://127.0.0.{number}:"))
                };
                let kept: Vec<&str> = text.lines().filter(others).collect();
                std::fs::write(&target, kept.join("\n") + "\n").unwrap();
            }
        }
        // A free port for clients: the leaf node itself has this address.
        std::fs::write(to.join("local.conf"), "port: -1\n").unwrap();
        name
    }

    /// Starts the thief's leaf node, and waits until its log has this text.
    async fn attack(&self, name: &str, expected: &str) -> RunningProcess {
        let _ = std::fs::remove_file(self.path(name).join("log"));
        let process = self.spawn_server(name);
        poll_until_ok(&format!("{name}: {expected}"), CLUSTER_TIMEOUT, async || {
            let log = self.log(name);
            if log.contains(expected) { Ok(()) } else { Err(log) }
        })
        .await;
        process
    }

    fn count_leafs(&self) -> usize {
        let (status, _) = self.status();
        status.get("leafs").unwrap().as_array().unwrap().len()
    }

    async fn await_no_leaf(&self) {
        poll_until_ok("no leaf node is connected", CLUSTER_TIMEOUT, async || {
            match self.count_leafs() {
                0 => Ok(()),
                count => Err(count),
            }
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn revoked_leaf_is_refused_by_each_server_also_after_a_restart() {
    let mut broker = GeneratedBroker::cluster_of_three().await;
    broker.await_no_problem().await;
    broker.start_leaf().await;
    let thieves = [1, 2, 3].map(|number| broker.steal_leaf(number));
    for name in &thieves {
        drop(broker.attack(name, "Leafnode connection created").await);
    }
    broker.run(&["org", "revoke", "berlin", "--kind", "leaf", "--yes"]);
    broker.await_no_leaf().await;
    for name in &thieves {
        let _process = broker.attack(name, "Authorization Violation").await;
        assert_eq!(broker.count_leafs(), 0, "{name}");
    }
    // The bundles have the account token from before the revocation.
    for number in 1..=3 {
        broker.stop_server(number).await;
        broker.start_server(number);
        broker.await_no_problem().await;
        let name = &thieves[usize::from(number) - 1];
        let _process = broker.attack(name, "Authorization Violation").await;
        assert_eq!(broker.count_leafs(), 0, "{name}");
    }
    // All at once: no server has another one from which to get the revocation.
    for number in 1..=3 {
        broker.stop_server(number).await;
    }
    for number in 1..=3 {
        broker.start_server(number);
    }
    broker.await_no_problem().await;
    for name in &thieves {
        let _process = broker.attack(name, "Authorization Violation").await;
        assert_eq!(broker.count_leafs(), 0, "{name}");
    }
}

/// Nodes behind the leaf node: one of its names, and one of another site.
const NAMED: &str = "web1.berlin.acme.net";
const OTHER: &str = "web1.paris.acme.net";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leaf_of_named_nodes_carries_their_records_and_permits_and_no_others() {
    let mut broker = GeneratedBroker::cluster_of_three().await;
    broker.await_no_problem().await;
    broker.start_leaf_with(&["--nodes", "*.berlin.acme.net"]).await;
    broker.add_user("rip", "127.0.0.1");
    for node in [NAMED, OTHER] {
        broker.start_node(node, LEAF_ADDRESS).await;
    }
    // Requests and replies are those of all names.
    broker.await_answers("rip", &[NAMED, OTHER]).await;
    let [near, far] = [(NAMED, "127.0.0.2"), (NAMED, LEAF_ADDRESS)];
    let (near, far) = (broker.connect_node(near).await, broker.connect_node(far).await);
    poll_until_ok("the record of the node is in the store", CLUSTER_TIMEOUT, async || {
        match near.bucket(NODES_BUCKET.name).get(NAMED).await {
            Ok(Some(_)) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    let key = |node: &str| format!("claim.1.{node}");
    let permits = far.bucket(PERMITS_BUCKET.name);
    permits.put(&key(NAMED), "x".into()).await.unwrap();
    permits.delete(&key(NAMED)).await.unwrap();
    let other = broker.connect_node((OTHER, LEAF_ADDRESS)).await;
    assert!(other.bucket(PERMITS_BUCKET.name).put(&key(OTHER), "x".into()).await.is_err());
    let other = broker.connect_node((OTHER, "127.0.0.2")).await;
    assert!(other.bucket(NODES_BUCKET.name).get(OTHER).await.unwrap().is_none());
    // With a new token for both sites, the other node has its record, too.
    let more = ["--nodes", "*.berlin.acme.net", "--nodes", "*.paris.acme.net", "--renew"];
    broker.start_leaf_with(&more).await;
    poll_until_ok("the other node can write", CLUSTER_TIMEOUT, async || {
        let other = broker.connect_node((OTHER, LEAF_ADDRESS)).await;
        let written = other.bucket(PERMITS_BUCKET.name).put(&key(OTHER), "x".into()).await;
        written.map(drop).map_err(|error| error.to_string())
    })
    .await;
    let output = broker.rpc(&["broker", "status"]);
    assert!(output.status.success(), "{}", describe_output(&output));
}

/// The certificate of a leaf node makes no server of the cluster, even with everything else of that server: leaf nodes and callers do not connect to it,
/// and the other servers have no route to it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificate_of_a_stolen_leaf_makes_no_server_of_the_cluster() {
    let mut broker = GeneratedBroker::cluster_of_three().await;
    broker.await_no_problem().await;
    broker.start_leaf().await;
    broker.add_user("rip", "127.0.0.3");
    assert_eq!(broker.rpc_as(Some("rip"), &["whoami"]).status.code(), Some(0));
    let leaf = broker.steal_leaf(3);
    drop(broker.attack(&leaf, "Leafnode connection created").await);
    broker.stop_server(3).await;
    for file in ["broker.pem", "broker.key"] {
        std::fs::copy(broker.path("berlin").join(file), broker.path("broker3").join(file)).unwrap();
    }
    broker.start_server(3);
    await_state("the false server runs", || broker.log("broker3").contains("Server is ready"))
        .await;
    let other_name = "x509: certificate is valid for 127.0.0.4, 127.0.0.1, ::1, not 127.0.0.3";
    let _leaf = broker.attack(&leaf, other_name).await;
    let output = broker.rpc_as(Some("rip"), &["ping"]);
    let text = describe_output(&output);
    assert!(output.status.code() == Some(1) && text.contains("certificate"), "{text}");
    let text = describe_output(&broker.rpc(&["broker", "status"]));
    assert!(text.contains("server broker3 did not answer"), "{text}");
}
