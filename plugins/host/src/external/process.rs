//! One process group: starts it through the sandbox helper, reads its output, and ends all of it. Independent of the protocol.
//!
//! A separate task supervises the group, so that it is ended and reaped even if the caller stops waiting.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use muster_api::base::{format_duration, round_limit};
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::Child;
#[expect(clippy::disallowed_types, reason = "this crate is permitted to start processes")]
use tokio::process::Command;
use tokio::signal::unix::{Signal as Signals, SignalKind, signal};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::sandbox::SandboxPlan;

/// Time between TERM and KILL for a group.
const TERM_GRACE: Duration = Duration::from_secs(2);
/// How long to wait for the rest of the output if a process outside the group keeps a stream open.
const OUTPUT_TIMEOUT: Duration = Duration::from_millis(500);
/// Bytes kept of each stream; the rest is read and discarded.
pub(super) const MAX_OUTPUT_BYTES: usize = 64 * 1024;

/// The program that applies a [`SandboxPlan`] to itself and then executes the planned program: `rpcd exec-sandboxed`.
#[derive(Debug, Clone)]
pub struct SandboxHelper {
    pub program: PathBuf,
    /// The arguments before the plan.
    pub arguments: Vec<OsString>,
}

impl SandboxHelper {
    /// Uses the daemon's own program.
    pub fn current_exe() -> io::Result<Self> {
        // This path refers to the running program even if an upgrade replaced its file.
        let running = Path::new("/proc/self/exe");
        let program = if running.exists() { running.to_owned() } else { std::env::current_exe()? };
        Ok(Self { program, arguments: vec!["exec-sandboxed".into()] })
    }

    /// Starts a program that keeps running, with these as its standard input, output and error.
    pub fn start(
        &self,
        plan: &SandboxPlan,
        stdin: Stdio,
        stdout: Stdio,
        stderr: Stdio,
    ) -> io::Result<SandboxedProgram> {
        let child = self.spawn(&plan.to_argument()?, stdin, stdout, stderr)?;
        let group = ProgramGroup::from_child(&child)?;
        Ok(SandboxedProgram { _group: group, _child: child })
    }

    #[expect(clippy::disallowed_types, reason = "this crate is permitted to start processes")]
    fn spawn(&self, plan: &str, stdin: Stdio, stdout: Stdio, stderr: Stdio) -> io::Result<Child> {
        Command::new(&self.program)
            .args(&self.arguments)
            .arg(plan)
            .env_clear()
            .current_dir("/")
            .stdin(stdin)
            .stdout(stdout)
            .stderr(stderr)
            .process_group(0)
            .spawn()
    }
}

/// A program that keeps running. Its process group is killed on drop.
#[derive(Debug)]
pub struct SandboxedProgram {
    // Killed before the child is dropped, and so before it can be reaped.
    _group: ProgramGroup,
    _child: Child,
}

/// The output of a group.
#[derive(Debug)]
pub(super) struct ProgramOutput {
    /// The exit status of the leader.
    pub(super) status: ExitStatus,
    /// The beginning of its standard output.
    pub(super) stdout: Vec<u8>,
    /// The beginning of its standard error.
    pub(super) stderr: Vec<u8>,
    /// Whether it was cancelled, and exited on its own after TERM.
    pub(super) cancelled: bool,
}

