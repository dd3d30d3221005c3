//! A rolling restart of a cluster under load: each server in turn is put into lame duck mode and started again.
//! Every request is answered or its node is named, and few replies are late.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use muster_tests::cluster::Cluster;
use muster_tests::organisation::Organisation;
use muster_wire::identity::Identity;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval};

use super::call_records::{CallRecord, EffectLog, record_call, verify_records};
use super::{LedgerNodes, print_figures, strike_call};
use crate::node_fixture::TestCaller;

const CALLERS: usize = 20;
/// Time between two requests of one caller: all together send 50 a second.
const REQUEST_INTERVAL: Duration = Duration::from_millis(400);
/// A reply is late after this time.
const LATE_AFTER: Duration = Duration::from_secs(2);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rolling_restart_loses_no_request() {
    Box::pin(restart_all_servers(300)).await;
}

async fn restart_all_servers(node_count: usize) {
    let organisation = Organisation::new(&["muster"]);
    let mut cluster = Cluster::start(&organisation).await;
    let effects = Arc::<EffectLog>::default();
    let nodes = LedgerNodes::start(&organisation, &cluster, 0..node_count, &effects).await;
    let names: Arc<[Identity]> = nodes.names().into_iter().collect();
    let is_done = Arc::new(AtomicBool::new(false));
    let mut calling = JoinSet::new();
    for number in 0..CALLERS {
        let signer = organisation.caller(&format!("caller{number}"));
        let caller = TestCaller::connect(&organisation, &cluster, signer).await;
        calling.spawn(call_until_done(caller, number, Arc::clone(&names), Arc::clone(&is_done)));
    }
    for number in 0..cluster.size() {
        cluster.restart_gracefully(number).await;
    }
    is_done.store(true, Ordering::Release);
    let timed: Vec<(CallRecord, Duration)> =
        calling.join_all().await.into_iter().flatten().collect();

    let late = timed.iter().filter(|(_, elapsed)| *elapsed > LATE_AFTER).count();
    let slowest = timed.iter().map(|(_, elapsed)| *elapsed).max().unwrap_or_default();
    let records: Vec<CallRecord> = timed.into_iter().map(|(record, _)| record).collect();
    let totals = verify_records(&records, &effects);
    print_figures(&format!(
        "{node_count} nodes, {} requests: {totals:?}, {late} later than 2 s, the slowest after {slowest:?}",
        records.len()
    ));
    assert_eq!(totals.failed, 0);
    assert_eq!(totals.answered + totals.missing, records.len());
    assert!(records.len() >= 500, "{} requests", records.len());
    // Other tests may load the machine.
    assert!(late * 20 <= records.len(), "{late} of {} are late", records.len());
}

/// Calls one node after the other.
async fn call_until_done(
    caller: TestCaller,
    number: usize,
    names: Arc<[Identity]>,
    is_done: Arc<AtomicBool>,
) -> Vec<(CallRecord, Duration)> {
    let client = Arc::new(caller.client);
    let mut pause = interval(REQUEST_INTERVAL);
    let mut calls = JoinSet::new();
    // A step that has no factor in common with the number of nodes, so that all are called.
    for target in (number * 17..).step_by(7) {
        pause.tick().await;
        if is_done.load(Ordering::Acquire) {
            break;
        }
        let name = names.get(target % names.len()).unwrap().clone();
        let client = Arc::clone(&client);
        calls.spawn(async move {
            let started = Instant::now();
            let call = strike_call(&BTreeSet::from([name]), REQUEST_TIMEOUT);
            let record = record_call(&client, call).await;
            (record, started.elapsed())
        });
    }
    calls.join_all().await
}

/// Run by `make slow`.
mod slow {
    use super::restart_all_servers;

    /// Connecting 3,000 nodes takes about a minute.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn rolling_restart_with_3000_nodes_loses_no_request() {
        Box::pin(restart_all_servers(3000)).await;
    }
}
