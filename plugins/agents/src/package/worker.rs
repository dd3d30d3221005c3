//! Package changes in processes of their own, which outlive the daemon: apt must not be killed when `rpcd` restarts, not even by a package that
//! restarts `rpcd`.
//!
//! ```text
//! STATE/package/REQUEST/work.json      what to do; written by the daemon before the worker starts
//!                       running        locked by the worker for its lifetime
//!                       started        written by the worker once it holds that lock
//!                       result.json    written by the worker at its end
//! STATE/package/lock                   held by the worker that changes packages
//! ```
//!
//! The daemon, or the next one, reads the result. It stays until the reply is certainly sent. Nothing ends a worker but its package tool, and that
//! tool's own time limit.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use muster_api::system::command::CancelFlag;
use muster_api::system::process::pause;
use muster_api::system::real::RealSystem;
use muster_api::system::{StateDir, System, SystemResult, launch};
use muster_api::wire::status::{ReplyReason, ReplyStatus};
use muster_api::{ActionError, DaemonContext};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::package::node_packages::NodePackages;
use crate::package::work::PackageWork;

const WORK_FILE: &str = "work.json";
const RUNNING_FILE: &str = "running";
const STARTED_FILE: &str = "started";
const RESULT_FILE: &str = "result.json";
const LOCK_FILE: &str = "lock";
/// Largest request and result, in bytes. Outputs are limited to less than this.
const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;
/// How long a worker may take from its launch until it runs, on a busy machine.
const START_TIMEOUT: Duration = Duration::from_mins(1);
/// How long a worker tries to lock its file: a daemon that checks whether it runs holds the lock for an instant.
const RUNNING_LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// Poll interval for the result. A change of packages takes a second or more.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How long a worker waits for the ones before it. Longer than a package tool may run.
const QUEUE_TIMEOUT: Duration = Duration::from_hours(6);

/// How long a result is kept. A daemon that is killed before it has sent the reply leaves it to the next one, which starts within seconds.
const RESULT_RETENTION: Duration = Duration::from_hours(1);

/// The result of an action.
pub type ActionResult = Result<Map<String, Value>, ActionError>;

/// What a worker does.
#[derive(Debug, Serialize, Deserialize)]
struct WorkOrder {
    /// Root of the file system that the node manages.
    root: PathBuf,
    work: PackageWork,
}

/// The stored result of a worker.
#[derive(Debug, Serialize, Deserialize)]
struct StoredResult {
    status: ReplyStatus,
    message: String,
    reason: Option<ReplyReason>,
    data: Map<String, Value>,
}

impl From<ActionResult> for StoredResult {
    fn from(result: ActionResult) -> Self {
        match result {
            Ok(data) => {
                Self { status: ReplyStatus::Ok, message: String::new(), reason: None, data }
            }
            Err(ActionError { status, message, reason, data }) => {
                Self { status, message, reason, data }
            }
        }
    }
}

impl From<StoredResult> for ActionResult {
    fn from(StoredResult { status, message, reason, data }: StoredResult) -> Self {
        match status {
            ReplyStatus::Ok => Ok(data),
            status => Err(ActionError { status, message, reason, data }),
        }
    }
}

/// Starts workers and finds those of an earlier daemon.
#[derive(Debug, Clone)]
pub struct PackageWorkers {
    directory: PathBuf,
    root: PathBuf,
    program: PathBuf,
}

impl PackageWorkers {
    /// Workers of this daemon; `program` is called as `PROGRAM package-worker DIRECTORY`.
    pub fn new(daemon: &DaemonContext, program: PathBuf) -> Self {
        let directory = daemon.state.join("package");
        // A worker runs in another working directory.
        let directory = std::path::absolute(&directory).unwrap_or(directory);
        Self { directory, root: daemon.root.clone(), program }
    }

    /// Starts a worker for the change that the call with this [work id](muster_api::CallContext::work_id) asks for. On return the order is on disk and the worker is starting. Blocks.
    pub(crate) fn start_work(&self, id: Uuid, work: PackageWork) -> SystemResult<StartedWork> {
        self.remove_old_results();
        let directory = StateDir::recreate(&self.work_path(id))?;
        let order = WorkOrder { root: self.root.clone(), work };
        directory.replace_record(WORK_FILE, &order)?;
        let argv = [
            self.program.display().to_string(),
            "package-worker".to_owned(),
            directory.path().display().to_string(),
        ];
        let unit = format!("muster-package-{}", id.simple());
        if let Err(error) = launch::launch_detached(&unit, &argv) {
            // Nothing runs, so nothing is left to the next daemon.
            let _ = fs::remove_dir_all(directory.path());
            return Err(error);
        }
        Ok(StartedWork { directory, launched: Instant::now() })
    }

    /// The change that an earlier daemon started for the call with this work id; `None` if it started none.
    pub fn find_work(&self, id: Uuid) -> Option<StartedWork> {
        let path = self.work_path(id);
        if !path.join(WORK_FILE).exists() {
            return None;
        }
        let directory = StateDir::open(&path).ok()?;
        Some(StartedWork { directory, launched: Instant::now() })
    }

    /// Removes the files of a change whose result was sent.
    pub async fn forget_work(&self, id: Uuid) {
        let path = self.work_path(id);
        // Only disk space is lost if this fails.
        let _ = tokio::task::spawn_blocking(move || fs::remove_dir_all(path)).await;
    }

