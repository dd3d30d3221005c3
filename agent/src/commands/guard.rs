//! `rpcd guard-upgrade`: ends a daemon whose program is still on trial after the time for its confirmation, so that the service manager starts the
//! earlier one. A program that works ends its trial by itself; this is for one that hangs.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use muster_base::unix_millis_now;
use muster_system::process::{ProcessId, pause};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::daemon::upgrade::find_programs;

const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Time for the program to end its trial by itself.
const MERCY_MILLIS: u64 = 15_000;

/// What `rpcd guard-upgrade` takes.
#[derive(Debug, Args)]
pub struct GuardArgs {
    /// The process of the daemon
    #[arg(value_name = "PID")]
    pid: u32,
}

/// Waits until the trial or the daemon ends, or ends the daemon.
pub fn guard_trial(args: &GuardArgs, config_file: &Path) -> anyhow::Result<ExitCode> {
    let programs = find_programs(config_file)?.context("there is no state directory")?;
    let daemon = ProcessId::from_pid(args.pid).context("the daemon does not run")?;
    while ProcessId::from_pid(args.pid) == Some(daemon) && programs.has_trial()? {
        if programs.is_trial_over(unix_millis_now().saturating_sub(MERCY_MILLIS))? {
            kill(Pid::from_raw(args.pid.cast_signed()), Signal::SIGKILL)
                .with_context(|| format!("cannot end the daemon, process {}", args.pid))?;
            break;
        }
        pause(POLL_INTERVAL);
    }
    Ok(ExitCode::SUCCESS)
}
