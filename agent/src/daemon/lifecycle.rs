//! The daemon's lifecycle: start, reload on HUP, periodic refresh, stop on TERM or INT, restart on USR2; and notifications to the service manager.
//!
//! Signal handlers are installed first: a daemon that still waits for its broker can be reloaded and stopped too.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use muster_agents::config::Deployments;
use muster_agents::nrpe::CheckMonitor;
use muster_agents::tunnel::TunnelHub;
use muster_api::system::{System, launch};
use muster_bus::{Bus, BusError, FollowError};
use muster_host::external::ScanMode;
use muster_agents::nrpe::CheckMonitor;
use muster_provisioner::ProvisionerHandle;
use muster_agents::tunnel::TunnelHub;
use sd_notify::NotifyState;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::daemon::assemble::{self, AssembleError, AssembledDaemon};
use crate::daemon::delivery::DaemonFiles;
use crate::daemon::deployment::{DeployableFiles, FileRequests};
use crate::daemon::state_lock;
use crate::daemon::upgrade::NextDaemon;
use crate::services::again_tasks;
use crate::services::agents::{self, BrokerHandles, PluginSetupError};
use crate::services::broker_follow::FollowedBroker;
use crate::services::central::{self, CentralServices};
use crate::services::change_watch::ChangeWatch;
use crate::services::check_tasks::CheckTasks;
use crate::services::clone_tasks::spawn_clone_watch;
use crate::services::events::{self, EventSources};
use crate::services::external::ExternalAgentManager;
use crate::services::login;
use crate::services::lost;
use crate::services::metrics;
use crate::services::metrics::directory_metrics::RunningDirectory;
use crate::services::presence::{PresenceWriter, report_connection, resume_restarts};
use crate::services::registration::NodeRegistration;
use crate::services::upkeep;
use muster_node::config::Config;
use muster_node::core::DaemonCore;
use muster_node::core::health;
use muster_node::core::pending_config::StartedConfig;
use muster_node::core::reload;
pub use muster_node::ground::signals::ShutdownKind;
use muster_node::ground::signals::{
    CONNECTED_STATUS, DaemonSignal, SignalStreams, notify_reloading, notify_status, notify_systemd,
};
use muster_node::ground::watchdog::LoopMonitor;
use muster_node::pipeline::daemon::Daemon;
use muster_node::trust::enrolment::{self, IdentityStore, NodeEnrolmentError};

