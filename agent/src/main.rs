//! The program `rpcd`: parses arguments and configuration, starts the log, and runs the daemon.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::{CommandFactory as _, Parser, Subcommand};
use clap_mangen::Man;
use muster_agent::commands::virtual_nodes::command as virtual_nodes;
use muster_agent::commands::{again, apply, guard, motd, restart, ssh_principals};
use muster_agent::daemon::lifecycle::LifecycleError;
use muster_agent::daemon::{check, lifecycle, upgrade};
use muster_agent::process::log_limit::LimitedFormat;
use muster_agent::process::terminal::escape_text;
use muster_agent::process::{journal, memory};
use muster_host::sandbox::SandboxPlan;
use muster_node::config::{Config, DEFAULT_PATH, LogFormat};
use muster_node::ground::signals::ShutdownKind;
use muster_node::trust::enrolment::{self, NodeEnrolmentError};
use tracing_subscriber::fmt::format;

/// The daemon of a Muster node: answers signed requests.
#[derive(Debug, Parser)]
#[command(
    name = "rpcd",
    version,
    max_term_width = 80,
    after_help = "\
Examples:
  rpcd                               run with /etc/muster/rpcd.toml
  rpcd --config ./rpcd.toml --check  show the configuration and its origins
  rpcd restart                       restart rpcd without losing a reply
  rpcd restart-when-idle puppet      restart a service when no run is active

Signals: HUP reloads policies, facts, classes and external agents, and reopens
the audit log; USR2 waits for running actions, then restarts the program; TERM
and INT wait for running actions, then stop.
Exit codes: 0 stopped by a signal, 1 could not start, 2 wrong arguments,
3 enrolment refused permanently."
)]
struct DaemonArgs {
    /// The configuration file
    #[arg(long, value_name = "FILE", default_value = DEFAULT_PATH)]
    config: PathBuf,
    /// Show the merged configuration with the origin of each value, read everything that the daemon reads, and exit with 1 if it would not start, or deny
    #[arg(long)]
    check: bool,
    /// With --check, print what is wrong only
    #[arg(long, short, requires = "check")]
    quiet: bool,
    #[command(subcommand)]
    mode: Option<DaemonCommand>,
}

/// What the program is when it is not the daemon.
#[derive(Debug, Subcommand)]
enum DaemonCommand {
    /// Ask for another run of Puppet after the current one, without waiting for it; for manifests
    Again(again::AgainArgs),
    /// Apply a catalog to this machine as Puppet does, without losing notifications
    Apply(apply::ApplyArgs),
    /// Restart the running daemon after its running actions have ended
    Restart(restart::DaemonRestartArgs),
    /// Request the restart of a service when no run is in progress, without waiting for it; for manifests
    RestartWhenIdle(restart::RestartWhenIdleArgs),
    /// Write the message of the day and the file of the prompt, or print a text; for manifests
    Motd(motd::MotdArgs),
    /// Ask the running daemon whether the holder of an SSH certificate may log in; for sshd
    SshPrincipals(ssh_principals::SshPrincipalsArgs),
    /// Run many nodes of a test fleet in this process; their machines are simulated in memory, and this machine is not changed
    Virtual(virtual_nodes::VirtualNodesArgs),
    /// Write the manual pages; for packages
    #[command(hide = true)]
    Man {
        /// Directory for the pages
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },
    /// End a daemon whose upgrade is not confirmed and that hangs; started by the daemon
    #[command(hide = true)]
    GuardUpgrade(guard::GuardArgs),
    /// Perform the requested restarts of one service; started by the requesting process
    #[command(hide = true)]
    RestartWorker(restart::RestartWorkerArgs),
    /// Change packages in a process that outlives the daemon; started by the daemon
    #[command(hide = true)]
    PackageWorker {
        /// Directory with the change
        directory: PathBuf,
    },
    /// Render fragments of the message of the day with limits of memory and time; started by the daemon
    #[command(hide = true)]
    RenderFragments,
    /// Apply the limits of a plan and execute its program; the daemon starts external agents this way
    #[command(hide = true)]
    ExecSandboxed {
        /// The plan, as JSON
        plan: String,
    },
}

