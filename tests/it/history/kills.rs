//! A12.10: daemons and Puppets that are killed at random moments of a run.

use muster_tests::poll_until_ok;
use muster_tests::tier::repetitions;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};

use super::puppet_runs::kill_puppet;
use super::{HistoryFleet, NODE, TIMEOUT, write_catalog};
use crate::puppet::puppet_node::{PuppetNode, has_puppet};

/// Resources of each run. Each takes some hundredths of a second.
const RESOURCES: usize = 20;

/// Commands that run one after the other.
fn slow_resources() -> Vec<Value> {
    let resource = |number: usize| {
        let before = (number > 0).then(|| format!("Exec[step {}]", number - 1));
        let parameters = json!({
            "command": "sleep 0.03", "provider": "shell", "path": "/usr/bin:/bin", "require": before,
        });
        json!({
            "type": "Exec", "title": format!("step {number}"), "tags": [], "exported": false, "parameters": parameters,
        })
    };
    (0..RESOURCES).map(resource).collect()
}

impl HistoryFleet {
    /// The last run, once at least this many of its resources were evaluated, or it has ended.
    pub(super) async fn await_progress(&self, runs: usize, resources: usize) {
        poll_until_ok("the run goes on", TIMEOUT, async || {
            let (list, _) = self.rpc.run_json(&["report", "list"]).await;
            if list["runs"].as_array().map_or(0, Vec::len) < runs {
                return Err(list.to_string());
            }
            let (shown, _) = self.rpc.run_json(&["report", "show", NODE]).await;
            let statuses = shown["report"]["resource_statuses"].as_object().unwrap().len();
            let has_ended = shown["run"]["status"] != "running";
            if statuses >= resources || has_ended { Ok(()) } else { Err(shown["run"].to_string()) }
        })
        .await;
    }

    /// The last run, once it has ended.
    async fn await_end(&self) -> Value {
        poll_until_ok("the run has ended", TIMEOUT, async || {
            let (shown, _) = self.rpc.run_json(&["report", "show", NODE]).await;
            if shown["run"]["status"] == "running" {
                Err(shown["run"].to_string())
            } else {
                Ok(shown)
            }
        })
        .await
    }
}

/// What a run reports: its first resources, without a hole.
fn check_prefix(shown: &Value) {
    let statuses = shown["report"]["resource_statuses"].as_object().unwrap();
    let is_complete = shown["run"]["status"] != "aborted";
    let steps = (0..RESOURCES).map(|number| format!("Exec[step {number}]"));
    let there: Vec<bool> = steps.map(|name| statuses.contains_key(&name)).collect();
    let count = there.iter().filter(|is_there| **is_there).count();
    assert!(there.iter().take(count).all(|is_there| *is_there), "{shown}");
    assert!(!is_complete || count == RESOURCES, "{shown}");
    if !is_complete {
        assert_eq!(shown["report"]["status"], "failed", "{shown}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a12_10_runs_of_killed_daemons_are_aborted_with_their_events() {
    let kills = repetitions(50);
    let (fleet, home) = HistoryFleet::start().await;
    let file = write_catalog(&home, &slow_resources());
    let mut rng = StdRng::seed_from_u64(12);
    let (mut node, mut aborted) = (home.clone().start(), 0);
    for number in 1..=kills {
        fleet.await_node().await;
        let request = fleet.begin_apply(&file);
        fleet.await_progress(number, rng.random_range(0..RESOURCES)).await;
        node.kill_and_wait();
        request.abort();
        node = home.clone().start();
        let shown = fleet.await_end().await;
        check_prefix(&shown);
        aborted += usize::from(shown["run"]["status"] == "aborted");
    }
    fleet.await_rows(&["--kind", "gap"], 0).await;
    fleet.await_rows(&["--kind", "run"], kills).await;
    assert!(aborted > kills / 2, "{aborted} of {kills}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a12_10_runs_of_killed_puppets_are_aborted_with_their_events() {
    if !has_puppet() {
        return;
    }
    let kills = repetitions(50);
    let (fleet, _home) = HistoryFleet::start().await;
    let node = PuppetNode::new(NODE);
    node.write_catalog(&json!({
        "name": NODE, "version": 1, "environment": "production", "catalog_format": 1,
        "resources": slow_resources(), "edges": [], "classes": [],
    }));
    let _daemon = node.create_daemon_home((&fleet.organisation, &fleet.server)).start();
    fleet.await_node().await;
    let mut rng = StdRng::seed_from_u64(12);
    let mut aborted = 0;
    for number in 1..=kills {
        let request = fleet.begin_puppet_run();
        fleet.await_progress(number, rng.random_range(0..RESOURCES)).await;
        kill_puppet(&node);
        let shown = fleet.await_end().await;
        request.await.unwrap();
        check_prefix(&shown);
        aborted += usize::from(shown["run"]["status"] == "aborted");
    }
    fleet.await_rows(&["--kind", "gap"], 0).await;
    fleet.await_rows(&["--kind", "run"], kills).await;
    assert!(aborted > kills / 2, "{aborted} of {kills}");
}
