//! Cancelling on all nodes while runs become due.

#![expect(clippy::indexing_slicing, reason = "knows the documents that it reads")]

use std::time::Duration;

use muster_filter::parse_date_millis;
use muster_tests::command::describe_output;
use muster_tests::{now, poll_until_ok, simulate_delay};
use serde_json::{Value, json};

use super::fixture::TIMEOUT;
use super::fleet::AgainFleet;

impl AgainFleet {
    /// When the daemon of a node accepted the cancellation, by the node's audit log.
    async fn cancelled_at(&self, node: usize) -> u64 {
        let path = self.nodes[node].daemon.home().path("audit.log");
        poll_until_ok("the audit log has the cancellation", TIMEOUT, async || {
            let log = std::fs::read_to_string(&path).unwrap_or_default();
            let records = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let mut records = records.filter(|record| record["action"] == "cancel");
            let time = records.find_map(|record| parse_date_millis(record["time"].as_str()?));
            time.and_then(|time| u64::try_from(time).ok()).ok_or(log)
        })
        .await
    }
}

/// No run begins later than a second after the request has reached the node, although the runs are due before, while and after the command works.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancel_on_all_nodes_is_effective_within_a_second() {
    let fleet = AgainFleet::start(0).await;
    // Whole seconds: one that passes before the command, one while it works, and one after it.
    let base = now() / 1000 + 3;
    for (node, due) in [(0, base), (1, base + 1), (2, base + 5)] {
        fleet.call(node, &["request", "reason=test", &format!("not_before={due}")]).await;
    }
    fleet.await_runs(0, 1).await;
    let output = fleet.rpc.run(&["again", "cancel", "--all"]).await;
    let replied = now();
    assert!(output.status.success(), "{}", describe_output(&output));
    // Until a second after the last run was due.
    let left = ((base + 6) * 1000).saturating_sub(now());
    simulate_delay(Duration::from_millis(left)).await;
    for node in 0..3 {
        let received = fleet.cancelled_at(node).await;
        assert!(received <= replied, "{received} {replied}");
        let late: Vec<u64> = fleet.times(node, "begin");
        let late: Vec<&u64> = late.iter().filter(|began| **began > received + 1000).collect();
        assert!(late.is_empty(), "node {node}: cancelled at {received}, began at {late:?}");
        let list = fleet.await_list(node, |list| list["state"] == "none").await;
        assert_eq!(list["requests"], 0);
    }
    let history = fleet.call(2, &["history"]).await;
    let entry = &history["entries"][0];
    assert_eq!((&entry["detail"], &entry["by"]), (&json!("cancelled"), &json!("rip")));
    assert_eq!(fleet.times(2, "begin"), [0_u64; 0], "the run of the last node was cancelled");
}