/// Exit code of a helper that could not execute its program; the shell convention.
const EXIT_NOT_STARTED: u8 = 126;
/// Exit code of a machine whose enrolment was refused permanently.
const EXIT_REFUSED: u8 = 3;

/// How long abandoned work may continue at shutdown.
const RUNTIME_SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    let arguments = DaemonArgs::parse();
    let result = match &arguments.mode {
        Some(DaemonCommand::ExecSandboxed { plan }) => return become_program(plan),
        Some(DaemonCommand::Again(args)) => again::ask_for_run(args, &arguments.config),
        Some(DaemonCommand::Apply(arguments)) => apply::apply_catalog(arguments),
        Some(DaemonCommand::Motd(args)) => motd::write_motd(args, &arguments.config),
        Some(DaemonCommand::SshPrincipals(args)) => ssh_principals::ask_daemon(args),
        Some(DaemonCommand::Restart(args)) => restart::restart_daemon(args, &arguments.config),
        Some(DaemonCommand::RestartWhenIdle(args)) => {
            restart::restart_when_idle(args, &arguments.config)
        }
        Some(DaemonCommand::GuardUpgrade(args)) => guard::guard_trial(args, &arguments.config),
        Some(DaemonCommand::RestartWorker(args)) => restart::run_worker(args),
        Some(DaemonCommand::PackageWorker { directory }) => {
            let changed = muster_agents::package::worker::run_worker(directory);
            changed.map(|()| ExitCode::SUCCESS).map_err(anyhow::Error::from)
        }
        Some(DaemonCommand::RenderFragments) => {
            let rendered =
                muster_agents::motd::worker::run_worker(std::io::stdin(), std::io::stdout());
            rendered.map(|()| ExitCode::SUCCESS).map_err(anyhow::Error::from)
        }
        Some(DaemonCommand::Man { directory }) => write_man_pages(directory),
        Some(DaemonCommand::Virtual(args)) => start_virtual_nodes(args, &arguments.config),
        None => run_daemon(&arguments).map(|()| ExitCode::SUCCESS),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            print_error(&format!("rpcd: {}", escape_text(&format!("{error:#}"))));
            exit_code(&error)
        }
    }
}

/// A permanently refused enrolment has its own code, so that the service manager does not restart the daemon.
fn exit_code(error: &anyhow::Error) -> ExitCode {
    match error.downcast_ref() {
        Some(LifecycleError::NodeEnrolment(NodeEnrolmentError::Refused { .. })) => {
            ExitCode::from(EXIT_REFUSED)
        }
        _ => ExitCode::FAILURE,
    }
}

/// Applies the plan and executes the program. Runs single-threaded, before any file is opened.
fn become_program(plan: &str) -> ExitCode {
    let Err(error) = SandboxPlan::from_argument(plan).and_then(|plan| plan.apply_and_exec());
    print_error(&format!("rpcd: {:#}", anyhow::Error::from(error)));
    ExitCode::from(EXIT_NOT_STARTED)
}

#[expect(clippy::print_stderr, reason = "the only output before or without the log")]
fn print_error(line: &str) {
    let is_journal = journal::is_stderr_connected();
    let priority = if is_journal { journal::priority_prefix(tracing::Level::ERROR) } else { "" };
    eprintln!("{priority}{line}");
}

