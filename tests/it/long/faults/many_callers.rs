//! 500 callers at once, each with its own connection and requests.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use muster_tests::organisation::Organisation;
use muster_wire::identity::Identity;
use tokio::sync::Barrier;

use super::call_records::{EffectLog, record_call, verify_records};
use super::{LedgerNodes, assert_memory_released, own_memory_kib, print_figures, strike_call};
use crate::node_fixture::TestCaller;

const CALLERS: usize = 500;
const NODES: usize = 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_concurrent_callers_all_get_replies() {
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker().await;
    let effects = Arc::<EffectLog>::default();
    let nodes = LedgerNodes::start(&organisation, &server, 0..NODES, &effects).await;
    let names: Vec<Identity> = nodes.names().into_iter().collect();
    let callers: Vec<TestCaller> = stream::iter(0..CALLERS)
        .map(async |number| {
            let signer = organisation.caller(&format!("caller{number}"));
            TestCaller::connect(&organisation, &server, signer).await
        })
        .buffer_unordered(32)
        .collect()
        .await;
    let before = own_memory_kib();
    let barrier = Barrier::new(CALLERS);
    let (barrier, names) = (&barrier, &names);
    let calls = callers.iter().enumerate().map(async |(number, caller)| {
        barrier.wait().await;
        let mut entries = Vec::new();
        for round in 0..3 {
            // Four nodes each, different ones in each round.
            let targets = (0..4).map(|n| names.get((number + round * 7 + n * 5) % NODES).unwrap());
            let targets: BTreeSet<Identity> = targets.cloned().collect();
            entries.push(
                record_call(&caller.client, strike_call(&targets, Duration::from_mins(1))).await,
            );
        }
        entries
    });
    let results = futures_util::future::join_all(calls).await;
    let entries: Vec<_> = results.into_iter().flatten().collect();
    let totals = verify_records(&entries, &effects);
    print_figures(&format!("{} calls: {totals:?}", entries.len()));
    assert_eq!((entries.len(), totals.failed), (CALLERS * 3, 0));
    // No connection was closed: a node that could not serve a request replied so.
    assert_eq!(totals.answered, CALLERS * 3 * 4);
    assert_memory_released(before);
}
