//! Alerts about an instance of the directory: nodes that are missing, and an instance that is not connected or has ended.

use muster_tests::rpcd::Rpcd;

use super::AlertWatch;
use crate::directory::fixture::{DirectoryFixture, GRACE_SECONDS};
use crate::monitoring::{METRICS_CONFIG, await_metrics_address, await_sample};

/// Starts an instance of the directory, and waits until it knows all records.
async fn start_directory(
    watch: &mut AlertWatch,
    fleet: &DirectoryFixture,
    (name, service): (&str, &str),
) -> Rpcd {
    let grace = format!("grace_seconds = {GRACE_SECONDS}\n");
    let (_, home) = fleet.directory_home(name, service, &grace);
    home.write("conf.d/metrics.toml", METRICS_CONFIG, 0o644);
    let mut daemon = home.start();
    let address = await_metrics_address(&mut daemon).await;
    await_sample(&address, "muster_directory_current", "1").await;
    watch.watch_node(name, &address);
    daemon
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_nodes_and_a_directory_without_records_fire() {
    let Some(mut watch) = AlertWatch::start().await else { return };
    let fleet = DirectoryFixture::start().await;
    let mut ended = start_directory(&mut watch, &fleet, ("dir1", "directory1")).await;
    let _connected = start_directory(&mut watch, &fleet, ("dir2", "directory2")).await;
    let mut lost = fleet.start_node("web1", "{}", "");
    fleet.await_present(&["dir1", "dir2", "web1"]).await;
    watch.assert_silent("MusterNodesMissing", "dir2").await;
    watch.assert_silent("MusterDirectoryNotCurrent", "dir1").await;
    watch.assert_silent("MusterDirectoryNotCurrent", "dir2").await;

    lost.daemon.kill_and_wait();
    watch.await_firing("MusterNodesMissing", "dir2").await;
    ended.kill_and_wait();
    watch.await_firing("MusterDirectoryNotCurrent", "dir1").await;
    drop(fleet.server);
    watch.await_firing("MusterDirectoryNotCurrent", "dir2").await;
}