fn run_daemon(arguments: &DaemonArgs) -> anyhow::Result<()> {
    if arguments.check {
        return check_config(&Config::load(&arguments.config)?, arguments);
    }
    // Before anything is read that this program may not understand. An upgrade replaces the file, so its path is resolved at the start.
    let programs = upgrade::find_programs(&arguments.config)
        .context("cannot find the path of the rpcd program")?;
    let start = |programs| upgrade::start_selected(programs, &arguments.config);
    let problems = programs.as_ref().map(start).unwrap_or_default();
    let config = Config::load(&arguments.config)?;
    start_log(&config);
    for problem in problems {
        tracing::error!(problem, "cannot run the program of the last upgrade");
    }
    for warning in config.warnings() {
        tracing::warn!("{warning}");
    }
    // An instance of the directory decodes records on all processors; one heap would let them wait for each other.
    if !config.enables_plugin("directory") {
        memory::share_one_heap();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(64)
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let shutdown = runtime.block_on(lifecycle::run_until_signal(&config, &arguments.config))?;
    runtime.shutdown_timeout(RUNTIME_SHUTDOWN_TIMEOUT);
    match shutdown {
        ShutdownKind::Stopped => Ok(()),
        ShutdownKind::Restart => {
            let programs = programs.context("there is no state directory")?;
            let problem = upgrade::restart(&programs, &arguments.config);
            anyhow::bail!("cannot restart the program: {problem}")
        }
    }
}

/// Writes the manual pages of the daemon and its commands, section 8.
fn write_man_pages(directory: &Path) -> anyhow::Result<ExitCode> {
    let failed = || format!("cannot write manual pages to {}", directory.display());
    std::fs::create_dir_all(directory).with_context(failed)?;
    let mut daemon = DaemonArgs::command().disable_help_subcommand(true);
    daemon.build();
    let commands = daemon.get_subcommands().filter(|command| !command.is_hide_set());
    for command in commands.cloned().chain([daemon.clone()]) {
        Man::new(command).section("8").generate_to(directory).with_context(failed)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn start_virtual_nodes(
    args: &virtual_nodes::VirtualNodesArgs,
    config_file: &Path,
) -> anyhow::Result<ExitCode> {
    let config = Config::load(config_file)?;
    start_log(&config);
    virtual_nodes::run_virtual_nodes(args, &config)
}

/// Prints the configuration and what is wrong with it, and with what the daemon reads.
#[expect(clippy::print_stdout, reason = "the report is this command's output")]
fn check_config(config: &Config, arguments: &DaemonArgs) -> anyhow::Result<()> {
    if !arguments.quiet {
        // What cannot be read is reported by the check.
        let effective = enrolment::effective_config(config);
        print!("{}", effective.as_ref().unwrap_or(config).check_report());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let report = runtime.block_on(check::check_config(config, &arguments.config))?;
    for warning in &report.warnings {
        print_error(&format!("warning: {warning}"));
    }
    for error in &report.errors {
        print_error(&format!("error: {error}"));
    }
    anyhow::ensure!(
        report.errors.is_empty(),
        "policies have errors: a daemon that starts denies what depends on them, and a reload keeps those that were read before"
    );
    Ok(())
}

fn start_log(config: &Config) {
    let level = format!("{},async_nats=error", config.log.level);
    let filter = tracing_subscriber::EnvFilter::try_new(level)
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info,async_nats=error"));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let (text, json) = (format().with_ansi(false), format().json().with_span_list(false));
    // The journal has a time and a priority for each line.
    match (config.log.format, journal::is_stderr_connected()) {
        (LogFormat::Text, false) => {
            log.with_ansi(false).event_format(LimitedFormat::new(text, LogFormat::Text)).init();
        }
        (LogFormat::Text, true) => {
            let lines = LimitedFormat::new(text.without_time(), LogFormat::Text);
            log.with_ansi(false).event_format(lines.with_priorities()).init();
        }
        (LogFormat::Json, false) => {
            log.json().event_format(LimitedFormat::new(json, LogFormat::Json)).init();
        }
        (LogFormat::Json, true) => {
            let lines = LimitedFormat::new(json.without_time(), LogFormat::Json);
            log.json().event_format(lines.with_priorities()).init();
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::DaemonArgs;

    #[test]
    fn command_line_is_valid_and_no_line_of_its_help_is_wrapped() {
        DaemonArgs::command().debug_assert();
        let mut commands = vec![DaemonArgs::command()];
        while let Some(command) = commands.pop() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let wrapped = help.lines().find(|line| line.chars().count() > 80);
            assert_eq!(wrapped, None, "`{}`", command.get_name());
            commands.extend(command.get_subcommands().cloned());
        }
    }
}
