//! `rpcd`, the program: reads its arguments, builds the daemon, and waits for a signal.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use clap::Parser;
use muster_agent::assemble::{self, Assembled};
use muster_agent::config::{Config, DEFAULT_PATH, LogFormat};
use muster_agent::core::Core;
use muster_agent::daemon::Daemon;
use muster_api::system::System;
use sd_notify::NotifyState;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The daemon of a Muster node: answers signed requests.
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "\
Examples:
  rpcd                                   run with /etc/muster/rpcd.toml
  rpcd --config ./rpcd.toml --check      show the merged configuration and where each value comes from

Signals: HUP reloads policies, facts and classes and reopens the audit log; TERM and INT let running actions answer, then stop.
Exit codes: 0 stopped by a signal, 1 could not start, 2 wrong arguments."
)]
struct Arguments {
    /// The configuration file
    #[arg(long, value_name = "FILE", default_value = DEFAULT_PATH)]
    config: PathBuf,
    /// Show the merged configuration with each value's origin, and stop
    #[arg(long)]
    check: bool,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report(&format!("rpcd: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

#[expect(
    clippy::print_stderr,
    reason = "the one place where the daemon speaks before or without its log"
)]
fn report(line: &str) {
    eprintln!("{line}");
}

fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let config = Config::load(&arguments.config)?;
    if arguments.check {
        return check(&config, &arguments.config);
    }
    start_log(&config);
    for warning in config.warnings() {
        tracing::warn!("{warning}");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(64)
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(serve(&config, &arguments.config))
}

/// Prints the configuration, and proves that a daemon can be built of it.
#[expect(clippy::print_stdout, reason = "the report is this command's output")]
fn check(config: &Config, path: &Path) -> anyhow::Result<()> {
    print!("{}", config.check_report());
    assemble::assemble(config, path)?;
    Ok(())
}

fn start_log(config: &Config) {
    let level = format!("{},async_nats=error", config.log.level);
    let filter = tracing_subscriber::EnvFilter::try_new(level)
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info,async_nats=error"));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    match config.log.format {
        LogFormat::Text => log.with_ansi(false).init(),
        LogFormat::Json => log.json().init(),
    }
}

async fn serve(config: &Config, path: &Path) -> anyhow::Result<()> {
    let Assembled {
        core,
        options,
        host,
    } = assemble::assemble(config, path)?;
    let bus = options
        .connect()
        .await
        .context("cannot set up the connection to the broker")?;
    wait_for_broker(&bus).await;
    let mut daemon = Daemon::start(Arc::clone(&core), bus)
        .await
        .context("cannot subscribe")?;
    let stop = CancellationToken::new();
    let keeper = daemon
        .trust_changes()
        .map(|changes| tokio::spawn(keep_trust(changes, assemble::kept_trust(config))));
    let refresh = tokio::spawn(refresh(
        Arc::clone(&core),
        Arc::clone(&host),
        config.clone(),
    ));
    let signals = tokio::spawn(signals(
        Arc::clone(&core),
        host,
        config.clone(),
        stop.clone(),
    ));
    tracing::info!(identity = %core.identity(), "ready");
    notify(&[NotifyState::Ready]);
    daemon.run(stop, config.drain.patience).await;
    end(&[Some(refresh), Some(signals), keeper]);
    flush_audit(core).await;
    tracing::info!("stopped");
    Ok(())
}

/// Without a broker there is nothing to be ready for; the connection is tried in the background without end.
async fn wait_for_broker(bus: &muster_bus::Bus) {
    let mut events = bus.events();
    while !bus.is_connected() {
        tokio::select! {
            _ = events.recv() => {}
            () = tokio::time::sleep(std::time::Duration::from_millis(200)) => {}
        }
    }
}

fn end(tasks: &[Option<JoinHandle<()>>]) {
    for task in tasks.iter().flatten() {
        task.abort();
    }
}

async fn flush_audit(core: Arc<Core>) {
    let flushed = tokio::task::spawn_blocking(move || core.flush_audit()).await;
    if let Ok(Err(error)) = flushed {
        tracing::error!(%error, "the last audit records may be lost");
    }
}

/// Collects facts and reads classes at the configured interval.
async fn refresh(core: Arc<Core>, host: Arc<dyn System>, config: Config) {
    let mut interval =
        tokio::time::interval(config.facts.refresh.max(std::time::Duration::from_secs(1)));
    interval.tick().await;
    loop {
        interval.tick().await;
        reload(Arc::clone(&core), Arc::clone(&host)).await;
    }
}

async fn reload(core: Arc<Core>, host: Arc<dyn System>) {
    let reloaded = tokio::task::spawn_blocking(move || assemble::reload_facts(&core, &*host)).await;
    if let Err(error) = reloaded {
        tracing::error!(%error, "collecting facts broke off");
    }
}

async fn signals(core: Arc<Core>, host: Arc<dyn System>, config: Config, stop: CancellationToken) {
    let (Ok(mut hangup), Ok(mut terminate), Ok(mut interrupt)) = (
        signal(SignalKind::hangup()),
        signal(SignalKind::terminate()),
        signal(SignalKind::interrupt()),
    ) else {
        tracing::error!("signals cannot be received");
        return;
    };
    loop {
        tokio::select! {
            _ = hangup.recv() => {
                notify(&[NotifyState::Reloading]);
                core.set_policy(assemble::policy(&config));
                reload(Arc::clone(&core), Arc::clone(&host)).await;
                if let Err(error) = core.reopen_audit() {
                    tracing::error!(%error, "the audit log was not reopened");
                }
                tracing::info!("reloaded policies, facts and classes");
                notify(&[NotifyState::Ready]);
            }
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
        }
    }
    tracing::info!("stopping: running actions answer first");
    notify(&[NotifyState::Stopping]);
    stop.cancel();
    // A second signal is for those who cannot wait; the default action was replaced, so this task stays to see the end.
    std::future::pending::<()>().await;
}

/// Writes each account token that was taken over, so that a restart does not fall back behind a revocation.
async fn keep_trust(mut changes: mpsc::Receiver<String>, path: PathBuf) {
    while let Some(token) = changes.recv().await {
        let fresh = path.with_extension("new");
        let written = async {
            tokio::fs::write(&fresh, token).await?;
            tokio::fs::rename(&fresh, &path).await
        };
        if let Err(error) = written.await {
            tracing::error!(%error, path = %path.display(), "the changed account token is not kept");
        }
    }
}

fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "no service manager was told");
    }
}
