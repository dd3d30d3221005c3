//! A real daemon that is killed at random moments, with a real broker and a script in place of Puppet.

use std::time::Duration;

use muster_tests::tier::repetitions;
use muster_tests::{poll_until_ok, simulate_delay};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::fixture::{AgainFixture, SCRIPT, TIMEOUT, UNLIMITED};
use crate::puppet::puppet_node::PuppetNode;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a1_7_kills_at_any_moment_lose_no_run_and_repeat_none() {
    let kills = repetitions(100);
    let node = PuppetNode::scripted("n1.example.net", SCRIPT);
    let mut fixture = AgainFixture::prepare(node, UNLIMITED).await;
    let mut rng = StdRng::seed_from_u64(63);
    let mut daemon = fixture.home.clone().start();
    for number in 1..=kills {
        fixture.ask(&["--reason", &format!("request {number}")]);
        // A turn, the run and its end take about as long.
        simulate_delay(Duration::from_millis(rng.random_range(0..400))).await;
        daemon.kill_and_wait();
        daemon = fixture.home.clone().start();
        await_runs(&fixture, number).await;
    }
    fixture.daemon = Some(daemon);
    fixture.node.await_daemon(&fixture.rpc).await;
    fixture.await_listed("none").await;
    assert_eq!(fixture.node.log().len(), kills);
}

/// Waits until there were `count` runs. More runs fail at the next call, or at the end.
async fn await_runs(fixture: &AgainFixture, count: usize) {
    poll_until_ok(&format!("run {count} has taken place"), TIMEOUT, async || {
        let runs = fixture.node.log().len();
        assert!(runs <= count, "{runs} runs for {count} requests");
        let journal = fixture.home.path("state/again/again.journal");
        let journal = std::fs::read_to_string(journal).unwrap_or_default();
        let tail = journal.len().saturating_sub(4000);
        let tail = journal.get(tail..).unwrap_or_default();
        if runs == count { Ok(()) } else { Err(format!("{runs} runs, journal: {tail}")) }
    })
    .await;
}

/// The daemon does not run while the time passes after which the run is due.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a1_7_a_run_that_became_due_while_the_daemon_was_down_takes_place_once() {
    let node = PuppetNode::scripted("n1.example.net", SCRIPT);
    let mut fixture = AgainFixture::start(node, UNLIMITED).await;
    let due = muster_tests::now() / 1000 + 3;
    fixture.call(&["request", "reason=test", &format!("not_before={due}")]).await;
    fixture.daemon = None;
    // Asked for while no daemon runs: the same run.
    fixture.ask(&["--start-timer-now", "--delta", "1"]);
    simulate_delay(Duration::from_secs(4)).await;
    assert_eq!(fixture.node.log().len(), 0);
    fixture.start_daemon().await;
    await_runs(&fixture, 1).await;
    let entries = fixture.await_history(1).await;
    assert_eq!(entries[0].get("requests").unwrap(), 2);
    fixture.await_listed("none").await;
    assert_eq!(fixture.node.log().len(), 1);
}
