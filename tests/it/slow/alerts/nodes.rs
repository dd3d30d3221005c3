//! Alerts about the state of a node: its process, files, credentials, audit log and connection.

use std::fs::File;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, SystemTime};

use muster_tests::command::find_program;
use muster_tests::fault_proxy::{Disconnect, FaultProxy};
use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::{Broker as _, Organisation};
use muster_tests::rpcd::{DaemonHome, Rpcd};
use muster_tests::small_disk::SmallDisk;
use muster_tests::{await_state, now};
use muster_wire::sign::Signer;
use muster_wire::token::UserRole;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use super::AlertWatch;
use crate::monitoring::{METRICS_CONFIG, await_metrics_address, await_sample, await_status};
use crate::node_fixture::TestCaller;

/// Two daemons with one key notice each other by their heartbeats.
const HEARTBEAT: &str = "[registration]\nheartbeat_seconds = 1\n";
/// A token that expires sooner than this fires an alert, in seconds.
const EXPIRY_WARNING: u64 = 7 * 86_400;
/// Time until the token of the test is that close to its end, in seconds.
const SECONDS_TO_WARNING: u64 = 60;
/// Age at which an account token counts as unconfirmed: more than the two hours of the rule.
const STALE_AGE: Duration = Duration::from_hours(3);
/// Size of the disk of the test, in KiB. With less than 16 MiB free, a node is not ready.
const DISK_KIB: u32 = 64 * 1024;
/// Requests whose records need more space than the last page of the audit log has.
const AUDITED_REQUESTS: usize = 30;

/// An organisation, a broker with stores, and a Prometheus.
pub(super) struct AlertFleet {
    pub(super) watch: AlertWatch,
    pub(super) organisation: Organisation,
    pub(super) server: NatsServer,
}

impl AlertFleet {
    pub(super) async fn start() -> Option<Self> {
        let watch = AlertWatch::start().await?;
        let organisation = Organisation::new(&["muster"]);
        let server = organisation.start_broker_with_stores().await;
        Some(Self { watch, organisation, server })
    }

    /// The files of a node.
    pub(super) fn home(&self, name: &str, more: &str) -> DaemonHome {
        self.home_at(&self.organisation.node(name), &self.server.url(), more)
    }

    fn home_at(&self, node: &Signer, url: &str, more: &str) -> DaemonHome {
        let more = format!("{METRICS_CONFIG}{HEARTBEAT}{more}");
        DaemonHome::new(&self.organisation, node, url, &more)
    }

    /// Starts a node, waits until it is ready, and scrapes it under this name.
    pub(super) async fn start_node(&mut self, name: &str, home: DaemonHome) -> Rpcd {
        self.watch_ready(name, home.start()).await
    }

    async fn watch_ready(&mut self, name: &str, mut node: Rpcd) -> Rpcd {
        let address = await_metrics_address(&mut node).await;
        await_status(&address, "/readyz", 200).await;
        self.watch.watch_node(name, &address);
        node
    }

