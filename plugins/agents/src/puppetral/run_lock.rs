//! Serialises the changes on a node, and excludes runs of Puppet during a change.
//!
//! Changes of this daemon wait in a first-in, first-out queue; a lock file excludes other processes that use the engine. A change waits for Puppet's
//! lock, and holds it while it is made, so that no run begins meanwhile.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use muster_api::system::pid_lock::{PidLock, is_left_over};
use muster_api::system::{FileAttributes, LockGuard, System, SystemError, SystemResult};
use muster_api::{ActionError, CallContext};
use muster_engine::lock::{LockError, acquire_puppet_locks};
use muster_engine::providers::paths;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::{Instant, sleep};

use crate::puppetral::options::Options;
use crate::puppetral::puppet;

/// Directory of the lock files, also used by the engine.
const LOCK_DIRECTORY: &str = "/run/muster";
/// Lock file of this agent.
const LOCK_FILE: &str = "/run/muster/puppetral.lock";
/// How often Puppet's lock is checked. No system call waits for a file to be removed.
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Suggested retry delay: the usual duration of a run.
const RETRY_AFTER: Duration = Duration::from_secs(30);
/// Largest lock file or file of `/proc` that is read, in bytes.
const MAX_FILE_BYTES: u64 = 64 * 1024;

/// Queue of the changes of this node.
#[derive(Debug, Default)]
pub(crate) struct ChangeQueue {
    queue: Arc<Mutex<()>>,
}

/// Permission to make a change, until dropped. It moves with the work, so that a change whose caller has timed out still blocks the next one.
#[derive(Debug)]
pub(crate) struct ChangeGuard {
    _guard: OwnedMutexGuard<()>,
}

impl ChangeQueue {
    /// Waits for all earlier changes, without a limit of its own, then for Puppet, at most `lock_wait`.
    pub(crate) async fn wait_for_turn(
        &self,
        cx: &CallContext,
        options: &Options,
    ) -> Result<ChangeGuard, ActionError> {
        let guard = Arc::clone(&self.queue).lock_owned().await;
        let deadline = Instant::now() + options.lock_wait;
        loop {
            let system = Arc::clone(&cx.system);
            let lock = options.lock.clone();
            let runs = cx.run_blocking(move |_| find_puppet_run(&*system, lock.as_deref())).await?;
            match runs? {
                None => return Ok(ChangeGuard { _guard: guard }),
                Some(pid) if Instant::now() >= deadline => return Err(busy_error(pid)),
                Some(_) => sleep(LOCK_POLL_INTERVAL).await,
            }
        }
    }
}

/// Acquires the lock file, waiting at most `timeout`. Blocks.
pub(crate) fn acquire_lock_file(
    system: &dyn System,
    timeout: Duration,
) -> SystemResult<Box<dyn LockGuard>> {
    paths::create_dirs(system, Path::new(LOCK_DIRECTORY), &FileAttributes::default())?;
    system.lock_file(Path::new(LOCK_FILE), timeout)
}

/// Acquires Puppet's own lock at every location where a Puppet of this machine may keep it. Blocks.
pub(crate) fn lock_puppet(
    system: &dyn System,
    options: &Options,
) -> Result<Vec<PidLock>, ActionError> {
    let locks = puppet::state_file(options.lock.as_deref(), "agent_catalog_run.lock");
    let locks: Vec<PathBuf> = locks.iter().map(|path| system.host_path(path)).collect();
    acquire_puppet_locks(&locks, options.lock_wait).map_err(|error| match error {
        LockError::Puppet { pid, .. } => busy_error(pid),
        LockError::System(error) => error.into(),
        other => ActionError::failed(other.to_string()),
    })
}

fn busy_error(pid: u32) -> ActionError {
    let message = format!("Puppet is applying a catalog (process {pid}); retry when it ends");
    ActionError::busy(message, RETRY_AFTER)
}

/// The process that applies a catalog, if any. A lock that is empty, malformed, or of a process that is gone or is not Puppet is ignored, as Puppet
/// itself would remove it; so is one that an earlier process with the same id has left.
fn find_puppet_run(system: &dyn System, lock: Option<&Path>) -> SystemResult<Option<u32>> {
    for path in puppet::state_file(lock, "agent_catalog_run.lock") {
        let content = match system.read_file(&path, MAX_FILE_BYTES) {
            Ok(content) => content,
            Err(SystemError::TooLarge { .. }) => continue,
            Err(error) if error.is_not_found() => continue,
            Err(error) => return Err(error),
        };
        let pid = String::from_utf8_lossy(&content).trim().parse::<u32>().ok();
        let host_path = system.host_path(&path);
        let is_holder = |pid: &u32| is_puppet(system, *pid) && !is_left_over(&host_path, *pid);
        if let Some(pid) = pid.filter(is_holder) {
            return Ok(Some(pid));
        }
    }
    Ok(None)
}

/// Puppet's own test: the process is called `puppet`, `puppet-...` or `...puppet`, or is a Ruby that runs Puppet.
fn is_puppet(system: &dyn System, pid: u32) -> bool {
    let text = |file: &str| {
        let read = system.read_file(Path::new(&format!("/proc/{pid}/{file}")), MAX_FILE_BYTES);
        read.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    };
    let name = text("comm");
    let name = name.trim();
    let called = name.ends_with("puppet") || name.contains("puppet-");
    called || (name.contains("ruby") && text("cmdline").contains("puppet"))
}
