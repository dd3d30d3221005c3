//! A daemon's life: start, reload on HUP, refresh in between, stop on TERM or INT, or start anew on USR2; and telling the service
//! manager.
//!
//! Signals are received from the first moment on: a daemon that still waits for its broker can be reloaded and stopped too.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use muster_api::system::{System, leave};
use muster_bus::BusError;
use muster_host::external::Settle;
use muster_wire::token::Trust;
use sd_notify::NotifyState;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::agents;
use crate::assemble::{self, AssembleError, Assembled};
use crate::config::Config;
use crate::core::Core;
use crate::daemon::Daemon;
use crate::external::Externals;
use crate::memory;
use crate::metrics;
use crate::newcomer::{self, Home, NewcomerError};
use crate::presence::{Presence, resume_restarts};
use crate::services;
use crate::state_lock;
use crate::trust_sync::TokenChange;

/// How often it is looked whether the node is still to be provisioned, while it is.
const LOOK: Duration = Duration::from_millis(500);
/// How often it is looked whether it is to be provisioned anew: somebody has decided that, and an idle daemon shall sleep.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// How long a daemon has been ready when what its start took is given back: presence is told by then, and what was sent meanwhile answered.
const SETTLED: Duration = Duration::from_secs(3);

/// Why a daemon's life ended before its time.
#[derive(Debug, thiserror::Error)]
pub enum LifeError {
    /// It cannot be put together.
    #[error(transparent)]
    Assemble(#[from] AssembleError),
    /// It cannot become a node.
    #[error(transparent)]
    Newcomer(#[from] NewcomerError),
    /// Signals cannot be received.
    #[error("cannot receive signals")]
    Signals(#[source] std::io::Error),
    /// The connection cannot even be tried.
    #[error("cannot set up the connection to the broker")]
    Connect(#[source] BusError),
    /// The broker was lost in the moment of subscribing.
    #[error("cannot subscribe")]
    Subscribe(#[source] BusError),
}

/// How a life ended that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// For good.
    Stopped,
    /// To begin anew, as the program is now.
    Again,
}

/// Lives until a signal ends it.
pub async fn live(config: &Config, config_file: &Path) -> Result<Ending, LifeError> {
    let mut signals = Signals::receive().map_err(LifeError::Signals)?;
    leave::hear();
    let _until_the_end = state_lock::possess(&config.paths.state).await?;
    let config = &match arrive(config, &mut signals).await? {
        Arrived::Node(config) => *config,
        Arrived::Over(ending) => {
            tracing::info!("stopped before this machine was enrolled");
            return Ok(ending);
        }
    };
    let Assembled {
        core,
        options,
        desks,
        puppet,
        host,
    } = assemble::assemble(config, config_file)?;
    let home = Home::at(&config.paths.state);
    hold_back(&core, &home);
    let shelf = agents::shelf(config, config_file, &core.everything())?;
    let poll = agents::external_options(config)?.poll();
    let externals = Arc::new(Externals::new(
        Arc::clone(&core),
        config.limits.clone(),
        shelf,
    ));
    externals.look(Settle::Complete).await;
    let life = Life {
        core: Arc::clone(&core),
        externals: Arc::clone(&externals),
        host: Arc::clone(&host),
        config: config.clone(),
        ready: Arc::default(),
        stop: CancellationToken::new(),
        again: Arc::default(),
    };
    let presence = Presence::begin(agents::restart_store(config)).await;
    resume_restarts(config).await;
    let mut tasks = vec![
        tokio::spawn(life.clone().obey(signals)),
        tokio::spawn(life.clone().refresh()),
        tokio::spawn(watch_provisioning(Arc::clone(&core), home)),
    ];
    if let Some(pause) = poll {
        tasks.push(tokio::spawn(externals.watch(pause, life.stop.clone())));
    }
    let bus = options.connect().await.map_err(LifeError::Connect)?;
    desks.permits.connect(bus.clone());
    if let Some(address) = config.metrics.listen {
        let shown = metrics::Shown {
            core: Arc::clone(&core),
            bus: bus.clone(),
            ready: Arc::clone(&life.ready),
            stopping: life.stop.clone(),
        };
        tasks.push(tokio::spawn(metrics::serve(address, shown)));
    }
    tokio::select! {
        () = bus.connected() => {}
        () = life.stop.cancelled() => {
            tracing::info!("stopped before there was a broker");
            return Ok(life.ending());
        }
    }
    tasks.push(tokio::spawn(puppet.run(life.stop.clone())));
    let trust = Trust::clone(&core.trust());
    let stop = life.stop.clone();
    let services = services::start(config, &desks.provisioner, trust, host, stop).await?;
    let mut daemon = Daemon::start(Arc::clone(&core), bus.clone())
        .await
        .map_err(LifeError::Subscribe)?;
    if let Some(changes) = daemon.token_changes() {
        tasks.push(tokio::spawn(keep_tokens(changes, config.clone())));
    }
    tracing::info!(identity = %core.identity(), "ready");
    life.ready.store(true, Ordering::Release);
    notify(&[NotifyState::Ready]);
    tasks.push(tokio::spawn(presence.follow(bus)));
    tasks.push(tokio::spawn(settle()));
    daemon.run(life.stop.clone(), config.drain.patience).await;
    services.left().await;
    tasks.iter().for_each(JoinHandle::abort);
    seal_audit(core).await;
    tracing::info!("stopped");
    Ok(life.ending())
}

/// What came of waiting until the machine is somebody.
enum Arrived {
    /// It is: its configuration.
    Node(Box<Config>),
    /// A signal has ended the waiting.
    Over(Ending),
}

/// Waits until the machine is somebody, or a signal ends it before.
async fn arrive(config: &Config, signals: &mut Signals) -> Result<Arrived, LifeError> {
    if newcomer::bootstrap(config).is_some() {
        notify(&[NotifyState::Status("waiting to be enrolled")]);
    }
    let again = Notify::new();
    let arriving = newcomer::arrive(config, &again);
    tokio::pin!(arriving);
    loop {
        tokio::select! {
            arrived = &mut arriving => return Ok(Arrived::Node(Box::new(arrived?))),
            _ = signals.hangup.recv() => again.notify_one(),
            _ = signals.terminate.recv() => return Ok(Arrived::Over(Ending::Stopped)),
            _ = signals.interrupt.recv() => return Ok(Arrived::Over(Ending::Stopped)),
            _ = signals.again.recv() => return Ok(Arrived::Over(Ending::Again)),
        }
    }
}

/// Offers what a node offers that is in this state of being provisioned; returns whether it still is.
fn hold_back(core: &Core, home: &Home) -> bool {
    let provisioning = home.is_provisioning();
    if core.hold_back(provisioning) {
        let [first, second] = newcomer::OFFERED;
        if provisioning {
            tracing::info!("still to be provisioned: only {first} and {second} are offered");
        } else {
            tracing::info!("provisioned: everything is offered");
        }
    }
    provisioning
}

/// The mark is a file, and whoever provisions the node takes it away.
async fn watch_provisioning(core: Arc<Core>, home: Home) {
    loop {
        let pause = if hold_back(&core, &home) {
            LOOK
        } else {
            LOOK_AGAIN
        };
        tokio::time::sleep(pause).await;
    }
}

async fn seal_audit(core: Arc<Core>) {
    let sealed = tokio::task::spawn_blocking(move || core.seal_audit()).await;
    if let Ok(Err(error)) = sealed {
        tracing::error!(%error, "the last audit records may be lost");
    }
}

/// The signals that a daemon knows.
struct Signals {
    hangup: Signal,
    terminate: Signal,
    interrupt: Signal,
    again: Signal,
}

impl Signals {
    fn receive() -> std::io::Result<Self> {
        Ok(Self {
            hangup: signal(SignalKind::hangup())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            again: signal(SignalKind::user_defined2())?,
        })
    }
}

/// What the tasks beside the daemon need.
#[derive(Clone)]
struct Life {
    core: Arc<Core>,
    externals: Arc<Externals>,
    host: Arc<dyn System>,
    config: Config,
    ready: Arc<AtomicBool>,
    stop: CancellationToken,
    /// Whether to begin anew after that.
    again: Arc<AtomicBool>,
}

impl Life {
    async fn obey(self, mut signals: Signals) {
        loop {
            tokio::select! {
                _ = signals.hangup.recv() => self.reload().await,
                _ = signals.terminate.recv() => self.end(Ending::Stopped),
                _ = signals.interrupt.recv() => self.end(Ending::Stopped),
                _ = signals.again.recv() => self.end(Ending::Again),
            }
        }
    }

    /// Begins to end; who is to stop while it ends to begin anew, stops.
    fn end(&self, ending: Ending) {
        let again = ending == Ending::Again;
        if self.stop.is_cancelled() {
            self.again.fetch_and(again, Ordering::AcqRel);
            return;
        }
        self.again.store(again, Ordering::Release);
        if again {
            tracing::info!("starting anew: running actions answer first");
            notify_reloading();
        } else {
            tracing::info!("stopping: running actions answer first");
            notify(&[NotifyState::Stopping]);
        }
        self.stop.cancel();
    }

    fn ending(&self) -> Ending {
        if self.again.load(Ordering::Acquire) {
            Ending::Again
        } else {
            Ending::Stopped
        }
    }

    async fn reload(&self) {
        let ready = self.ready.load(Ordering::Acquire);
        if ready {
            notify_reloading();
        }
        assemble::reload_policies(&self.core, &self.config);
        self.collect().await;
        self.externals.look(Settle::Complete).await;
        if let Err(error) = self.core.reopen_audit() {
            tracing::error!(%error, "the audit log was not reopened");
        }
        tracing::info!("reloaded policies, facts, classes and external agents");
        if ready {
            notify(&[NotifyState::Ready]);
        }
    }

    /// Collects facts and reads classes at the configured interval, forgets what is over, and gives back what that took.
    async fn refresh(self) {
        let mut interval =
            tokio::time::interval(self.config.facts.refresh.max(Duration::from_secs(1)));
        interval.tick().await;
        loop {
            interval.tick().await;
            self.core.forget();
            self.collect().await;
            rest().await;
        }
    }

    async fn collect(&self) {
        let (core, host) = (Arc::clone(&self.core), Arc::clone(&self.host));
        let collected =
            tokio::task::spawn_blocking(move || assemble::reload_facts(&core, &*host)).await;
        if let Err(error) = collected {
            tracing::error!(%error, "collecting facts broke off");
        }
    }
}

/// Gives back what only the start has needed.
async fn settle() {
    tokio::time::sleep(SETTLED).await;
    rest().await;
}

/// Not on a thread that others' requests wait for.
async fn rest() {
    // What is not given back is kept; there is nothing to tell.
    let _ = tokio::task::spawn_blocking(memory::give_back).await;
}

/// Writes each token that was taken over, so that a restart falls back neither behind a revocation nor to a token that is over.
async fn keep_tokens(mut changes: mpsc::Receiver<TokenChange>, config: Config) {
    while let Some(change) = changes.recv().await {
        let (path, token) = match change {
            TokenChange::Account(token) => (assemble::kept_trust(&config), token),
            TokenChange::Own(token) => (assemble::kept_token(&config), token),
            // Its time is what counts.
            TokenChange::Confirmed => (assemble::kept_confirmation(&config), String::new()),
        };
        let fresh = path.with_extension("new");
        let written = async {
            tokio::fs::write(&fresh, token).await?;
            tokio::fs::rename(&fresh, &path).await
        };
        if let Err(error) = written.await {
            tracing::error!(%error, path = %path.display(), "a token that was taken over is not kept");
        }
    }
}

/// The service manager wants to know since when.
fn notify_reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => notify(&[NotifyState::Reloading, now]),
        Err(_) => notify(&[NotifyState::Reloading]),
    }
}

fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "no service manager was told");
    }
}