    pub(super) async fn connect_caller(&self) -> TestCaller {
        let caller = self.organisation.caller("rip");
        TestCaller::connect(&self.organisation, &self.server, caller).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_that_stops_or_is_not_ready_fires() {
    let Some(mut fleet) = AlertFleet::start().await else { return };
    let mut stopped = fleet.start_node("web1", fleet.home("web1", "")).await;
    let unready = fleet.start_node("web2", fleet.home("web2", "")).await;
    fleet.watch.assert_silent("MusterNodeDown", "web1").await;
    fleet.watch.assert_silent("MusterNodeNotReady", "web2").await;
    stopped.kill_and_wait();
    let credentials = unready.home().path("node.creds");
    std::fs::set_permissions(credentials, std::fs::Permissions::from_mode(0o644)).unwrap();
    fleet.watch.await_firing("MusterNodeDown", "web1").await;
    fleet.watch.await_firing("MusterNodeNotReady", "web2").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broken_or_changed_files_of_a_node_fire() {
    let Some(mut fleet) = AlertFleet::start().await else { return };
    let broken = fleet.start_node("web1", fleet.home("web1", "")).await;
    let changed = fleet.start_node("web2", fleet.home("web2", "")).await;
    let mut damaged = fleet.start_node("web3", fleet.home("web3", "")).await;
    fleet.watch.assert_silent("MusterFindings", "web1").await;
    fleet.watch.assert_silent("MusterConfigurationPending", "web2").await;
    fleet.watch.assert_silent("MusterJournalLost", "web3").await;
    broken.home().write("policies/default.policy", "no policy\n", 0o644);
    kill(Pid::from_raw(broken.pid()), Signal::SIGHUP).unwrap();
    changed.home().write("conf.d/limits.toml", "[limits]\nqueue = 7\n", 0o644);
    // A regular stop writes the head record of the audit log, which proves that a daemon has run here.
    kill(Pid::from_raw(damaged.pid()), Signal::SIGTERM).unwrap();
    await_state("the daemon has ended", || !damaged.is_running()).await;
    let home = damaged.home().clone();
    std::fs::remove_file(home.path("state/seen")).unwrap();
    let _damaged = fleet.start_node("web3", home).await;
    fleet.watch.await_firing("MusterFindings", "web1").await;
    fleet.watch.await_firing("MusterConfigurationPending", "web2").await;
    fleet.watch.await_firing("MusterJournalLost", "web3").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn token_that_expires_soon_fires() {
    let Some(mut fleet) = AlertFleet::start().await else { return };
    let expires = now() / 1000 + EXPIRY_WARNING + SECONDS_TO_WARNING;
    let node = fleet.organisation.user_until(UserRole::Node, "web1", &[], Some(expires));
    let _node = fleet.start_node("web1", fleet.home_at(&node, &fleet.server.url(), "")).await;
    fleet.watch.assert_silent("MusterCredentialsExpire", "web1").await;
    fleet.watch.await_firing("MusterCredentialsExpire", "web1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn audit_log_on_a_full_disk_fires() {
    let Some(mut fleet) = AlertFleet::start().await else { return };
    let home = fleet.home("web1", "");
    let paths = "[paths]\nstate = \"../state\"\naudit = \"../disk/audit.log\"\nclasses = \"../classes.txt\"\n";
    home.write("conf.d/paths.toml", paths, 0o644);
    let disk = SmallDisk::new(home.path("disk"), DISK_KIB).await;
    let node = home.start_through(&disk.command_inside(find_program("rpcd")));
    let _node = fleet.watch_ready("web1", node).await;
    let caller = fleet.connect_caller().await;
    caller.call_action("web1", "rpcutil", "ping", json!({})).await;
    fleet.watch.assert_silent("MusterAuditFailing", "web1").await;
    disk.fill();
    for _ in 0..AUDITED_REQUESTS {
        caller.call_action("web1", "rpcutil", "ping", json!({})).await;
    }
    fleet.watch.await_firing("MusterAuditFailing", "web1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copy_of_a_node_fires() {
    let Some(mut fleet) = AlertFleet::start().await else { return };
    let signer = fleet.organisation.node("web1");
    let url = fleet.server.url();
    let _node = fleet.start_node("web1", fleet.home_at(&signer, &url, "")).await;
    fleet.watch.assert_silent("MusterNodeCloned", "web1").await;
    let _copy = fleet.home_at(&signer, &url, "").start();
    fleet.watch.await_firing("MusterNodeCloned", "web1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_are_lost_fire() {
    let Some(mut fleet) = AlertFleet::start().await else { return };
    let proxy = FaultProxy::start(&fleet.server).await;
    let [url] = proxy.urls().try_into().unwrap();
    let home = fleet.home_at(&fleet.organisation.node("web1"), &url, "");
    let mut node = home.start();
    let address = await_metrics_address(&mut node).await;
    await_status(&address, "/readyz", 200).await;
    fleet.watch.watch_node("web1", &address);
    fleet.watch.assert_silent("MusterNodeFlapping", "web1").await;
    fleet.watch.assert_silent("MusterFleetDisconnected", "").await;
    for number in 1..=7 {
        proxy.cut(Disconnect::Reset);
        await_sample(&address, "muster_broker_reconnects_total", &number.to_string()).await;
    }
    fleet.watch.await_firing("MusterNodeFlapping", "web1").await;
    fleet.server.kill();
    fleet.watch.await_firing("MusterFleetDisconnected", "").await;
}

/// A node that was switched off for hours, and finds no broker when it starts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn account_token_that_was_long_not_confirmed_fires() {
    let Some(mut fleet) = AlertFleet::start().await else { return };
    let token = fleet.organisation.account_token();
    fleet.organisation.publish_account(&fleet.server, &token).await;
    let more = "[trust]\nmax_age_seconds = 86400\n";
    let mut node = fleet.start_node("web1", fleet.home("web1", more)).await;
    let confirmation = node.home().path("state/account.confirmed");
    await_state("the account token is confirmed", || confirmation.exists()).await;
    fleet.watch.assert_silent("MusterTrustStale", "web1").await;
    fleet.server.kill();
    node.kill_and_wait();
    let before = SystemTime::now() - STALE_AGE;
    File::options().write(true).open(confirmation).unwrap().set_modified(before).unwrap();
    let mut node = node.home().clone().start();
    let address = await_metrics_address(&mut node).await;
    fleet.watch.watch_node("web1", &address);
    fleet.watch.await_firing("MusterTrustStale", "web1").await;
}
