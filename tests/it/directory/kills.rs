//! A directory that is killed again and again while callers use it: no answer is wrong, and a caller says when it asked all nodes instead.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use muster_tests::command::{RpcCommand, describe_output};
use muster_tests::tier::repetitions;
use muster_tests::{await_state, poll_until_ok, simulate_delay};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::fixture::{DirectoryFixture, lines};

/// The longest life of an instance that may be killed before it has read the records. Every other one is killed this long after it has answered.
const MAX_LIFE_MS: u64 = 600;
/// The nodes that customer acme has. The nodes of the directory itself are not among them, since they are down half of the time.
const EXPECTED: [&str; 3] = ["db1.acme.net", "db2.acme.net", "db3.acme.net"];

/// How a caller got its answers.
#[derive(Debug, Default)]
struct AnswerCounts {
    by_broadcast: usize,
    /// Broadcasts because the directory did not answer in time, or had not read the records.
    with_warning: usize,
}

/// Finds nodes until it is stopped. Each answer must be right, and say how it was found.
async fn find_until_stopped(
    rpc: &RpcCommand,
    by_directory: &AtomicUsize,
    stop: &CancellationToken,
) -> AnswerCounts {
    let mut counts = AnswerCounts::default();
    while !stop.is_cancelled() {
        let output = rpc.run(&["find", "-F", "customer=acme", "-j"]).await;
        let found: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        assert_eq!(found["nodes"], json!(EXPECTED), "{}", describe_output(&output));
        match found["method"].as_str() {
            Some("directory") => drop(by_directory.fetch_add(1, Ordering::Relaxed)),
            Some("broadcast") => counts.by_broadcast += 1,
            _ => panic!("{}", describe_output(&output)),
        }
        let errors = String::from_utf8_lossy(&output.stderr);
        counts.with_warning += usize::from(errors.contains("asking all nodes"));
    }
    counts
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn directory_that_is_killed_again_and_again_gives_no_wrong_answer() {
    let fleet = DirectoryFixture::start().await;
    let nodes = EXPECTED.map(|name| fleet.start_node(name, "{\"customer\":\"acme\"}", ""));
    let mut directory = fleet.start_directory("dir1.acme.net", "directory1");
    let all: Vec<&str> = EXPECTED.into_iter().chain(["dir1.acme.net"]).collect();
    fleet.await_present(&all).await;
    // From now on this user expects a directory.
    assert_eq!(lines(&fleet.rpc.run(&["find", "--dm", "directory"]).await.stdout), all);

    let by_directory = AtomicUsize::new(0);
    let stop = CancellationToken::new();
    let kills = async {
        for number in 0..repetitions(100) {
            if number % 2 == 1 {
                let before = by_directory.load(Ordering::Relaxed);
                await_state("the instance answers", || {
                    by_directory.load(Ordering::Relaxed) > before
                })
                .await;
            }
            // The moment of the kill is the test: no state precedes it.
            simulate_delay(Duration::from_millis(rand::random_range(0..MAX_LIFE_MS))).await;
            directory.daemon.kill_and_wait();
            directory.daemon = directory.daemon.home().clone().start();
        }
        stop.cancel();
    };
    let (first, second, ()) = tokio::join!(
        find_until_stopped(&fleet.rpc, &by_directory, &stop),
        find_until_stopped(&fleet.rpc, &by_directory, &stop),
        kills
    );
    assert!(first.by_broadcast + second.by_broadcast > 0, "no find saw the directory down");
    for counts in [first, second] {
        assert_eq!(
            counts.with_warning, counts.by_broadcast,
            "each broadcast is reported: {counts:?}"
        );
    }
    poll_until_ok("the directory answers again", Duration::from_mins(1), async || {
        let output = fleet.rpc.run(&["find", "--dm", "directory"]).await;
        if lines(&output.stdout) == all { Ok(()) } else { Err(describe_output(&output)) }
    })
    .await;
    drop(nodes);
}
