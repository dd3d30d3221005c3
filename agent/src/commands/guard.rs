//! `rpcd guard-upgrade`: ends a daemon whose program is still on trial after the time for its confirmation, so that the service manager starts the
//! earlier one, and starts the service if the program has ended in a way after which the service manager does not. A program that works ends its trial
//! by itself.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::Args;
use muster_base::unix_millis_now;
use muster_system::process::{ProcessId, pause, wait_until};
use muster_system::real::RealSystem;
use muster_system::{Command, System as _};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::daemon::upgrade::{UNIT, find_programs};

const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Time for the program to end its trial by itself.
const SELF_RETURN_TIMEOUT: Duration = Duration::from_secs(15);
/// Time for the service manager to start the installed program: three times the pause in its unit.
const RESTART_TIMEOUT: Duration = Duration::from_secs(15);

/// What `rpcd guard-upgrade` takes.
#[derive(Debug, Args)]
pub struct GuardArgs {
    /// The process of the daemon
    #[arg(value_name = "PID")]
    pid: u32,
    /// Start the service if nothing else does
    #[arg(long)]
    service: bool,
}

/// Waits until the trial or the daemon ends, or ends the daemon.
pub fn guard_trial(args: &GuardArgs, config_file: &Path) -> anyhow::Result<ExitCode> {
    let programs = find_programs(config_file)?.context("there is no state directory")?;
    let Some(until) = programs.trial_until()? else { return Ok(ExitCode::SUCCESS) };
    // The clock may be set meanwhile.
    let left = Duration::from_millis(until.saturating_sub(unix_millis_now()));
    let deadline = Instant::now() + left + SELF_RETURN_TIMEOUT;
    let has_trial = || programs.trial_until().is_ok_and(|until| until.is_some());
    let daemon = ProcessId::from_pid(args.pid);
    while daemon.is_some() && ProcessId::from_pid(args.pid) == daemon && has_trial() {
        if Instant::now() > deadline {
            kill(Pid::from_raw(args.pid.cast_signed()), Signal::SIGKILL)
                .with_context(|| format!("cannot end the daemon, process {}", args.pid))?;
            break;
        }
        pause(POLL_INTERVAL);
    }
    // The service manager restarts it after some seconds, unless it ended without an error.
    let has_returned = wait_until(RESTART_TIMEOUT, || !has_trial());
    if args.service && !has_returned {
        let start = Command::new(["systemctl", "start", UNIT].map(str::to_owned));
        RealSystem::new("/".into()).run_command(&start).context("cannot start the service")?;
    }
    Ok(ExitCode::SUCCESS)
}
