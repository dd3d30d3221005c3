//! The daemon's lifecycle: start, reload on HUP, periodic refresh, stop on TERM or INT, restart on USR2; and notifications to the service manager.
//!
//! Signal handlers are installed first: a daemon that still waits for its broker can be reloaded and stopped too.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use muster_agents::config::{Deployments, ProgramStore};
use muster_api::system::launch;
use muster_bus::{BusError, FollowError};
use muster_host::external::ScanMode;
use muster_node::config::Config;
use muster_node::core::DaemonCore;
use muster_node::core::pending_config::StartedConfig;
use muster_node::ground::signals::{DaemonSignal, ShutdownKind, SignalStreams, notify_systemd};
use muster_node::ground::watchdog::LoopMonitor;
use muster_node::pipeline::daemon::Daemon;
use muster_node::trust::enrolment::{self, IdentityStore, NodeEnrolmentError};
use sd_notify::NotifyState;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::daemon::assemble::{self, AssembleError, AssembledDaemon};
use crate::daemon::delivery::DaemonFiles;
use crate::daemon::deployment::{DeployableFiles, FileRequests};
use crate::daemon::programs::ProgramFetcher;
use crate::daemon::state_lock;
use crate::daemon::supervisor::DaemonSupervisor;
use crate::services::agents::{self, BrokerHandles, PluginSetupError};
use crate::services::broker_follow::FollowedBroker;
use crate::services::change_watch::ChangeWatch;
use crate::services::check_tasks::CheckTasks;
use crate::services::clone_tasks::spawn_clone_watch;
use crate::services::events::{self, EventSources};
use crate::services::external::ExternalAgentManager;
use crate::services::metrics::sink_metrics::RunningSinks;
use crate::services::presence::{PresenceWriter, report_connection, resume_restarts};
use crate::services::registration::NodeRegistration;
use crate::services::{again_tasks, central, history_tasks, login, lost, release_tasks, upkeep};

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
    let _state_lock = state_lock::acquire_state_lock(&loaded.paths.state).await?;
    let Some(opened) = open_deployments(loaded, config_file).await? else {
        return Ok(ShutdownKind::Restart);
    };
    let OpenedDeployments { requests, deployments, programs } = opened;
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
    let AssembledDaemon { engine_dir, host, packages, motd, again, logins, releases, .. } =
        assembled;
    let left = core.journals.begun.unanswered();
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
        history: Arc::default(),
        sinks: RunningSinks::default(),
        ready: Arc::default(),
        stop: CancellationToken::new(),
        restart: Arc::default(),
        next_daemon: programs.next_daemon(),
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
    programs.connect(bus.clone(), Arc::clone(&core));
    tasks.extend(release_tasks::start(releases, &core, &bus, supervisor.stop.clone()));
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
    tasks.push(tokio::spawn(history_tasks::deliver_history(Arc::clone(&core), bus.clone())));
    tasks.push(spawn_clone_watch(&core, &bus, config));
    tasks.push(tokio::spawn(NodeRegistration::of_daemon(&core, &bus, config).run()));
    tasks.push(tokio::spawn(presence.follow_connection(bus)));
    tasks.push(tokio::spawn(upkeep::release_startup_memory()));
    tasks.push(tokio::spawn(followed.run(Arc::clone(&core))));
    daemon.run(supervisor.stop.clone(), config.drain.timeout).await;
    central::wait_stopped(services).await;
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

/// The deployments, and what serves them.
struct OpenedDeployments {
    requests: FileRequests,
    deployments: Arc<Deployments>,
    programs: ProgramFetcher,
}

/// The deployments of this daemon's files; `None` if the time for the confirmation of the last one was over. Its earlier files are restored then, before
/// anything else: with the new ones, the daemon may not get further than this.
async fn open_deployments(
    config: &Config,
    config_file: &Path,
) -> Result<Option<OpenedDeployments>, LifecycleError> {
    let running = std::env::current_exe().map_err(LifecycleError::Program)?;
    let store = ProgramStore::new(&config.paths.state, running);
    let programs = ProgramFetcher::new(store, config_file);
    let requests = FileRequests::default();
    let files = DeployableFiles::new(config, config_file, requests.clone(), programs.clone())
        .map_err(AssembleError::from)?;
    let deployments = Arc::new(Deployments::open(Arc::new(files), &config.paths.state));
    let undone = Arc::clone(&deployments);
    let undone = tokio::task::spawn_blocking(move || undone.undo_expired()).await;
    let opened = OpenedDeployments { requests, deployments, programs };
    Ok((!undone.unwrap_or(false)).then_some(opened))
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
    let sealed = tokio::task::spawn_blocking(move || core.journals.audit.seal()).await;
    if let Ok(Err(error)) = sealed {
        tracing::error!(%error, "cannot close the audit log; the last records may be lost");
    }
}
