//! One run at a time on a machine, whoever starts it: ours by a lock in the state directory, Puppet's by Puppet's own.
//!
//! Puppet's lock is taken in every place where a Puppet of this machine would keep its own, so that it leaves us alone as we leave
//! it alone. Whoever disabled Puppet's agent disabled our runs of catalogs as well, with the same reason.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use muster_system::pid_lock::{self, PidLock};
use muster_system::{LockGuard, StateDir, SystemError};

/// Where Puppet's own packages keep its state, and where those of Debian and its kin do. The node's own paths.
pub const PUPPET_STATE_DIRS: [&str; 2] = [
    "/opt/puppetlabs/puppet/cache/state",
    "/var/cache/puppet/state",
];

const RUN_LOCK_FILE: &str = "run.lock";
const PUPPET_RUN_LOCK_FILE: &str = "agent_catalog_run.lock";
const PUPPET_DISABLED_LOCK_FILE: &str = "agent_disabled.lock";
/// How often a lock that is held is looked at. There is no call that waits for a file to go away.
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Longest disable lock that is read, in bytes.
const MAX_DISABLED_LOCK_BYTES: u64 = 64 * 1024;

/// Why no run may begin now.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another run of ours goes on.
    #[error("another run is in progress ({})", path.display())]
    Running {
        /// Its lock.
        path: PathBuf,
    },
    /// Puppet applies a catalog.
    #[error("Puppet is applying a catalog (process {pid}, {})", path.display())]
    Puppet {
        /// Its process.
        pid: u32,
        /// Its lock.
        path: PathBuf,
    },
    /// An administrator does not want runs.
    #[error("runs are administratively disabled (Reason: '{reason}')")]
    Disabled {
        /// In the administrator's words.
        reason: String,
    },
    /// A lock cannot be used.
    #[error("a lock cannot be taken")]
    System(#[from] SystemError),
}

/// The right to run, until it is dropped.
pub struct CatalogRunLock {
    _own: Box<dyn LockGuard>,
    _puppets: Vec<PidLock>,
}

impl fmt::Debug for CatalogRunLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunLock").finish_non_exhaustive()
    }
}

impl CatalogRunLock {
    /// Takes every lock, waiting as long as that for those that are held. `puppet_state` are Puppet's state directories, on the
    /// host; those that do not exist are left alone.
    pub fn acquire(
        state: &StateDir,
        puppet_state: &[PathBuf],
        patience: Duration,
    ) -> Result<Self, LockError> {
        Self::acquire_all(state, puppet_state, patience, check_not_disabled)
    }

    /// The same for what is no run, but must not happen during one: that runs are disabled does not concern it, and is not
    /// waited for, because it does not mean that one is in progress.
    pub fn acquire_ignoring_disabled(
        state: &StateDir,
        puppet_state: &[PathBuf],
        patience: Duration,
    ) -> Result<Self, LockError> {
        Self::acquire_all(state, puppet_state, patience, |_| Ok(()))
    }

    fn acquire_all(
        state: &StateDir,
        puppet_state: &[PathBuf],
        patience: Duration,
        refuse: impl Fn(&Path) -> Result<(), LockError>,
    ) -> Result<Self, LockError> {
        let until = Instant::now() + patience;
        let own = acquire_own_lock(state, patience)?;
        let mut locks = Vec::new();
        for directory in puppet_state.iter().filter(|directory| directory.is_dir()) {
            refuse(directory)?;
            locks.push(directory.join(PUPPET_RUN_LOCK_FILE));
        }
        let left = until.saturating_duration_since(Instant::now());
        Ok(Self {
            _own: own,
            _puppets: acquire_puppet_locks(&locks, left)?,
        })
    }
}

/// Our own lock alone, without Puppet's: for a run that Puppet itself makes for us, and takes its own lock for.
pub struct MusterRunLock(
    #[expect(dead_code, reason = "held until it is dropped")] Box<dyn LockGuard>,
);

impl fmt::Debug for MusterRunLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnLock").finish_non_exhaustive()
    }
}

impl MusterRunLock {
    /// Takes it, waiting as long as that.
    pub fn acquire(state: &StateDir, patience: Duration) -> Result<Self, LockError> {
        acquire_own_lock(state, patience).map(Self)
    }
}

fn acquire_own_lock(state: &StateDir, patience: Duration) -> Result<Box<dyn LockGuard>, LockError> {
    state
        .acquire_lock(RUN_LOCK_FILE, patience)
        .map_err(|error| match error {
            SystemError::Locked { path, .. } => LockError::Running { path },
            other => LockError::System(other),
        })
}

/// The process that applies a catalog, by the lock in one of Puppet's state directories (host paths) and Puppet's own test of
/// it: Puppet itself, or one of ours that holds Puppet's lock.
pub fn applying_process(puppet_state: &[PathBuf]) -> Option<u32> {
    puppet_state
        .iter()
        .find_map(|directory| pid_lock::lock_holder(&directory.join(PUPPET_RUN_LOCK_FILE)))
}

/// Takes Puppet's locks alone, waiting as long as that: for a change that is no run. A lock whose directory does not exist is
/// nobody's. The paths are the host's own.
pub fn acquire_puppet_locks(
    locks: &[PathBuf],
    patience: Duration,
) -> Result<Vec<PidLock>, LockError> {
    let until = Instant::now() + patience;
    locks
        .iter()
        .filter(|lock| lock.parent().is_some_and(Path::is_dir))
        .map(|lock| acquire_puppet_lock(lock, until))
        .collect()
}

/// Puppet's state directories of a machine whose `/` is there.
pub fn puppet_state_dirs(root: &Path) -> Vec<PathBuf> {
    let inside = |path: &&str| root.join(path.trim_start_matches('/'));
    PUPPET_STATE_DIRS.iter().map(inside).collect()
}

fn acquire_puppet_lock(path: &Path, until: Instant) -> Result<PidLock, LockError> {
    let (_never_said, pause) = std::sync::mpsc::channel::<()>();
    loop {
        match PidLock::acquire(path)? {
            Ok(lock) => return Ok(lock),
            Err(pid) if Instant::now() >= until => {
                return Err(LockError::Puppet {
                    pid,
                    path: path.to_owned(),
                });
            }
            Err(_) => {
                // Nobody ever says anything: a wait with a limit.
                let _ = pause.recv_timeout(LOCK_POLL_INTERVAL);
            }
        }
    }
}

/// Lets nobody run where an administrator wants none.
fn check_not_disabled(directory: &Path) -> Result<(), LockError> {
    match disabled_reason(&[directory.to_owned()]) {
        Some(reason) => Err(LockError::Disabled { reason }),
        None => Ok(()),
    }
}

/// Why runs are disabled, if one of Puppet's state directories (host paths) says so. The file alone disables, whatever is in it.
pub fn disabled_reason(puppet_state: &[PathBuf]) -> Option<String> {
    let file = puppet_state
        .iter()
        .map(|directory| directory.join(PUPPET_DISABLED_LOCK_FILE))
        .find(|file| file.symlink_metadata().is_ok())?;
    let size = file.metadata().map_or(0, |metadata| metadata.len());
    let content = if size <= MAX_DISABLED_LOCK_BYTES {
        std::fs::read(&file).unwrap_or_default()
    } else {
        Vec::new()
    };
    let document: serde_json::Value = serde_json::from_slice(&content).unwrap_or_default();
    let reason = document
        .get("disabled_message")
        .and_then(|reason| reason.as_str());
    Some(reason.unwrap_or("reason not specified").to_owned())
}
