//! `rpcd restart-when-idle`, for manifests and operators on the node; `rpcd restart`, for the daemon itself; and the restart worker.
//!
//! None of them needs a daemon, a broker or a caller. `plugins/restart` implements them.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use clap::Args;
use muster_agents::restart::{
    DaemonInstance, RestartManager, RestartOptions, RestartStore, RestartTarget, worker,
};
use muster_base::format_duration;
use muster_node::config::Config;
use muster_node::trust::policy;
use muster_system::process::pause;
use muster_system::real::RealSystem;
use muster_system::{Signal, System};

use crate::commands::local_command::{load_config, print_line, state_directory};
use crate::daemon::check;
use crate::services::agents;

/// Poll interval while waiting for the restarted daemon.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// What `rpcd restart-when-idle` takes.
#[derive(Debug, Args)]
#[command(
    override_usage = "rpcd restart-when-idle [OPTIONS] UNIT\n       rpcd restart-when-idle [OPTIONS] -- COMMAND [ARGUMENT]...",
    after_help = "\
Examples:
  rpcd restart-when-idle puppet
                   in an exec resource of the run that changed puppet.conf
  rpcd restart-when-idle puppet --deadline 600 --force
                   after ten minutes, restart even during a run
  rpcd restart-when-idle --pidfile /run/x.pid -- /usr/local/bin/restart-x --fast

The command returns as soon as the request is on disk. For the outcome, run
`rpc restart status unit=puppet`.
Exit codes: 0 requested, 1 the request failed, 2 wrong arguments."
)]
pub struct RestartWhenIdleArgs {
    /// The name of the service
    #[arg(required_unless_present = "command", conflicts_with = "command")]
    unit: Option<String>,
    /// A command that performs the restart, with its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
    /// How long to wait for runs to end; after that the restart ends with the outcome `timeout`
    #[arg(long, value_name = "SECONDS", default_value_t = 7200)]
    deadline: u64,
    /// Restart even if a run is still in progress at the deadline
    #[arg(long)]
    force: bool,
    /// Report a failure if rpcd is not connected and ready within this time after the restart
    #[arg(long, value_name = "SECONDS")]
    verify_bus: Option<u64>,
    /// The PID file of the service if it is not in a usual place; for a command, the PID file to check
    #[arg(long, value_name = "FILE")]
    pidfile: Option<PathBuf>,
    /// Restart the service on the system whose root directory is DIR
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// The state directory of the daemon; default: the one in its configuration
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Puppet's state directory, which contains its locks; default: the directories of Puppet's packages
    #[arg(long, value_name = "DIR")]
    puppet_state: Vec<PathBuf>,
}

/// What `rpcd restart` takes.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rpcd restart              after a change of rpcd.toml, or an upgrade
  rpcd restart --wait 300   for long-running actions; see drain.seconds

Exit codes: 0 the daemon is ready again, 1 no daemon is running, or it is not
ready in time.")]
pub struct DaemonRestartArgs {
    /// How long to wait until the daemon is ready again; 0: do not wait
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    wait: u64,
    /// The state directory of the daemon; default: the one in its configuration
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
}

/// What the worker's mode takes.
#[derive(Debug, Args)]
pub struct RestartWorkerArgs {
    /// Directory of the requests
    #[arg(long, value_name = "DIR")]
    directory: PathBuf,
    /// The key of the request
    key: String,
}

pub fn restart_when_idle(
    args: &RestartWhenIdleArgs,
    config_file: &Path,
) -> anyhow::Result<ExitCode> {
    let target = match &args.unit {
        Some(name) => RestartTarget::parse_unit(name)?,
        None => RestartTarget::from_command(args.command.clone())?,
    };
    let options = RestartOptions {
        when_idle: true,
        deadline: Duration::from_secs(args.deadline),
        force: args.force,
        verify_bus: args.verify_bus.map(Duration::from_secs),
        pid_file: args.pidfile.clone(),
    };
    let accepted = open_restarts(args, config_file)?.request_restart(&target, &options)?;
    let status = if accepted.merged { "is already requested" } else { "is requested" };
    print_line(&format!(
        "the restart of {target} {status}; it starts when no run is in progress ({})",
        accepted.id
    ));
    Ok(ExitCode::SUCCESS)
}

/// The daemon's restart manager, unless the arguments name other paths.
fn open_restarts(args: &RestartWhenIdleArgs, config_file: &Path) -> anyhow::Result<RestartManager> {
    let config = load_config(config_file);
    let has_overrides =
        args.root.is_some() || args.state_dir.is_some() || !args.puppet_state.is_empty();
    if let Some(config) = config.as_ref().filter(|_| !has_overrides) {
        return Ok(agents::open_restarts(config)?);
    }
    let root = args.root.clone();
    let root = root.or_else(|| Some(config.as_ref()?.paths.root.clone()));
    let state = state_directory(args.state_dir.as_ref(), config.as_ref());
    let (root, engine) = (root.unwrap_or_else(|| "/".into()), state.join("engine"));
    let puppet = (!args.puppet_state.is_empty()).then(|| args.puppet_state.clone());
    Ok(agents::build_restart_manager(root, &state, engine, puppet)?)
}

/// Runs the requested restarts, in a separate process.
pub fn run_worker(args: &RestartWorkerArgs) -> anyhow::Result<ExitCode> {
    worker::run_worker(&args.directory, &args.key)?;
    Ok(ExitCode::SUCCESS)
}

/// Signals the daemon to restart, and waits until it is ready.
pub fn restart_daemon(args: &DaemonRestartArgs, config_file: &Path) -> anyhow::Result<ExitCode> {
    let config = load_config(config_file);
    let state = state_directory(args.state_dir.as_ref(), config.as_ref());
    let store = RestartStore::new(state.join("restart"));
    let Some(previous) = DaemonInstance::read_from(&store)? else {
        bail!(
            "no rpcd is running with the state directory {}; start rpcd, or set the directory with --state-dir",
            state.display()
        );
    };
    // This program is the one that the daemon becomes. The daemon checks it too, but can only log what is wrong.
    if config_file.exists() {
        let config = Config::load(config_file)?;
        check::check_setup(&config)
            .context("rpcd would not start again, so it is not restarted")?;
        let (_, problems) = policy::load_configured_policies(&config);
        if let Some(problem) = problems.first() {
            bail!("rpcd would deny requests after a restart, so it is not restarted: {problem}");
        }
    }
    let start = Instant::now();
    let host = RealSystem::new("/".into());
    if !host.signal_process(&previous.process, Signal::SIGUSR2, false)? {
        bail!("rpcd exited before it could be signalled to restart");
    }
    let pid = previous.process.pid;
    if args.wait == 0 {
        print_line(&format!("rpcd was signalled to restart (process {pid})"));
        return Ok(ExitCode::SUCCESS);
    }
    let mut status = "it still waits for running actions";
    while start.elapsed() < Duration::from_secs(args.wait) {
        let Some(current) = DaemonInstance::read_from(&store)? else {
            bail!("rpcd exited (process {pid}); see its log");
        };
        if current.instance != previous.instance {
            if current.ready {
                let took = format_duration(start.elapsed());
                print_line(&format!("rpcd restarted and is ready after {took} (process {pid})"));
                return Ok(ExitCode::SUCCESS);
            }
            status = "it restarted, but is not connected to the broker yet";
        }
        pause(POLL_INTERVAL);
    }
    bail!("rpcd is not ready again after {} s: {status}", args.wait)
}
