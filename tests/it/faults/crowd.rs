//! Five hundred callers at once, each with a connection and questions of its own.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use muster_tests::organisation::Organisation;
use muster_wire::identity::Identity;
use tokio::sync::Barrier;

use super::books::{Effects, ask, compare};
use super::{Nodes, assert_memory_is_back, note, our_memory, strike};
use crate::ask::TestCaller;

const CALLERS: usize = 500;
const NODES: usize = 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_callers_at_once_are_all_answered_or_told() {
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker().await;
    let effects = Arc::<Effects>::default();
    let nodes = Nodes::start(&organisation, &server, 0..NODES, &effects).await;
    let names: Vec<Identity> = nodes.names().into_iter().collect();
    let callers: Vec<TestCaller> = stream::iter(0..CALLERS)
        .map(async |number| {
            let signer = organisation.caller(&format!("caller{number}"));
            TestCaller::connect(&organisation, &server, signer).await
        })
        .buffer_unordered(32)
        .collect()
        .await;
    let before = our_memory();
    let together = Barrier::new(CALLERS);
    let (together, names) = (&together, &names);
    let asking = callers.iter().enumerate().map(async |(number, caller)| {
        together.wait().await;
        let mut entries = Vec::new();
        for round in 0..3 {
            // Four nodes each, others every time.
            let some = (0..4).map(|n| names.get((number + round * 7 + n * 5) % NODES).unwrap());
            let some: BTreeSet<Identity> = some.cloned().collect();
            entries.push(ask(&caller.client, strike(&some, Duration::from_mins(1))).await);
        }
        entries
    });
    let told = futures_util::future::join_all(asking).await;
    let entries: Vec<_> = told.into_iter().flatten().collect();
    let balance = compare(&entries, &effects);
    note(&format!("{} calls: {balance:?}", entries.len()));
    assert_eq!((entries.len(), balance.failed), (CALLERS * 3, 0));
    // Nobody's line was cut: whoever was not served was told so by the node.
    assert_eq!(balance.answered, CALLERS * 3 * 4);
    assert_memory_is_back(before);
}
