//! Runs a program that is not ended with the caller: its output goes to a file without a name, because a pipe would break when this process ends.
//!
//! A service manager may still end it with the control group of this process; the unit of `rpcd` has `KillMode=process` for this reason.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus, Stdio};
use std::thread;
use std::time::Instant;

use nix::sys::signal::Signal;

use super::process::{CANCEL_POLL_INTERVAL, PreparedProcess, ProcessGroup};
use crate::process::{OUTPUT_DRAIN_TIMEOUT, pause};
use crate::{Command, CommandOutput, SystemError, SystemResult};

/// Runs the process until it ends, its timeout passes, or the command is cancelled. The timeout kills it, a cancellation does not.
pub(super) fn run_uninterrupted(
    prepared: &PreparedProcess,
    command: &Command,
) -> SystemResult<CommandOutput> {
    let program = command.program_name().to_owned();
    if command.cancel.is_cancelled() {
        return Err(SystemError::Cancelled { program });
    }
    let start_error = command.start_error();
    let mut output = tempfile::tempfile().map_err(&start_error)?;
    let mut child = spawn_process(prepared, &output, command).map_err(&start_error)?;
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().map_err(&start_error)? {
            break status;
        }
        if command.cancel.is_cancelled() {
            let pid = child.id();
            reap_later(child);
            return Err(SystemError::LeftRunning { program, pid });
        }
        if let Some(after) = command.timeout.filter(|timeout| started.elapsed() >= *timeout) {
            kill_group(&mut child);
            return Err(SystemError::Timeout { program, after });
        }
        pause(CANCEL_POLL_INTERVAL);
    };
    collect_output(&mut output, status, command.output_limit).map_err(&start_error)
}

fn spawn_process(
    prepared: &PreparedProcess,
    output: &File,
    command: &Command,
) -> io::Result<Child> {
    let (stdout, stderr) = (output.try_clone()?, output.try_clone()?);
    prepared.spawn(open_input(&command.stdin)?, stdout.into(), stderr.into())
}

/// A file too, so that the program can read it all after this process has ended.
fn open_input(input: &[u8]) -> io::Result<Stdio> {
    if input.is_empty() {
        return Ok(Stdio::null());
    }
    let mut file = tempfile::tempfile()?;
    file.write_all(input)?;
    file.rewind()?;
    Ok(file.into())
}

/// Waits for the program in the background, so that it does not stay as a zombie while this process lives.
fn reap_later(mut child: Child) {
    // Without the thread, a zombie remains until this process ends.
    let _ = thread::Builder::new().name("run-reap".to_owned()).spawn(move || drop(child.wait()));
}

fn kill_group(child: &mut Child) {
    let Ok(group) = ProcessGroup::from_child(child) else { return };
    group.signal(Signal::SIGTERM);
    let deadline = Instant::now() + OUTPUT_DRAIN_TIMEOUT;
    while Instant::now() < deadline && !matches!(child.try_wait(), Ok(Some(_))) {
        pause(CANCEL_POLL_INTERVAL);
    }
    group.signal(Signal::SIGKILL);
    let _ = child.wait();
}

fn collect_output(
    output: &mut File,
    status: ExitStatus,
    limit: usize,
) -> io::Result<CommandOutput> {
    output.rewind()?;
    let length = output.metadata()?.len();
    let mut bytes = Vec::new();
    output.take(limit as u64).read_to_end(&mut bytes)?;
    let signalled = status.signal().map(|signal| 128 + signal);
    let code = status.code().or(signalled).unwrap_or(-1);
    Ok(CommandOutput { truncated: length > limit as u64, ..CommandOutput::new(code, bytes) })
}
