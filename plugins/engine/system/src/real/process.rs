//! Runs a process group until exit, timeout or cancellation, and collects its output.
//!
//! Threads wait (one for the exit, one per stream) and report through a channel. The leader is reaped last,
//! so that its pid cannot be reused while the group is being killed. Does not decide what to run.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
#[expect(clippy::disallowed_types, reason = "this module starts processes")]
use std::process::Command as Process;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use muster_base::round_limit;
use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;

use crate::command::OutputStream;
use crate::process::OUTPUT_DRAIN_TIMEOUT;
use crate::{Command, CommandOutput, SystemError, SystemResult};

/// Time between TERM and KILL.
const KILL_GRACE_PERIOD: Duration = Duration::from_secs(2);
/// Maximum total wait for remaining output, if a descendant keeps writing.
const MAX_DRAIN_TIME: Duration = Duration::from_secs(5);
pub(super) const CANCEL_POLL_INTERVAL: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(super) struct PreparedProcess {
    /// Program as a host path, and its arguments.
    pub(super) argv: Vec<String>,
    /// The complete environment.
    pub(super) env: BTreeMap<String, String>,
    /// Working directory on the host.
    pub(super) cwd: PathBuf,
    /// Uid and gid to switch to, without supplementary groups.
    pub(super) ids: Option<(u32, u32)>,
}

enum ProcessEvent {
    Stdout(Vec<u8>),
    Stderr(Vec<u8>),
    StreamEnded,
    LeaderEnded,
}

#[derive(Clone, Copy)]
enum TerminationReason {
    Timeout(Duration),
    Cancelled,
}

/// `command` is the original command: input, limits, name in errors.
pub(super) fn run_process(
    prepared: &PreparedProcess,
    command: &Command,
) -> SystemResult<CommandOutput> {
    if command.cancel.is_cancelled() {
        return Err(SystemError::Cancelled { program: command.program_name().to_owned() });
    }
    let stdin = if command.stdin.is_empty() { Stdio::null() } else { Stdio::piped() };
    let child = prepared.spawn(stdin, Stdio::piped(), Stdio::piped());
    let mut child = child.map_err(command.start_error())?;
    let group = ProcessGroup::from_child(&child).map_err(command.start_error())?;
    let events = watch_process(&mut child, command.stdin.clone());
    let mut output = OutputCollector::new(command.output_limit);
    let termination = match events {
        Ok(events) => supervise_group(&group, command, &events, &mut output),
        Err(error) => {
            group.signal(Signal::SIGKILL);
            let _ = child.wait();
            return Err(command.start_error()(error));
        }
    };
    let status = child.wait().map_err(command.start_error())?;
    let program = command.program_name().to_owned();
    match termination {
        Some(TerminationReason::Timeout(after)) => Err(SystemError::Timeout { program, after }),
        Some(TerminationReason::Cancelled) => Err(SystemError::Cancelled { program }),
        None => Ok(output.into_output(status)),
    }
}

impl PreparedProcess {
    /// Starts the process as the leader of a process group of its own.
    #[expect(clippy::disallowed_types, reason = "this module starts processes")]
    pub(super) fn spawn(&self, stdin: Stdio, stdout: Stdio, stderr: Stdio) -> io::Result<Child> {
        let (program, arguments) = self
            .argv
            .split_first()
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the command is empty"))?;
        let mut process = Process::new(program);
        process
            .args(arguments)
            .env_clear()
            .envs(&self.env)
            .current_dir(&self.cwd)
            .stdin(stdin)
            .stdout(stdout)
            .stderr(stderr)
            .process_group(0);
        if let Some((uid, gid)) = self.ids {
            process.uid(uid).gid(gid);
        }
        process.spawn()
    }
}

/// Starts the waiting threads: one for the exit of the leader, and one per stream.
///
/// Each ends with what it waits for. If a daemon keeps a stream open, its output is read and dropped, so that the daemon does not block.
fn watch_process(child: &mut Child, input: Vec<u8>) -> io::Result<Receiver<ProcessEvent>> {
    let (sender, receiver) = sync_channel(16);
    let leader = child_pid(child)?;
    let thread_sender = sender.clone();
    spawn_thread("wait", move || {
        while waitid(Id::Pid(leader), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT)
            == Err(Errno::EINTR)
        {}
        let _ = thread_sender.send(ProcessEvent::LeaderEnded);
    })?;
    if let Some(stdout) = child.stdout.take() {
        let thread_sender = sender.clone();
        spawn_thread("stdout", move || {
            forward_stream(stdout, &thread_sender, ProcessEvent::Stdout);
        })?;
    }
    if let Some(stderr) = child.stderr.take() {
        spawn_thread("stderr", move || {
            forward_stream(stderr, &sender, ProcessEvent::Stderr);
        })?;
    }
    if let Some(mut stdin) = child.stdin.take() {
        // A program that does not read all its input is not an error.
        spawn_thread("stdin", move || drop(stdin.write_all(&input)))?;
    }
    Ok(receiver)
}

fn spawn_thread(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name(format!("run-{name}")).spawn(work).map(drop)
}

