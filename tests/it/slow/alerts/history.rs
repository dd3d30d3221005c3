//! Alerts about runs: that failed, that were cut off, that are missing, and what differs; and about the history itself.

use std::time::Duration;

use muster_tests::organisation::connect;
use muster_wire::stores::HISTORY_BUCKET;
use rusqlite::Connection;

use super::AlertWatch;
use crate::history::HistoryFleet;
use crate::history::past_runs::PastEnd;
use crate::monitoring::await_metrics_address;

/// Keys and values of each: more messages than the alert needs.
const KEYS: usize = 20;
const VALUES: usize = 100;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_that_failed_were_cut_off_or_are_missing_and_differences_fire() {
    let Some(mut watch) = AlertWatch::start().await else { return };
    let (mut fleet, _home) = HistoryFleet::start().await;
    let address = await_metrics_address(&mut fleet.history).await;
    watch.watch_node("hist1", &address);
    watch.assert_silent("MusterRunsFailed", "hist1").await;
    let (hour, days) = (Duration::from_hours(1), Duration::from_hours(8 * 24));
    fleet.report_past_run("web1.acme.net", PastEnd::Failed, hour).await;
    watch.await_firing("MusterRunsFailed", "hist1").await;
    watch.assert_silent("MusterRunsAborted", "hist1").await;
    watch.assert_silent("MusterRunsMissing", "hist1").await;
    fleet.report_past_run("web2.acme.net", PastEnd::Aborted, hour).await;
    watch.await_firing("MusterRunsAborted", "hist1").await;
    watch.assert_silent("MusterDriftOld", "hist1").await;
    fleet.report_past_run("web3.acme.net", PastEnd::Differing, days).await;
    watch.await_firing("MusterRunsMissing", "hist1").await;
    watch.await_firing("MusterDriftOld", "hist1").await;

    // While the index cannot be written, messages wait.
    let index = Connection::open(fleet.history.home().path("index/history.db")).unwrap();
    index.execute_batch("BEGIN IMMEDIATE").unwrap();
    watch.assert_silent("MusterHistoryRefuses", "hist1").await;
    watch.assert_silent("MusterHistoryBehind", "hist1").await;
    let administrator = connect(&fleet.server, &fleet.organisation.administrator()).await;
    let bucket = administrator.bucket(HISTORY_BUCKET.name);
    for key in 0..KEYS {
        for _ in 0..VALUES {
            bucket.put(&format!("node{key}.acme.net"), "{}".into()).await.unwrap();
        }
    }
    watch.await_firing("MusterHistoryBehind", "hist1").await;
    watch.await_firing("MusterHistoryRefuses", "hist1").await;
}
