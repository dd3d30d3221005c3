//! A network that delivers every message twice, on both sides of the broker and both ways.

use std::sync::Arc;
use std::time::Duration;

use muster_tests::await_state;
use muster_tests::fault_proxy::{FaultProxy, NetworkFault};
use muster_tests::organisation::Organisation;

use super::books::{Effects, ask, compare};
use super::{Nodes, note, strike};
use crate::ask::TestCaller;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_delivered_four_times_is_done_once_and_counted_once() {
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker().await;
    let proxy = FaultProxy::start(&server).await;
    proxy.inject(NetworkFault::Duplicate);
    let effects = Arc::<Effects>::default();
    let nodes = Nodes::start(&organisation, &proxy, 0..8, &effects).await;
    let caller = TestCaller::connect(&organisation, &proxy, organisation.caller("rip")).await;
    let mut entries = Vec::new();
    for _ in 0..40 {
        let entry = ask(&caller.client, strike(&nodes.names(), Duration::from_secs(20))).await;
        let (stats, answers) = entry.told();
        assert_eq!((stats.ok, answers.len()), (8, 8), "{stats:?}");
        assert!(stats.missing.is_empty() && stats.rejected == 0, "{stats:?}");
        entries.push(entry);
    }
    // The caller's publication twice, and each of those delivered twice.
    let replayed = || -> u64 { nodes.cores().map(|core| core.snapshot_counters().replayed).sum() };
    await_state("every repetition was recognised", || replayed() == 40 * 8 * 3).await;
    let balance = compare(&entries, &effects);
    note(&format!("{balance:?}, {} repetitions", replayed()));
    assert_eq!(effects.total(), 40 * 8);
}