/// Poll interval of the provisioning marker, for a marker that an administrator changes by hand.
const MARKER_POLL_INTERVAL: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
pub enum LifecycleError {
    #[error(transparent)]
    Assemble(#[from] AssembleError),
    #[error(transparent)]
    NodeEnrolment(#[from] NodeEnrolmentError),
    #[error("cannot install signal handlers")]
    Signals(#[source] std::io::Error),
    #[error("cannot find the path of the rpcd program")]
    Program(#[source] std::io::Error),
    #[error("cannot set up the connection to the broker")]
    Connect(#[source] BusError),
    #[error("cannot set up the connection to the broker")]
    Follow(#[source] FollowError),
    /// The broker connection was lost while subscribing.
    #[error("cannot subscribe to the subjects of this node")]
    Subscribe(#[source] BusError),
}

pub async fn run_until_signal(
    loaded: &Config,
    config_file: &Path,
) -> Result<ShutdownKind, LifecycleError> {
    let mut signals = SignalStreams::install_handlers().map_err(LifecycleError::Signals)?;
    launch::unblock_signals();
    let monitor = LoopMonitor::from_environment();
    let _watchdog =
        AbortOnDropHandle::new(tokio::spawn(Arc::clone(&monitor).notify_while_turning()));
    let next_daemon =
        NextDaemon::for_current_process(config_file).map_err(LifecycleError::Program)?;
    let _state_lock = state_lock::acquire_state_lock(&loaded.paths.state).await?;
    let Some((requests, deployments)) = open_deployments(loaded, config_file).await? else {
        return Ok(ShutdownKind::Restart);
    };
    let enrolled = match wait_for_enrolment(loaded, &mut signals).await? {
        BootstrapOutcome::Enrolled(config) => config,
        BootstrapOutcome::Shutdown(kind) => return Ok(kind),
    };
    let started = StartedConfig::record(config_file, loaded, &enrolled);
    let (followed, config) = FollowedBroker::prepare(&enrolled).map_err(LifecycleError::Follow)?;
    let (config, handles) = (&config, file_handles(&config, &requests, &deployments));
    let assembled = assemble::assemble_daemon(config, config_file, handles)?;
    let _ = assembled.core.started_config.set(started);
    let AssembledDaemon { core, options, broker_handles, puppet, checks, .. } = assembled;
    let AssembledDaemon { engine_dir, host, packages, motd, again, logins, .. } = assembled;
    let left = core.begun.unanswered();
    packages.remove_ended(|id| left.iter().any(|begun| begun.stored_work_ids().contains(&id)));
    let identity_store = IdentityStore::in_directory(&config.paths.state);
    restrict_to_provisioning(&core, &identity_store);
    let (externals, poll_interval) = start_externals(&core, config, config_file).await?;
    let supervisor = DaemonSupervisor {
        core: Arc::clone(&core),
        externals: Arc::clone(&externals),
        host: Arc::clone(&host),
        config: config.clone(),
        checks: checks.clone(),
        directory: Arc::default(),
        ready: Arc::default(),
        stop: CancellationToken::new(),
        restart: Arc::default(),
        next_daemon,
    };
    let presence = PresenceWriter::announce_start(agents::restart_store(&config.paths.state)).await;
    resume_restarts(config).await;
    // Ready means that the daemon runs. A broker that is away or refuses this node must not keep the machine from booting.
    notify_systemd(&[NotifyState::Ready, NotifyState::Status("connecting to the broker")]);
    let mut tasks = supervisor.spawn_tasks(signals, requests, deployments);
    tasks.extend(login::spawn_logins(&core, logins));
    tasks.push(tokio::spawn(watch_provisioning(
        Arc::clone(&core),
        identity_store,
        Arc::clone(&broker_handles.provisioning_changed),
    )));
    tasks.push(tokio::spawn(upkeep::report_broker_clock(&core, &broker_handles.permits)));
    if let Some(interval) = poll_interval {
        tasks.push(tokio::spawn(externals.poll_changes(interval, supervisor.stop.clone())));
    }
    let check_tasks = CheckTasks::start(checks.as_ref(), &core, supervisor.stop.clone());
    let bus = options.connect().await.map_err(LifecycleError::Connect)?;
    tasks.push(tokio::spawn(report_connection(bus.clone(), Arc::clone(&supervisor.ready))));
    broker_handles.connect(&bus);
    tasks.extend(supervisor.start_metrics(&bus, broker_handles.tunnels.clone()));
    // The message of the day and the prompt need no broker.
    tasks.push(tokio::spawn(ChangeWatch::new(&core, &host, config, motd, &engine_dir).run()));
    if !supervisor.wait_connected(&bus).await {
        check_tasks.wait_stopped().await;
        return Ok(supervisor.shutdown_kind());
    }
    tasks.push(tokio::spawn(puppet.run(supervisor.stop.clone())));
    tasks.extend(again_tasks::start(again.as_ref(), &core, supervisor.stop.clone()));
    let services = supervisor.start_services(&broker_handles.provisioner).await?;
    let mut daemon =
        Daemon::start(Arc::clone(&core), bus.clone()).await.map_err(LifecycleError::Subscribe)?;
    daemon.watch_with(monitor, broker_handles.tunnels.tasks().clone());
    if let Some(changes) = daemon.token_changes() {
        tasks.push(tokio::spawn(upkeep::keep_tokens(changes, config.clone())));
    }
    supervisor.announce_ready();
    tasks.push(tokio::spawn(lost::answer_left_requests(
        Arc::clone(&core),
        bus.clone(),
        left,
        packages,
    )));
    let sources = EventSources::new(&config.paths.state, engine_dir, checks, again);
    tasks.push(tokio::spawn(events::publish_node_events(Arc::clone(&core), sources, bus.clone())));
    tasks.push(spawn_clone_watch(&core, &bus, config));
    tasks.push(tokio::spawn(NodeRegistration::of_daemon(&core, &bus, config).run()));
    tasks.push(tokio::spawn(presence.follow_connection(bus)));
    tasks.push(tokio::spawn(upkeep::release_startup_memory()));
    tasks.push(tokio::spawn(followed.run(Arc::clone(&core))));
    daemon.run(supervisor.stop.clone(), config.drain.timeout).await;
    services.wait_stopped().await;
    check_tasks.wait_stopped().await;
    tasks.iter().for_each(JoinHandle::abort);
    seal_audit(core).await;
    tracing::info!("stopped");
    Ok(supervisor.shutdown_kind())
}

fn file_handles(
    config: &Config,
    requests: &FileRequests,
    deployments: &Arc<Deployments>,
) -> BrokerHandles {
    BrokerHandles {
        delivery: Some(Arc::new(DaemonFiles::new(config, Arc::clone(&requests.restart)))),
        deployments: Some(Arc::clone(deployments)),
        ..BrokerHandles::new(config.identity.clone())
    }
}

/// The deployments of this daemon's files; `None` if the time for the confirmation of the last one was over. Its earlier files are restored then, before
/// anything else: with the new ones, the daemon may not get further than this.
async fn open_deployments(
    config: &Config,
    config_file: &Path,
) -> Result<Option<(FileRequests, Arc<Deployments>)>, LifecycleError> {
    let requests = FileRequests::default();
    let files =
        DeployableFiles::new(config, config_file, requests.clone()).map_err(AssembleError::from)?;
    let deployments = Arc::new(Deployments::open(Arc::new(files), &config.paths.state));
    let undone = Arc::clone(&deployments);
    let undone = tokio::task::spawn_blocking(move || undone.undo_expired()).await;
    Ok((!undone.unwrap_or(false)).then_some((requests, deployments)))
}

/// The external agents, which are offered when this returns, and the interval at which their files are checked.
async fn start_externals(
    core: &Arc<DaemonCore>,
    config: &Config,
    config_file: &Path,
) -> Result<(Arc<ExternalAgentManager>, Option<Duration>), LifecycleError> {
    let directory = agents::open_agent_directory(config, config_file, &core.all_agents.get())
        .map_err(AssembleError::from)?;
    let options =
        config.external_options().map_err(PluginSetupError::from).map_err(AssembleError::from)?;
    let externals = ExternalAgentManager::new(Arc::clone(core), config.limits.clone(), directory);
    externals.scan_and_apply(ScanMode::Complete).await;
    Ok((Arc::new(externals), options.poll_interval()))
}

enum BootstrapOutcome {
    /// Enrolled: the effective configuration.
    Enrolled(Box<Config>),
    Shutdown(ShutdownKind),
}

/// Waits until the machine is enrolled or a signal ends the wait.
async fn wait_for_enrolment(
    config: &Config,
    signals: &mut SignalStreams,
) -> Result<BootstrapOutcome, LifecycleError> {
    if enrolment::bootstrap_path(config).is_some() {
        notify_systemd(&[NotifyState::Ready, NotifyState::Status("waiting for enrolment")]);
    }
    let retry = Notify::new();
    let enrolling = enrolment::ensure_enrolled(config, &retry);
    tokio::pin!(enrolling);
    loop {
        tokio::select! {
            enrolled = &mut enrolling => return Ok(BootstrapOutcome::Enrolled(Box::new(enrolled?))),
            signal = signals.next_signal() => match signal {
                DaemonSignal::Reload => retry.notify_one(),
                DaemonSignal::Shutdown(kind) => {
                    tracing::info!("stopped before this machine was enrolled");
                    return Ok(BootstrapOutcome::Shutdown(kind));
                }
            },
        }
    }
}

/// Offers the agents for the current provisioning state.
fn restrict_to_provisioning(core: &DaemonCore, identity_store: &IdentityStore) {
    let provisioning = identity_store.is_provisioning();
    if core.restrict_to_provisioning(provisioning) {
        let [first, second] = enrolment::PROVISIONING_AGENTS;
        if provisioning {
            tracing::info!(
                "not provisioned yet: only the agents {first} and {second} are available"
            );
        } else {
            tracing::info!("provisioned: all agents are available");
        }
    }
}

/// Offers the agents for the provisioning state each time the agent `provision` has changed it.
async fn watch_provisioning(
    core: Arc<DaemonCore>,
    identity_store: IdentityStore,
    changed: Arc<Notify>,
) {
    loop {
        restrict_to_provisioning(&core, &identity_store);
        tokio::select! {
            () = changed.notified() => {}
            () = tokio::time::sleep(MARKER_POLL_INTERVAL) => {}
        }
    }
}

/// Signs the audit log and syncs it to disk.
async fn seal_audit(core: Arc<DaemonCore>) {
    let sealed = tokio::task::spawn_blocking(move || core.audit.seal()).await;
    if let Ok(Err(error)) = sealed {
        tracing::error!(%error, "cannot close the audit log; the last records may be lost");
    }
}

#[derive(Clone)]
struct DaemonSupervisor {
    core: Arc<DaemonCore>,
    externals: Arc<ExternalAgentManager>,
    host: Arc<dyn System>,
    config: Config,
    checks: Option<CheckMonitor>,
    /// The instance of the directory on this host, once it runs; for the metrics.
    directory: Arc<OnceLock<RunningDirectory>>,
    /// Whether the subscriptions are confirmed; the connection may be lost later.
    ready: Arc<AtomicBool>,
    stop: CancellationToken,
    /// Whether to restart after shutdown.
    restart: Arc<AtomicBool>,
    next_daemon: NextDaemon,
}

impl DaemonSupervisor {
    /// Starts the tasks that serve signals, collect facts, put deployed files in force, restart the program and compact the journal.
    fn spawn_tasks(
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
    async fn wait_connected(&self, bus: &Bus) -> bool {
        tokio::select! {
            () = bus.wait_connected() => true,
            () = self.stop.cancelled() => {
                tracing::info!("stopped before the broker connection was established");
                false
            }
        }
    }

    fn announce_ready(&self) {
        tracing::info!(identity = %self.core.identity(), "ready");
        self.ready.store(true, Ordering::Release);
        notify_status(CONNECTED_STATUS);
    }

    /// Serves the metrics, if the configuration has an address for them.
    fn start_metrics(&self, bus: &Bus, tunnels: TunnelHub) -> Option<JoinHandle<()>> {
        let address = self.config.metrics.listen?;
        let context = metrics::MetricsContext {
            core: Arc::clone(&self.core),
            bus: bus.clone(),
            tunnels,
            directory: Arc::clone(&self.directory),
            ready: Arc::clone(&self.ready),
            stopping: self.stop.clone(),
        };
        Some(tokio::spawn(metrics::serve_metrics(address, context)))
    }

    /// Starts the central services that the configuration enables.
    async fn start_services(
        &self,
        provisioner: &ProvisionerHandle,
    ) -> Result<CentralServices, AssembleError> {
        let (host, stop) = (Arc::clone(&self.host), self.stop.clone());
        let (core, directory) = (&self.core, &self.directory);
        let started =
            central::start_services(&self.config, provisioner, core, directory, host, stop);
        Ok(started.await?)
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

    fn shutdown_kind(&self) -> ShutdownKind {
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
            if let Err(error) = core.audit.reopen() {
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
