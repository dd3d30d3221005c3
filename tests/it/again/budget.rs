//! The fleet's budget in a real bucket: many nodes ask at once. The crate has a test with a simulated clock.

use std::sync::{Arc, Mutex};

use muster_puppet::again::budget::{BUDGET_PERIOD, FleetBudget};
use muster_puppet::permits::PermitClient;
use muster_tests::organisation::{Organisation, connect};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

const NODES: usize = 500;
const BUDGET: usize = 250;

/// Run by `make slow`: each node receives the heartbeats of all others, which takes more than ten minutes without optimisation.
mod slow {
    use super::{
        Arc, BUDGET, BUDGET_PERIOD, CancellationToken, FleetBudget, Instant, JoinSet, Mutex, NODES,
        Organisation, PermitClient, Uuid, connect,
    };

    /// Each node has its own connection with the rights of a node.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a1_5_five_hundred_nodes_at_once_keep_the_budget_of_a_minute() {
        let organisation = Organisation::new(&["muster"]);
        let server = organisation.start_broker_with_stores().await;
        let mut budgets = Vec::new();
        for number in 0..NODES {
            let signer = organisation.node(&format!("n{number}.example.net"));
            let client = PermitClient::new(signer.identity().clone());
            client.connect(connect(&server, &signer).await);
            let per_minute = u32::try_from(BUDGET).unwrap();
            budgets.push(FleetBudget::new(client, per_minute).unwrap());
        }
        let starts = Arc::new(Mutex::new(Vec::new()));
        let mut runs = JoinSet::new();
        for budget in budgets {
            let starts = Arc::clone(&starts);
            runs.spawn(async move {
                let permit =
                    budget.acquire(Uuid::now_v7(), &CancellationToken::new()).await.unwrap();
                starts.lock().unwrap().push(Instant::now());
                permit.release_later();
                budget
            });
        }
        // The connections stay open until all permits are released.
        let budgets = runs.join_all().await;
        assert_eq!(budgets.len(), NODES);
        let mut starts = starts.lock().unwrap().clone();
        assert_eq!(starts.len(), NODES, "delayed, not dropped");
        starts.sort_unstable();
        for window in starts.windows(BUDGET + 1) {
            let [first, .., last] = window else { continue };
            assert!(
                *last - *first >= BUDGET_PERIOD,
                "{} runs within {:?}",
                BUDGET + 1,
                *last - *first
            );
        }
    }
}
