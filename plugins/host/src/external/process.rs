//! One process group: started through the sandbox helper, listened to, and ended whole. Does not know what is asked.
//!
//! A task of its own looks after the group, so that it ends and is reaped even when nobody waits for the answer any more.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::Child;
#[expect(
    clippy::disallowed_types,
    reason = "the host is one of the rooms that start processes"
)]
use tokio::process::Command;
use tokio::signal::unix::{Signal as Signals, SignalKind, signal};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::sandbox::Plan;

/// What a group has between TERM and KILL.
const GRACE: Duration = Duration::from_secs(2);
/// How long the rest of the output is awaited when somebody outside of the group keeps a stream open.
const QUIET: Duration = Duration::from_millis(500);
/// Bytes that are kept of each stream; the rest is read and dropped.
const KEPT: usize = 64 * 1024;

/// The program that applies a [`Plan`] to itself and becomes what the plan names: `rpcd exec-sandboxed`.
#[derive(Debug, Clone)]
pub struct Helper {
    /// The program.
    pub program: PathBuf,
    /// What comes before the plan.
    pub arguments: Vec<OsString>,
}

impl Helper {
    /// The daemon's own program.
    pub fn own() -> io::Result<Self> {
        // The running program itself, even when an upgrade has replaced its file.
        let running = Path::new("/proc/self/exe");
        let program = if running.exists() {
            running.to_owned()
        } else {
            std::env::current_exe()?
        };
        Ok(Self {
            program,
            arguments: vec!["exec-sandboxed".into()],
        })
    }
}

/// What a group left behind.
#[derive(Debug)]
pub(super) struct Ended {
    /// How the leader ended.
    pub(super) status: ExitStatus,
    /// The beginning of its standard output.
    pub(super) stdout: Vec<u8>,
    /// The beginning of its standard error.
    pub(super) stderr: Vec<u8>,
}

/// Why a group did not end by itself.
#[derive(Debug, thiserror::Error)]
pub(super) enum RunError {
    /// It was not started.
    #[error("cannot start the sandbox of {}", program.display())]
    Start {
        program: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The plan cannot be told to the helper.
    #[error("cannot write down the plan of a sandbox")]
    Plan(#[from] serde_json::Error),
    /// It was not done in time, and was ended.
    #[error("the program did not end within {} ms", .0.as_millis())]
    Timeout(Duration),
    /// Nobody wanted the answer any more.
    #[error("the program was ended before it was done")]
    Abandoned,
}

/// Runs a plan to its end, at most until `deadline` or `cancel`. The group is ended when the future is dropped, too.
pub(super) async fn run(
    helper: &Helper,
    plan: &Plan,
    deadline: Instant,
    cancel: &CancellationToken,
) -> Result<Ended, RunError> {
    let failed = |source| RunError::Start {
        program: plan.program.clone(),
        source,
    };
    // Listening begins before there is anything to hear.
    let children = signal(SignalKind::child()).map_err(failed)?;
    let child = start(helper, &plan.to_argument()?).map_err(failed)?;
    let group = Group::of(&child).map_err(failed)?;
    let abandoned = cancel.child_token();
    let _when_dropped = abandoned.clone().drop_guard();
    let watch = Watch {
        child,
        group,
        children,
        deadline,
        abandoned,
    };
    match tokio::spawn(watch.watch()).await {
        Ok(ended) => ended,
        Err(error) => Err(failed(io::Error::other(error))),
    }
}

#[expect(
    clippy::disallowed_types,
    reason = "the host is one of the rooms that start processes"
)]
fn start(helper: &Helper, plan: &str) -> io::Result<Child> {
    Command::new(&helper.program)
        .args(&helper.arguments)
        .arg(plan)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
}

/// The process group of a child that was not reaped yet, so that its number belongs to nobody else. Ended when dropped.
struct Group {
    leader: Pid,
    over: bool,
}

impl Group {
    fn of(child: &Child) -> io::Result<Self> {
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        let id = id.ok_or_else(|| io::Error::other("the program has no process id"))?;
        Ok(Self {
            leader: Pid::from_raw(id),
            over: false,
        })
    }

    /// Signals every process of the group; none can be forked past it.
    fn signal(&self, signal: Signal) {
        let _ = killpg(self.leader, signal);
    }

    /// Whether the leader ended; it stays unreaped.
    fn leader_ended(&self) -> bool {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        !matches!(
            waitid(Id::Pid(self.leader), flags),
            Ok(WaitStatus::StillAlive)
        )
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.over {
            self.signal(Signal::SIGKILL);
        }
    }
}

struct Watch {
    child: Child,
    group: Group,
    children: Signals,
    deadline: Instant,
    abandoned: CancellationToken,
}

impl Watch {
    async fn watch(mut self) -> Result<Ended, RunError> {
        let begun = Instant::now();
        let stdout = self
            .child
            .stdout
            .take()
            .map(|stream| tokio::spawn(keep(stream)));
        let stderr = self
            .child
            .stderr
            .take()
            .map(|stream| tokio::spawn(keep(stream)));
        let stopped = tokio::select! {
            () = leader_end(&mut self.children, &self.group) => None,
            () = tokio::time::sleep_until(self.deadline) => Some(RunError::Timeout(begun.elapsed())),
            () = self.abandoned.cancelled() => Some(RunError::Abandoned),
        };
        if stopped.is_some() {
            self.group.signal(Signal::SIGTERM);
            let _ = tokio::time::timeout(GRACE, leader_end(&mut self.children, &self.group)).await;
        }
        // Whoever is left of the group has nobody to answer to.
        self.group.signal(Signal::SIGKILL);
        let status = self.child.wait().await;
        self.group.over = true;
        let (stdout, stderr) = (collected(stdout).await, collected(stderr).await);
        match (stopped, status) {
            (Some(why), _) => Err(why),
            (None, Ok(status)) => Ok(Ended {
                status,
                stdout,
                stderr,
            }),
            (None, Err(source)) => Err(RunError::Start {
                program: PathBuf::from("the program"),
                source,
            }),
        }
    }
}

async fn leader_end(children: &mut Signals, group: &Group) {
    while !group.leader_ended() {
        if children.recv().await.is_none() {
            return;
        }
    }
}

/// Reads a stream to its end, and keeps its beginning: the writer must neither block nor get SIGPIPE.
async fn keep(mut stream: impl AsyncRead + Unpin) -> Vec<u8> {
    let mut kept = Vec::new();
    let mut buffer = vec![0; 8192];
    while let Ok(size @ 1..) = stream.read(&mut buffer).await {
        let room = KEPT.saturating_sub(kept.len()).min(size);
        kept.extend_from_slice(buffer.get(..room).unwrap_or_default());
    }
    kept
}

async fn collected(reader: Option<JoinHandle<Vec<u8>>>) -> Vec<u8> {
    let Some(mut reader) = reader else {
        return Vec::new();
    };
    if let Ok(Ok(kept)) = tokio::time::timeout(QUIET, &mut reader).await {
        return kept;
    }
    reader.abort();
    Vec::new()
}