/// Why a group did not run or did not exit on its own.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProgramRunError {
    #[error("cannot start the sandbox of {}", program.display())]
    Start {
        program: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot serialise the sandbox plan")]
    Plan(#[from] serde_json::Error),
    #[error("the program did not end within {}", format_duration(*.0))]
    Timeout(Duration),
    /// The request was cancelled, and the program did not exit on its own before it was killed.
    #[error("the program was cancelled")]
    Cancelled,
}

/// Runs a plan until it exits, at most until `deadline` or `cancel`. Dropping the future also ends the group.
///
/// A cancelled program gets TERM. If it then exits with a code before it is killed, its output counts, because it may report what it did.
pub(super) async fn run_sandboxed(
    helper: &SandboxHelper,
    plan: &SandboxPlan,
    deadline: Instant,
    cancel: &CancellationToken,
) -> Result<ProgramOutput, ProgramRunError> {
    let start_error = |source| ProgramRunError::Start { program: plan.program.clone(), source };
    // Install the SIGCHLD handler before the child starts, so that no signal is missed.
    let child_signals = signal(SignalKind::child()).map_err(start_error)?;
    let (stdin, [stdout, stderr]) = (Stdio::null(), [Stdio::piped(), Stdio::piped()]);
    let child = helper.spawn(&plan.to_argument()?, stdin, stdout, stderr).map_err(start_error)?;
    let group = ProgramGroup::from_child(&child).map_err(start_error)?;
    // The supervisor task outlives this future; dropping the guard makes it end the group.
    let stop = cancel.child_token();
    let _stop_guard = stop.clone().drop_guard();
    let supervisor = ProgramSupervisor { child, group, child_signals, deadline, stop };
    match tokio::spawn(supervisor.supervise()).await {
        Ok(result) => result,
        Err(error) => Err(start_error(io::Error::other(error))),
    }
}

/// The process group of an unreaped child: the kernel does not reuse its id. Killed on drop.
#[derive(Debug)]
struct ProgramGroup {
    leader: Pid,
    reaped: bool,
}

impl ProgramGroup {
    fn from_child(child: &Child) -> io::Result<Self> {
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        let id = id.ok_or_else(|| io::Error::other("the program has no process id"))?;
        Ok(Self { leader: Pid::from_raw(id), reaped: false })
    }

    /// Signals every process of the group; a concurrent fork cannot escape the signal.
    fn send_signal(&self, signal: Signal) {
        let _ = killpg(self.leader, signal);
    }

    /// Whether the leader exited; does not reap it.
    fn has_leader_exited(&self) -> bool {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        !matches!(waitid(Id::Pid(self.leader), flags), Ok(WaitStatus::StillAlive))
    }
}

impl Drop for ProgramGroup {
    fn drop(&mut self) {
        if !self.reaped {
            self.send_signal(Signal::SIGKILL);
        }
    }
}

struct ProgramSupervisor {
    child: Child,
    group: ProgramGroup,
    child_signals: Signals,
    deadline: Instant,
    stop: CancellationToken,
}

impl ProgramSupervisor {
    async fn supervise(mut self) -> Result<ProgramOutput, ProgramRunError> {
        let limit = round_limit(self.deadline.saturating_duration_since(Instant::now()));
        let stdout = self.child.stdout.take().map(|stream| tokio::spawn(read_capped(stream)));
        let stderr = self.child.stderr.take().map(|stream| tokio::spawn(read_capped(stream)));
        let stop_reason = tokio::select! {
            () = wait_leader_exit(&mut self.child_signals, &self.group) => None,
            () = tokio::time::sleep_until(self.deadline) => Some(ProgramRunError::Timeout(limit)),
            () = self.stop.cancelled() => Some(ProgramRunError::Cancelled),
        };
        if stop_reason.is_some() {
            self.group.send_signal(Signal::SIGTERM);
            let exit = wait_leader_exit(&mut self.child_signals, &self.group);
            // A program that is still running is killed below, so its status has no code.
            let _ = tokio::time::timeout(TERM_GRACE, exit).await;
        }
        // Kill the remaining processes of the group; no reply depends on them.
        self.group.send_signal(Signal::SIGKILL);
        let status = self.child.wait().await;
        self.group.reaped = true;
        let (stdout, stderr) = (collect_output(stdout).await, collect_output(stderr).await);
        match (stop_reason, status) {
            (Some(ProgramRunError::Cancelled), Ok(status)) if status.code().is_some() => {
                Ok(ProgramOutput { status, stdout, stderr, cancelled: true })
            }
            (Some(error), _) => Err(error),
            (None, Ok(status)) => Ok(ProgramOutput { status, stdout, stderr, cancelled: false }),
            (None, Err(source)) => {
                Err(ProgramRunError::Start { program: PathBuf::from("the program"), source })
            }
        }
    }
}

async fn wait_leader_exit(child_signals: &mut Signals, group: &ProgramGroup) {
    while !group.has_leader_exited() {
        if child_signals.recv().await.is_none() {
            return;
        }
    }
}

/// Reads a stream to its end and keeps its beginning: the writer must neither block nor get SIGPIPE.
async fn read_capped(mut stream: impl AsyncRead + Unpin) -> Vec<u8> {
    let mut output = Vec::new();
    let mut buffer = vec![0; 8192];
    while let Ok(size @ 1..) = stream.read(&mut buffer).await {
        let length = MAX_OUTPUT_BYTES.saturating_sub(output.len()).min(size);
        output.extend_from_slice(buffer.get(..length).unwrap_or_default());
    }
    output
}

async fn collect_output(reader: Option<JoinHandle<Vec<u8>>>) -> Vec<u8> {
    let Some(mut reader) = reader else { return Vec::new() };
    if let Ok(Ok(output)) = tokio::time::timeout(OUTPUT_TIMEOUT, &mut reader).await {
        return output;
    }
    reader.abort();
    Vec::new()
}