fn forward_stream(
    mut stream: impl Read,
    sender: &SyncSender<ProcessEvent>,
    to_event: fn(Vec<u8>) -> ProcessEvent,
) {
    let mut buffer = [0; 8192];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(size) => {
                // After the receiver is gone, continue reading, so that the writer does not get SIGPIPE.
                let _ = sender.send(to_event(buffer.get(..size).unwrap_or_default().to_vec()));
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    let _ = sender.send(ProcessEvent::StreamEnded);
}

/// Waits until the leader exited and its output is complete, or the group was terminated; returns the reason for a termination.
fn supervise_group(
    group: &ProcessGroup,
    command: &Command,
    events: &Receiver<ProcessEvent>,
    output: &mut OutputCollector,
) -> Option<TerminationReason> {
    let timeout_at = command.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let (mut open_streams, mut is_leader_running) = (2, true);
    let mut termination: Option<TerminationReason> = None;
    // Deadline, set once the leader has exited or the group got TERM.
    let mut deadline: Option<Instant> = None;
    let mut drain_deadline: Option<Instant> = None;
    while is_leader_running || open_streams > 0 {
        let now = Instant::now();
        if deadline.is_some_and(|end| now >= end) {
            break;
        }
        if termination.is_none() && is_leader_running {
            termination = termination_reason(command, timeout_at, now);
            if termination.is_some() {
                group.signal(Signal::SIGTERM);
                deadline = Some(now + KILL_GRACE_PERIOD);
            }
        }
        let wake_times =
            [deadline, timeout_at.filter(|_| termination.is_none() && is_leader_running)];
        let pause = wake_times
            .into_iter()
            .flatten()
            .fold(CANCEL_POLL_INTERVAL, |pause, at| pause.min(at.saturating_duration_since(now)));
        match events.recv_timeout(pause) {
            Ok(ProcessEvent::Stdout(bytes)) => {
                report_output(command, OutputStream::Stdout, &bytes);
                output.add_stdout(&bytes);
            }
            Ok(ProcessEvent::Stderr(bytes)) => {
                report_output(command, OutputStream::Stderr, &bytes);
                output.add_stderr(&bytes);
            }
            Ok(ProcessEvent::StreamEnded) => open_streams -= 1,
            Ok(ProcessEvent::LeaderEnded) => {
                is_leader_running = false;
                drain_deadline = Some(Instant::now() + MAX_DRAIN_TIME);
            }
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if let (Some(drain_deadline), None) = (drain_deadline, termination) {
            deadline = Some(drain_deadline.min(Instant::now() + OUTPUT_DRAIN_TIMEOUT));
        }
    }
    if termination.is_some() {
        group.signal(Signal::SIGKILL);
    }
    termination
}

fn report_output(command: &Command, stream: OutputStream, bytes: &[u8]) {
    if let Some(listener) = &command.listener {
        listener.handle_output(stream, bytes);
    }
}

fn termination_reason(
    command: &Command,
    timeout_at: Option<Instant>,
    now: Instant,
) -> Option<TerminationReason> {
    if command.cancel.is_cancelled() {
        return Some(TerminationReason::Cancelled);
    }
    timeout_at.filter(|timeout_at| now >= *timeout_at)?;
    command.timeout.map(|timeout| TerminationReason::Timeout(round_limit(timeout)))
}

/// The process group of a child that is not reaped yet.
pub(super) struct ProcessGroup(Pid);

impl ProcessGroup {
    pub(super) fn from_child(child: &Child) -> io::Result<Self> {
        child_pid(child).map(Self)
    }

    /// An error is ignored: the group may already be gone.
    pub(super) fn signal(&self, signal: Signal) {
        let _ = killpg(self.0, signal);
    }
}

fn child_pid(child: &Child) -> io::Result<Pid> {
    i32::try_from(child.id()).map(Pid::from_raw).map_err(io::Error::other)
}

/// Collects output up to the limit.
struct OutputCollector {
    limit: usize,
    combined: Vec<u8>,
    stdout: Vec<u8>,
    truncated: bool,
}

impl OutputCollector {
    fn new(limit: usize) -> Self {
        Self { limit, combined: Vec::new(), stdout: Vec::new(), truncated: false }
    }

    fn add_stdout(&mut self, bytes: &[u8]) {
        self.truncated |= append_limited(&mut self.stdout, bytes, self.limit);
        self.truncated |= append_limited(&mut self.combined, bytes, self.limit);
    }

    fn add_stderr(&mut self, bytes: &[u8]) {
        self.truncated |= append_limited(&mut self.combined, bytes, self.limit);
    }

    fn into_output(self, status: ExitStatus) -> CommandOutput {
        let signalled = status.signal().map(|signal| 128 + signal);
        CommandOutput {
            code: status.code().or(signalled).unwrap_or(-1),
            combined: self.combined,
            stdout: self.stdout,
            truncated: self.truncated,
        }
    }
}

/// Appends what fits; returns whether something was dropped.
fn append_limited(buffer: &mut Vec<u8>, bytes: &[u8], limit: usize) -> bool {
    let length = limit.saturating_sub(buffer.len()).min(bytes.len());
    buffer.extend_from_slice(bytes.get(..length).unwrap_or_default());
    length < bytes.len()
}
