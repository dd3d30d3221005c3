//! A daemon that has started: handles signals, reloads, refreshes facts, and begins the stop or the restart.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use muster_agents::config::Deployments;
use muster_agents::nrpe::CheckMonitor;
use muster_agents::tunnel::TunnelHub;
use muster_api::system::System;
use muster_bus::Bus;
use muster_host::external::ScanMode;
use muster_node::config::Config;
use muster_node::core::{DaemonCore, health, reload};
use muster_node::ground::signals::{
    CONNECTED_STATUS, DaemonSignal, ShutdownKind, SignalStreams, notify_reloading, notify_status,
    notify_systemd,
};
use muster_provisioner::ProvisionerHandle;
use sd_notify::NotifyState;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::daemon::assemble::AssembleError;
use crate::daemon::deployment::FileRequests;
use crate::daemon::upgrade::NextDaemon;
use crate::services::central::{self, ServiceContext, ServiceTasks};
use crate::services::external::ExternalAgentManager;
use crate::services::metrics::directory_metrics::RunningDirectory;
use crate::services::metrics::history_metrics::RunningHistory;
use crate::services::metrics::sink_metrics::RunningSinks;
use crate::services::{metrics, upkeep};

#[derive(Clone)]
pub(super) struct DaemonSupervisor {
    pub(super) core: Arc<DaemonCore>,
    pub(super) externals: Arc<ExternalAgentManager>,
    pub(super) host: Arc<dyn System>,
    pub(super) config: Config,
    pub(super) checks: Option<CheckMonitor>,
    /// The instance of the directory on this host, once it runs; for the metrics.
    pub(super) directory: Arc<OnceLock<RunningDirectory>>,
    /// The instance of the history on this host, once it runs; for the metrics.
    pub(super) history: Arc<OnceLock<RunningHistory>>,
    /// The sinks of this host; for the metrics.
    pub(super) sinks: RunningSinks,
    /// Whether the subscriptions are confirmed; the connection may be lost later.
    pub(super) ready: Arc<AtomicBool>,
    pub(super) stop: CancellationToken,
    /// Whether to restart after shutdown.
    pub(super) restart: Arc<AtomicBool>,
    pub(super) next_daemon: NextDaemon,
}

impl DaemonSupervisor {
    /// Starts the tasks that serve signals, collect facts, put deployed files in force, restart the program and compact the journal.
    pub(super) fn spawn_tasks(
        &self,
        signals: SignalStreams,
        requests: FileRequests,
        deployments: Arc<Deployments>,
    ) -> Vec<JoinHandle<()>> {
        let reloads = self.clone().reload_when_requested(requests.reload, Arc::clone(&deployments));
        vec![
            tokio::spawn(self.clone().handle_signals(signals)),
            tokio::spawn(self.clone().refresh_periodically()),
            tokio::spawn(reloads),
            tokio::spawn(self.clone().restart_when_requested(requests.restart)),
            tokio::spawn(deployments.undo_unconfirmed()),
            tokio::spawn(upkeep::compact_seen_journal(Arc::clone(&self.core))),
        ]
    }

    /// Returns whether the broker was reached before the daemon is to stop.
    pub(super) async fn wait_connected(&self, bus: &Bus) -> bool {
        tokio::select! {
            () = bus.wait_connected() => true,
            () = self.stop.cancelled() => {
                tracing::info!("stopped before the broker connection was established");
                false
            }
        }
    }

    pub(super) fn announce_ready(&self) {
        tracing::info!(identity = %self.core.identity(), "ready");
        self.ready.store(true, Ordering::Release);
        notify_status(CONNECTED_STATUS);
    }

    /// Serves the metrics, if the configuration has an address for them.
    pub(super) fn start_metrics(&self, bus: &Bus, tunnels: TunnelHub) -> Option<JoinHandle<()>> {
        let address = self.config.metrics.listen?;
        let context = metrics::MetricsContext {
            core: Arc::clone(&self.core),
            bus: bus.clone(),
            tunnels,
            directory: Arc::clone(&self.directory),
            history: Arc::clone(&self.history),
            sinks: self.sinks.clone(),
            ready: Arc::clone(&self.ready),
            stopping: self.stop.clone(),
        };
        Some(tokio::spawn(metrics::serve_metrics(address, context)))
    }

