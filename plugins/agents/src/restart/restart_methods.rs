//! Restart methods: systemd, an init script, or a command. The daemon itself is restarted by a signal.
//!
//! The output of a script or command goes to files and not to a pipe: a service that inherits the pipe would get SIGPIPE after the worker
//! has exited.

use std::fs;
use std::path::Path;
use std::time::Duration;

use muster_api::base::error_chain;
use muster_api::system::process::{OUTPUT_DRAIN_TIMEOUT, wait_until};
use muster_api::system::{Command, ProcessSpool, Signal, StateDir, System, SystemError};
use muster_engine::EngineError;

use crate::restart::instance::DaemonInstance;
use crate::restart::target::RestartTarget;
use crate::restart::target_status::{has_systemd, systemd_unit};

/// Timeout of a restart.
const RESTART_TIMEOUT: Duration = Duration::from_mins(5);
/// Time between SIGTERM and SIGKILL after the timeout.
const TERM_GRACE: Duration = Duration::from_secs(5);
/// Most bytes of output that are kept.
const MAX_SPOOL_BYTES: u64 = 64 * 1024;
/// Longest part of an output line in a message, in characters.
const MAX_MESSAGE_CHARS: usize = 500;

/// Why a target was not restarted, or does not run after its restart. The message is stored in the record and shown to people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct RestartFailure(String);

impl RestartFailure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// The machine has no such service. The same message as that of the agent `service`.
    pub(crate) fn unknown_service(path: &str) -> Self {
        Self(format!("there is no such service: looked for {path}"))
    }
}

impl From<SystemError> for RestartFailure {
    fn from(error: SystemError) -> Self {
        Self(error_chain(&error))
    }
}

impl From<EngineError> for RestartFailure {
    fn from(error: EngineError) -> Self {
        Self(error.one_line_message())
    }
}

/// Restarts the target. `directory` receives the output.
pub(crate) fn restart_target(
    system: &dyn System,
    target: &RestartTarget,
    instance: Option<&DaemonInstance>,
    directory: &Path,
) -> Result<(), RestartFailure> {
    if let Some(instance) = instance.filter(|_| target.is_daemon()) {
        return signal_daemon(system, instance);
    }
    match target {
        RestartTarget::Unit(name) if has_systemd(system) => restart_with_systemd(system, name),
        RestartTarget::Unit(name) => {
            let script = format!("/etc/init.d/{name}");
            run_spooled(system, vec![script, "restart".to_owned()], directory)
        }
        RestartTarget::Command(argv) => run_spooled(system, argv.clone(), directory),
    }
}

fn signal_daemon(system: &dyn System, instance: &DaemonInstance) -> Result<(), RestartFailure> {
    match system.signal_process(&instance.process, Signal::SIGUSR2, false) {
        Ok(true) => Ok(()),
        Ok(false) => {
            Err(RestartFailure::new("the daemon exited before it could be signalled to restart"))
        }
        Err(error) => Err(error.into()),
    }
}

fn restart_with_systemd(system: &dyn System, name: &str) -> Result<(), RestartFailure> {
    let argv = ["systemctl", "restart", "--", &systemd_unit(name)];
    let mut command = Command::new(argv);
    command.timeout = Some(RESTART_TIMEOUT);
    let output = system.run_command(&command)?;
    if output.is_success() {
        return Ok(());
    }
    let text = output.combined_text();
    Err(exit_failure(&argv.join(" "), output.code, &text))
}

/// Runs a program whose child processes may outlive it.
fn run_spooled(
    system: &dyn System,
    argv: Vec<String>,
    directory: &Path,
) -> Result<(), RestartFailure> {
    let command_line = argv.join(" ");
    StateDir::recreate(directory)?;
    let spool = ProcessSpool { directory: directory.to_owned(), limit: MAX_SPOOL_BYTES };
    let process = system.start_detached(&Command::new(argv), &spool)?;
    let exit_code = || -> Option<i32> {
        let text = fs::read_to_string(directory.join(ProcessSpool::EXIT)).ok()?;
        text.trim().parse().ok()
    };
    let is_running = || system.is_running(&process);
    wait_until(RESTART_TIMEOUT, || exit_code().is_some() || !is_running());
    let Some(code) = exit_code() else {
        if !is_running() {
            return Err(RestartFailure::new(format!("`{command_line}` was killed")));
        }
        stop_process(system, &process);
        return Err(RestartFailure::new(format!(
            "`{command_line}` did not end within {} s and was stopped",
            RESTART_TIMEOUT.as_secs()
        )));
    };
    if code == 0 {
        return Ok(());
    }
    wait_until(OUTPUT_DRAIN_TIMEOUT, || !is_running());
    let read = |name: &str| fs::read(directory.join(name)).unwrap_or_default();
    let output = [read(ProcessSpool::STDOUT), read(ProcessSpool::STDERR)].concat();
    Err(exit_failure(&command_line, code, &String::from_utf8_lossy(&output)))
}

fn stop_process(system: &dyn System, process: &muster_api::system::ProcessId) {
    // A failed SIGTERM needs no handling, because SIGKILL follows.
    let _ = system.signal_process(process, Signal::SIGTERM, true);
    wait_until(TERM_GRACE, || !system.is_running(process));
    let _ = system.signal_process(process, Signal::SIGKILL, true);
}

fn exit_failure(command_line: &str, code: i32, output: &str) -> RestartFailure {
    let last = output.lines().rev().find(|line| !line.trim().is_empty());
    let last: String = last.unwrap_or_default().trim().chars().take(MAX_MESSAGE_CHARS).collect();
    let colon = if last.is_empty() { "" } else { ": " };
    RestartFailure::new(format!("`{command_line}` ended with code {code}{colon}{last}"))
}
