//! A network that delivers every message twice, on both sides of the broker and in both directions.

use std::sync::Arc;
use std::time::Duration;

use muster_tests::await_state;
use muster_tests::fault_proxy::{FaultProxy, NetworkFault};
use muster_tests::organisation::Organisation;

use super::call_records::{EffectLog, record_call, verify_records};
use super::{LedgerNodes, print_figures, strike_call};
use crate::node_fixture::TestCaller;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn request_delivered_four_times_is_executed_once() {
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker().await;
    let proxy = FaultProxy::start(&server).await;
    proxy.inject(NetworkFault::Duplicate);
    let effects = Arc::<EffectLog>::default();
    let nodes = LedgerNodes::start(&organisation, &proxy, 0..8, &effects).await;
    let caller = TestCaller::connect(&organisation, &proxy, organisation.caller("rip")).await;
    let mut entries = Vec::new();
    for _ in 0..40 {
        let entry =
            record_call(&caller.client, strike_call(&nodes.names(), Duration::from_secs(20))).await;
        let (stats, answers) = entry.finished();
        assert_eq!((stats.ok, answers.len()), (8, 8), "{stats:?}");
        assert!(stats.missing.is_empty() && stats.rejected == 0, "{stats:?}");
        entries.push(entry);
    }
    // The caller's publication arrives twice at the broker, and each copy is delivered twice.
    let replayed = || -> u64 { nodes.cores().map(|core| core.snapshot_counters().replayed).sum() };
    await_state("every repetition was detected", || replayed() == 40 * 8 * 3).await;
    let totals = verify_records(&entries, &effects);
    print_figures(&format!("{totals:?}, {} repetitions", replayed()));
    assert_eq!(effects.total(), 40 * 8);
}