    /// Starts the central services that the configuration enables.
    pub(super) async fn start_services(
        &self,
        provisioner: &ProvisionerHandle,
    ) -> Result<ServiceTasks, AssembleError> {
        let (catalogs, provision_queues) = (OnceLock::new(), OnceLock::new());
        let context = ServiceContext {
            config: &self.config,
            core: &self.core,
            system: &self.host,
            stop: &self.stop,
            directory: &self.directory,
            catalogs: &catalogs,
            history: &self.history,
            sinks: &self.sinks,
            provision_queues: &provision_queues,
            provisioner,
        };
        Ok(central::start_services(context).await?)
    }

    async fn handle_signals(self, mut signals: SignalStreams) {
        loop {
            match signals.next_signal().await {
                DaemonSignal::Reload => drop(self.reload().await),
                DaemonSignal::Shutdown(ShutdownKind::Restart) => {
                    // In the background, so that a signal to stop is not delayed.
                    tokio::spawn(self.clone().restart_if_possible());
                }
                DaemonSignal::Shutdown(kind) => self.begin_shutdown(kind),
            }
        }
    }

    /// Restarts, unless the next daemon would not start.
    async fn restart_if_possible(self) {
        let next = self.next_daemon.clone();
        match tokio::task::spawn_blocking(move || next.check()).await {
            Ok(Ok(())) => self.begin_shutdown(ShutdownKind::Restart),
            Ok(Err(error)) => tracing::error!(%error, "not restarting"),
            Err(error) => tracing::error!(%error, "not restarting"),
        }
    }

    /// Restarts the daemon when an action has replaced files that are read at the start. The action replies before the daemon restarts.
    async fn restart_when_requested(self, requested: Arc<Notify>) {
        loop {
            requested.notified().await;
            self.clone().restart_if_possible().await;
        }
    }

    /// A stop overrides a pending restart.
    fn begin_shutdown(&self, kind: ShutdownKind) {
        let restart = kind == ShutdownKind::Restart;
        if self.stop.is_cancelled() {
            self.restart.fetch_and(restart, Ordering::AcqRel);
            return;
        }
        self.restart.store(restart, Ordering::Release);
        if restart {
            tracing::info!("restarting: waiting for running actions");
            notify_reloading();
        } else {
            tracing::info!("stopping: waiting for running actions");
            notify_systemd(&[NotifyState::Stopping]);
        }
        self.core.leaving.cancel();
        self.stop.cancel();
    }

    pub(super) fn shutdown_kind(&self) -> ShutdownKind {
        if self.restart.load(Ordering::Acquire) {
            ShutdownKind::Restart
        } else {
            ShutdownKind::Stopped
        }
    }

    /// Reads files again when an action has replaced them.
    async fn reload_when_requested(self, requested: Arc<Notify>, deployments: Arc<Deployments>) {
        loop {
            requested.notified().await;
            if self.reload().await {
                deployments.note_reload();
            }
        }
    }

    /// Returns whether the policies were replaced, too.
    async fn reload(&self) -> bool {
        notify_reloading();
        let (core, config) = (Arc::clone(&self.core), self.config.clone());
        let files = tokio::task::spawn_blocking(move || {
            if let Err(error) = core.journals.audit.reopen() {
                tracing::error!(%error, "cannot reopen the audit log");
            }
            for finding in health::pending_configuration(&core) {
                tracing::warn!(problem = finding.message, "a reload does not read these files");
            }
            reload::reload_policies(&core, &config)
        });
        let replaces_policies = files.await.unwrap_or_else(|error| {
            tracing::error!(%error, "reloading the policies failed");
            false
        });
        self.collect_facts().await;
        self.externals.scan_and_apply(ScanMode::Complete).await;
        self.checks.iter().for_each(CheckMonitor::reload);
        if replaces_policies {
            tracing::info!("reloaded policies, facts, classes and external agents");
        } else {
            tracing::error!(
                "reloaded facts, classes and external agents; the policies have an error and stay as they were"
            );
        }
        notify_systemd(&[NotifyState::Ready]);
        replaces_policies
    }

    /// Collects facts and reads classes at the configured interval, forgets expired requests, and releases unused memory.
    async fn refresh_periodically(self) {
        let mut interval =
            tokio::time::interval(self.config.facts.refresh.max(Duration::from_secs(1)));
        interval.tick().await;
        loop {
            interval.tick().await;
            self.core.forget_expired();
            self.collect_facts().await;
            upkeep::release_memory().await;
        }
    }

    async fn collect_facts(&self) {
        let (core, host) = (Arc::clone(&self.core), Arc::clone(&self.host));
        let collected =
            tokio::task::spawn_blocking(move || reload::reload_facts(&core, &*host)).await;
        if let Err(error) = collected {
            tracing::error!(%error, "fact collection failed");
        }
    }
}
