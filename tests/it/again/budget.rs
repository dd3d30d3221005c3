//! The fleet's budget in a real bucket: many nodes ask at once. The crate has a test with 500 nodes and a simulated clock.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use muster_again::budget::FleetBudget;
use muster_permits::PermitClient;
use muster_tests::organisation::{Organisation, connect};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// A minute takes this long in the tests.
const PERIOD: Duration = Duration::from_secs(2);

/// Weaker than the point: 100 nodes, and the period of the budget is two seconds, not a minute, so that the test takes seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a1_5_a_hundred_nodes_at_once_keep_the_budget_of_a_shortened_minute() {
    ask_at_once(100, 25).await;
}

/// Only the minute is shortened. The default budget of a minute, so eight further periods.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a1_5_five_hundred_nodes_at_once_keep_the_budget_of_a_shortened_minute() {
    ask_at_once(500, 60).await;
}

/// All nodes ask at once, each through its own connection with the rights of a node. At most `budget` of them begin in a period; all begin.
async fn ask_at_once(nodes: usize, budget: usize) {
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker_with_stores().await;
    let mut budgets = Vec::new();
    for number in 0..nodes {
        let signer = organisation.node(&format!("n{number}.example.net"));
        let client = PermitClient::new(signer.identity().clone());
        client.connect(connect(&server, &signer).await);
        let per_minute = u32::try_from(budget).unwrap();
        budgets.push(FleetBudget::new(client, per_minute).unwrap().with_period(PERIOD));
    }
    let starts = Arc::new(Mutex::new(Vec::new()));
    let mut runs = JoinSet::new();
    for budget in budgets {
        let starts = Arc::clone(&starts);
        runs.spawn(async move {
            let permit = budget.acquire(Uuid::now_v7(), &CancellationToken::new()).await.unwrap();
            starts.lock().unwrap().push(Instant::now());
            permit.release_later();
            budget
        });
    }
    // The connections stay open until all permits are released.
    let budgets = runs.join_all().await;
    assert_eq!(budgets.len(), nodes);
    let mut starts = starts.lock().unwrap().clone();
    assert_eq!(starts.len(), nodes, "delayed, not dropped");
    starts.sort_unstable();
    for window in starts.windows(budget + 1) {
        let [first, .., last] = window else { continue };
        assert!(*last - *first >= PERIOD, "{} runs within {:?}", budget + 1, *last - *first);
    }
}
