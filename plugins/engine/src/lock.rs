//! Ensures one run at a time per machine: a lock in the state directory for our runs, and Puppet's own locks.
//!
//! Puppet's lock is taken in every state directory that a Puppet installation on this machine would use, so Puppet and this engine
//! exclude each other. If an administrator disabled the Puppet agent, our catalog runs are disabled too, with the same reason.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use muster_system::pid_lock::{self, PidLock};
use muster_system::{LockGuard, StateDir, SystemError, read_regular_file};

/// Puppet's state directories: of Puppet's own packages, and of Debian and derived distributions. Paths on the node.
pub const PUPPET_STATE_DIRS: [&str; 2] =
    ["/opt/puppetlabs/puppet/cache/state", "/var/cache/puppet/state"];

const RUN_LOCK_FILE: &str = "run.lock";
const PUPPET_RUN_LOCK_FILE: &str = "agent_catalog_run.lock";
const PUPPET_DISABLED_LOCK_FILE: &str = "agent_disabled.lock";
/// Poll interval for a held lock. There is no system call that waits for a file to be removed.
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(100);
const MAX_DISABLED_LOCK_BYTES: u64 = 64 * 1024;

/// Reasons why no run may start now.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error("another run is in progress ({})", path.display())]
    Running { path: PathBuf },
    #[error("Puppet is applying a catalog (process {pid}, {})", path.display())]
    Puppet { pid: u32, path: PathBuf },
    #[error("runs are administratively disabled (Reason: '{reason}')")]
    Disabled {
        /// The administrator's reason.
        reason: String,
    },
    #[error("cannot acquire a lock")]
    System(#[from] SystemError),
}

/// All locks of a run; released on drop.
#[derive(Debug)]
pub struct CatalogRunLock {
    _run_lock: Box<dyn LockGuard>,
    _puppet_locks: Vec<PidLock>,
}

impl CatalogRunLock {
    /// Takes all locks, waiting up to the given time for held ones. `puppet_state` are Puppet's state directories on the
    /// host; missing ones are skipped.
    pub fn acquire(
        state: &StateDir,
        puppet_state: &[PathBuf],
        timeout: Duration,
    ) -> Result<Self, LockError> {
        Self::acquire_all(state, puppet_state, timeout, check_not_disabled)
    }

    /// Like `acquire`, for an operation that is not a run but must not overlap one. Ignores the disable lock and does not
    /// wait for it, because it does not indicate a run in progress.
    pub fn acquire_ignoring_disabled(
        state: &StateDir,
        puppet_state: &[PathBuf],
        timeout: Duration,
    ) -> Result<Self, LockError> {
        Self::acquire_all(state, puppet_state, timeout, |_| Ok(()))
    }

    fn acquire_all(
        state: &StateDir,
        puppet_state: &[PathBuf],
        timeout: Duration,
        check: impl Fn(&Path) -> Result<(), LockError>,
    ) -> Result<Self, LockError> {
        let deadline = Instant::now() + timeout;
        let run_lock = acquire_own_lock(state, timeout)?;
        let mut locks = Vec::new();
        for directory in puppet_state.iter().filter(|directory| directory.is_dir()) {
            check(directory)?;
            locks.push(directory.join(PUPPET_RUN_LOCK_FILE));
        }
        let left = deadline.saturating_duration_since(Instant::now());
        Ok(Self { _run_lock: run_lock, _puppet_locks: acquire_puppet_locks(&locks, left)? })
    }
}

/// Our own lock without Puppet's, for a run executed by Puppet itself, which takes its own lock.
#[derive(Debug)]
pub struct MusterRunLock(
    #[expect(dead_code, reason = "held until it is dropped")] Box<dyn LockGuard>,
);

impl MusterRunLock {
    pub fn acquire(state: &StateDir, timeout: Duration) -> Result<Self, LockError> {
        acquire_own_lock(state, timeout).map(Self)
    }
}

fn acquire_own_lock(state: &StateDir, timeout: Duration) -> Result<Box<dyn LockGuard>, LockError> {
    state.acquire_lock(RUN_LOCK_FILE, timeout).map_err(|error| match error {
        SystemError::Locked { path, .. } => LockError::Running { path },
        other => LockError::System(other),
    })
}

/// The process that applies a catalog, determined from the lock in one of Puppet's state directories (host paths) with Puppet's own
/// check: Puppet, or one of our processes that holds Puppet's lock.
pub fn applying_process(puppet_state: &[PathBuf]) -> Option<u32> {
    puppet_state
        .iter()
        .find_map(|directory| pid_lock::lock_holder(&directory.join(PUPPET_RUN_LOCK_FILE)))
}

/// Takes only Puppet's locks, waiting up to the given time: for a change outside a run. Skips locks whose directory does not
/// exist. Host paths.
pub fn acquire_puppet_locks(
    locks: &[PathBuf],
    timeout: Duration,
) -> Result<Vec<PidLock>, LockError> {
    let deadline = Instant::now() + timeout;
    locks
        .iter()
        .filter(|lock| lock.parent().is_some_and(Path::is_dir))
        .map(|lock| acquire_puppet_lock(lock, deadline))
        .collect()
}

pub fn puppet_state_dirs(root: &Path) -> Vec<PathBuf> {
    let in_root = |path: &&str| root.join(path.trim_start_matches('/'));
    PUPPET_STATE_DIRS.iter().map(in_root).collect()
}

fn acquire_puppet_lock(path: &Path, deadline: Instant) -> Result<PidLock, LockError> {
    let (_sender, receiver) = std::sync::mpsc::channel::<()>();
    loop {
        match PidLock::acquire(path)? {
            Ok(lock) => return Ok(lock),
            Err(pid) if Instant::now() >= deadline => {
                return Err(LockError::Puppet { pid, path: path.to_owned() });
            }
            Err(_) => {
                // Nothing is ever sent on this channel; the receive only sleeps.
                let _ = receiver.recv_timeout(LOCK_POLL_INTERVAL);
            }
        }
    }
}

fn check_not_disabled(directory: &Path) -> Result<(), LockError> {
    match disabled_reason(&[directory.to_owned()]) {
        Some(reason) => Err(LockError::Disabled { reason }),
        None => Ok(()),
    }
}

/// The reason why runs are disabled according to one of Puppet's state directories (host paths). The file disables runs whatever its content.
pub fn disabled_reason(puppet_state: &[PathBuf]) -> Option<String> {
    let mut files = puppet_state.iter().map(|directory| directory.join(PUPPET_DISABLED_LOCK_FILE));
    let file = files.find(|file| file.symlink_metadata().is_ok())?;
    // Whatever cannot be read gives no reason, but the runs stay disabled. Puppet's user may own the directory.
    let content = read_regular_file(&file, MAX_DISABLED_LOCK_BYTES).unwrap_or_default();
    let document: serde_json::Value = serde_json::from_slice(&content).unwrap_or_default();
    let reason = document.get("disabled_message").and_then(|reason| reason.as_str());
    Some(reason.unwrap_or("reason not specified").to_owned())
}