    /// Removes the files of changes that ended, at the start of a daemon, except those that requests of the daemon before wait for.
    pub fn remove_ended(&self, is_awaited: impl Fn(Uuid) -> bool) {
        for (id, work) in self.all_work() {
            if !is_awaited(id) && matches!(work.check_progress(), WorkProgress::Ended(_)) {
                work.remove_files();
            }
        }
    }

    fn remove_old_results(&self) {
        for (_, work) in self.all_work() {
            let written = work.directory.path().join(RESULT_FILE).metadata();
            let age = written.and_then(|file| file.modified()).map(|at| at.elapsed());
            if age.is_ok_and(|age| age.is_ok_and(|age| age > RESULT_RETENTION)) {
                work.remove_files();
            }
        }
    }

    fn all_work(&self) -> Vec<(Uuid, StartedWork)> {
        let entries = fs::read_dir(&self.directory).into_iter().flatten().flatten();
        let work = entries.filter_map(|entry| {
            let id = Uuid::try_parse(&entry.file_name().to_string_lossy()).ok()?;
            let directory = StateDir::open(&entry.path()).ok()?;
            Some((id, StartedWork { directory, launched: Instant::now() }))
        });
        work.collect()
    }

    fn work_path(&self, id: Uuid) -> PathBuf {
        self.directory.join(id.simple().to_string())
    }
}

/// A change that a worker performs, or has performed.
#[derive(Debug)]
pub struct StartedWork {
    directory: StateDir,
    launched: Instant,
}

/// How far a change is.
#[derive(Debug)]
pub(crate) enum WorkProgress {
    Running,
    /// `None` if the worker was killed, for example with the machine.
    Ended(Option<ActionResult>),
}

impl StartedWork {
    /// Waits for the result. `None` if `leaving` is cancelled first; otherwise the result, or `None` if the worker was killed.
    pub async fn await_result(self, leaving: CancellationToken) -> Option<Option<ActionResult>> {
        let flag = CancelFlag::default();
        let stop = flag.clone();
        let mut waiting = tokio::task::spawn_blocking(move || self.wait_until_ended(&flag));
        let progress = tokio::select! {
            progress = &mut waiting => progress,
            () = leaving.cancelled() => {
                stop.cancel();
                waiting.await
            }
        };
        match progress {
            Ok(WorkProgress::Ended(result)) => Some(result),
            Ok(WorkProgress::Running) | Err(_) => None,
        }
    }

    /// Polls until the worker has ended or the flag is set. Blocks.
    pub(crate) fn wait_until_ended(&self, stop: &CancelFlag) -> WorkProgress {
        loop {
            let progress = self.check_progress();
            if stop.is_cancelled() || matches!(progress, WorkProgress::Ended(_)) {
                return progress;
            }
            pause(POLL_INTERVAL);
        }
    }

    /// Removes the files of the change; only disk space is lost if this fails.
    pub(crate) fn remove_files(&self) {
        let _ = fs::remove_dir_all(self.directory.path());
    }

    fn check_progress(&self) -> WorkProgress {
        let started = self.directory.contains(STARTED_FILE);
        // Read before the result: a worker writes its result before it unlocks its file.
        let alive = started && self.directory.acquire_lock(RUNNING_FILE, Duration::ZERO).is_err();
        let starting = !started && self.launched.elapsed() < START_TIMEOUT;
        match self.directory.read_file(RESULT_FILE, MAX_FILE_BYTES) {
            Ok(Some(bytes)) => {
                let stored = serde_json::from_slice::<StoredResult>(&bytes).ok();
                WorkProgress::Ended(stored.map(ActionResult::from))
            }
            Ok(None) if alive || starting => WorkProgress::Running,
            Ok(None) => WorkProgress::Ended(None),
            Err(error) => WorkProgress::Ended(Some(Err(ActionError::from_cause(error)))),
        }
    }
}

/// Performs the change of one directory, in the worker's process. Does nothing if another worker performs it, has performed it, or was killed.
pub fn run_worker(directory: &Path) -> SystemResult<()> {
    let Some(parent) = directory.parent() else { return Ok(()) };
    let (state, all) = (StateDir::open(directory)?, StateDir::open(parent)?);
    let _running = state.acquire_lock(RUNNING_FILE, RUNNING_LOCK_TIMEOUT)?;
    if !state.create_new(STARTED_FILE, b"")? {
        return Ok(());
    }
    let result = match read_order(&state) {
        Err(error) => Err(error),
        Ok(order) => match all.acquire_lock(LOCK_FILE, QUEUE_TIMEOUT) {
            Err(error) => Err(ActionError::from_cause(error)),
            Ok(_lock) => {
                let system: Arc<dyn System> = Arc::new(RealSystem::new(order.root));
                order.work.perform(&NodePackages::for_system(system, CancelFlag::default()))
            }
        },
    };
    state.replace_record(RESULT_FILE, &StoredResult::from(result))
}

fn read_order(state: &StateDir) -> Result<WorkOrder, ActionError> {
    let bytes = state.read_file(WORK_FILE, MAX_FILE_BYTES).map_err(ActionError::from_cause)?;
    serde_json::from_slice(&bytes.unwrap_or_default()).map_err(|error| {
        ActionError::internal_error(format!("the stored change is damaged: {error}"))
    })
}
