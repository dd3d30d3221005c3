//! `rpcd`, the program: reads its arguments and its configuration, starts the log, and lives.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use muster_agent::config::{Config, DEFAULT_PATH, LogFormat};
use muster_agent::lifecycle::{Ending, LifeError};
use muster_agent::log_limit::LimitedFormat;
use muster_agent::newcomer::NewcomerError;
use muster_agent::terminal::printable;
use muster_agent::virtual_nodes::command as virtual_nodes;
use muster_agent::{apply, assemble, lifecycle, memory, restart};
use muster_host::sandbox::Plan;
use muster_system::leave;
use tracing_subscriber::fmt::format;

/// The daemon of a Muster node: answers signed requests.
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "\
Examples:
  rpcd                                   run with /etc/muster/rpcd.toml
  rpcd --config ./rpcd.toml --check      show the merged configuration and where each value comes from
  rpcd restart                           have the running daemon start anew, and lose no answer
  rpcd restart-when-idle puppet          restart a service when the run that goes on has ended

Signals: HUP reloads policies, facts, classes and external agents and reopens the audit log; USR2 lets running actions answer, then starts
the program anew; TERM and INT let running actions answer, then stop.
Exit codes: 0 stopped by a signal, 1 could not start, 2 wrong arguments."
)]
struct Arguments {
    /// The configuration file
    #[arg(long, value_name = "FILE", default_value = DEFAULT_PATH)]
    config: PathBuf,
    /// Show the merged configuration with each value's origin, and stop
    #[arg(long)]
    check: bool,
    #[command(subcommand)]
    mode: Option<Mode>,
}

/// What the program is when it is not the daemon.
#[derive(Debug, Subcommand)]
enum Mode {
    /// Apply a catalog to this machine, as Puppet would, and lose no notification
    Apply(apply::Apply),
    /// Have the running daemon answer what it has taken, and start anew
    Restart(restart::Restart),
    /// Restart a service when no run is in progress, and do not wait for it; for manifests
    RestartWhenIdle(restart::WhenIdle),
    /// Run many nodes of a trial fleet in this process; their machines are in memory, and nothing on this one is changed
    Virtual(virtual_nodes::Virtual),
    /// Fulfil the restarts that were asked for of one service; started by those who ask
    #[command(hide = true)]
    RestartWorker(restart::WorkerArguments),
    /// Take on the limits of a plan, and become the program that it names; the daemon starts external agents so
    #[command(hide = true)]
    ExecSandboxed {
        /// The plan, as JSON
        plan: String,
    },
}

/// The exit code of a helper that did not become its program, as shells have it.
const NOT_STARTED: u8 = 126;
/// The exit code of a machine that was refused as a node for good.
const REFUSED: u8 = 3;

/// How long work that nobody waits for may still take at the end.
const LEFT_BEHIND: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match &arguments.mode {
        Some(Mode::ExecSandboxed { plan }) => return become_program(plan),
        Some(Mode::Apply(arguments)) => apply::apply(arguments),
        Some(Mode::Restart(asked)) => restart::restart(asked, &arguments.config),
        Some(Mode::RestartWhenIdle(asked)) => restart::when_idle(asked, &arguments.config),
        Some(Mode::RestartWorker(asked)) => restart::work(asked),
        Some(Mode::Virtual(wanted)) => crowd(wanted, &arguments.config),
        None => run(&arguments).map(|()| ExitCode::SUCCESS),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            report(&format!("rpcd: {}", printable(&format!("{error:#}"))));
            exit_code(&error)
        }
    }
}

/// To be started again does not help a machine that may not become a node: the service manager can tell it by its code.
fn exit_code(error: &anyhow::Error) -> ExitCode {
    match error.downcast_ref() {
        Some(LifeError::Newcomer(NewcomerError::Refused { .. })) => ExitCode::from(REFUSED),
        _ => ExitCode::FAILURE,
    }
}

/// One thread, nothing open, nothing read: what follows is the program's.
fn become_program(plan: &str) -> ExitCode {
    let Err(error) = Plan::from_argument(plan).and_then(|plan| plan.enter());
    report(&format!("rpcd: {:#}", anyhow::Error::from(error)));
    ExitCode::from(NOT_STARTED)
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
        return check(&config);
    }
    // Asked now: an upgrade puts another file in its place.
    let program = std::env::current_exe().context("cannot find the daemon's own program")?;
    start_log(&config);
    for warning in config.warnings() {
        tracing::warn!("{warning}");
    }
    memory::share_one_heap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(64)
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let ending = runtime.block_on(lifecycle::live(&config, &arguments.config))?;
    runtime.shutdown_timeout(LEFT_BEHIND);
    match ending {
        Ending::Stopped => Ok(()),
        Ending::Again => {
            let Err(error) = leave::become_program(&program, std::env::args_os());
            Err(error).context("cannot start anew")
        }
    }
}

/// Many nodes instead of one.
fn crowd(wanted: &virtual_nodes::Virtual, config_file: &Path) -> anyhow::Result<ExitCode> {
    let config = Config::load(config_file)?;
    start_log(&config);
    virtual_nodes::run(wanted, &config)
}

/// Prints the configuration, and proves that a daemon can be built of it; one that is running is not disturbed.
#[expect(clippy::print_stdout, reason = "the report is this command's output")]
fn check(config: &Config) -> anyhow::Result<()> {
    print!("{}", config.check_report());
    assemble::inspect(config)?;
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
        LogFormat::Text => log
            .with_ansi(false)
            .event_format(LimitedFormat::new(
                format().with_ansi(false),
                LogFormat::Text,
            ))
            .init(),
        LogFormat::Json => log
            .json()
            .event_format(LimitedFormat::new(
                format().json().with_span_list(false),
                LogFormat::Json,
            ))
            .init(),
    }
}
