//! Stolen credentials of a leaf node at a cluster of three: each server admits them before the revocation, and none after it, also when a server was
//! restarted with its bundle from before the revocation.

use muster_tests::{await_state, poll_until_ok};

use super::fixture::{CLUSTER_TIMEOUT, GeneratedBroker, RunningProcess};

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
        await_state(&format!("{name}: {expected}"), || self.log(name).contains(expected)).await;
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
