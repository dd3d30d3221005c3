//! Keeps the result of a check for some seconds, in a file that only its owner can read. A lock lets only one of several processes ask the nodes.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_base::encode_hex;
use muster_client::{RpcSettings, read_cache_file, replace_cache_file};
use muster_files::files::{self, FileAccessError};
use muster_wire::Millis;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::time::{Instant, sleep};

use super::CheckRequest;
use super::report::CheckOutcome;

/// Largest file, in bytes.
const MAX_FILE_BYTES: usize = 64 * 1024 * 1024;
/// Pause between attempts to get the lock.
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Files that were not written for this long are removed.
const MAX_FILE_AGE: Duration = Duration::from_hours(24);

/// Why a result cannot be kept.
#[derive(Debug, thiserror::Error)]
pub enum CheckCacheError {
    /// There is no home directory.
    #[error("--cache needs a cache directory: set XDG_CACHE_HOME or HOME")]
    NoDirectory,
    /// A file or directory cannot be created.
    #[error(transparent)]
    File(#[from] FileAccessError),
    /// The lock file cannot be opened or locked.
    #[error("cannot lock {}", path.display())]
    Lock {
        /// The file.
        path: PathBuf,
        /// The system error.
        source: io::Error,
    },
    /// Another process asks the nodes for a long time.
    #[error("another process holds {} for more than {} s", path.display(), after.as_secs())]
    Busy {
        /// The file.
        path: PathBuf,
        /// The wait time.
        after: Duration,
    },
}

/// The kept result of one check with its nodes and options.
#[derive(Debug, Clone)]
pub struct CheckCache {
    path: PathBuf,
}

/// The lock; released when dropped.
#[derive(Debug)]
pub struct CheckLock(#[expect(dead_code, reason = "held until it is dropped")] Flock<File>);

#[derive(Serialize, Deserialize)]
struct CacheEntry {
    /// The end of the check, in milliseconds since the epoch.
    time: Millis,
    outcome: CheckOutcome,
}

impl CheckCache {
    /// The cache of a check: the same for every process of this user that runs the check on the same nodes with the same credentials.
    pub fn for_check(
        settings: &RpcSettings,
        check: &CheckRequest<'_>,
    ) -> Result<Self, CheckCacheError> {
        let directory = settings.fleet_cache_directory().ok_or(CheckCacheError::NoDirectory)?;
        let key = format!(
            "{:?}",
            (
                check.command,
                &check.plan.data,
                check.target,
                check.timeout,
                check.expect,
                &settings.credentials,
                &settings.source,
            )
        );
        let digest = Sha256::digest(key.as_bytes());
        let name = encode_hex(digest.get(..16).unwrap_or(&digest));
        Ok(Self { path: directory.join("checks").join(format!("{name}.json")) })
    }

    /// The result, if it is at most this old.
    pub fn read(&self, max_age: Duration, now: Millis) -> Option<CheckOutcome> {
        let bytes = read_cache_file(&self.path, MAX_FILE_BYTES)?;
        let entry: CacheEntry = serde_json::from_slice(&bytes).ok()?;
        // A time in the future comes from a clock that was set back.
        let age = now.checked_sub(entry.time)?;
        (u128::from(age) <= max_age.as_millis()).then_some(entry.outcome)
    }

    /// Replaces the result, and removes old files of other checks.
    pub fn write(&self, outcome: &CheckOutcome, now: Millis) -> Result<(), CheckCacheError> {
        let entry = CacheEntry { time: now, outcome: outcome.clone() };
        if let Ok(bytes) = serde_json::to_vec(&entry) {
            replace_cache_file(&self.path, &bytes)?;
        }
        if let Some(directory) = self.path.parent() {
            remove_old_files(directory);
        }
        Ok(())
    }

    /// Waits until no other process asks the nodes.
    pub async fn lock(&self, timeout: Duration) -> Result<CheckLock, CheckCacheError> {
        let path = self.path.with_extension("lock");
        if let Some(directory) = path.parent() {
            files::create_private_directory(directory)?;
        }
        let lock_error = |source: io::Error| CheckCacheError::Lock { path: path.clone(), source };
        let open =
            OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
        let mut file = open.map_err(lock_error)?;
        let deadline = Instant::now() + timeout;
        loop {
            match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                Ok(lock) => return Ok(CheckLock(lock)),
                Err((same, Errno::EWOULDBLOCK | Errno::EINTR)) => file = same,
                Err((_, errno)) => return Err(lock_error(errno.into())),
            }
            if Instant::now() >= deadline {
                return Err(CheckCacheError::Busy { path, after: timeout });
            }
            sleep(LOCK_POLL_INTERVAL).await;
        }
    }
}

/// Removes results that were not written for a day. Lock files stay: if one that is held were removed, a second process could ask the nodes, too.
fn remove_old_files(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let is_result = path.extension().is_some_and(|extension| extension == "json");
        let age = path.metadata().and_then(|found| found.modified()).ok();
        let age = age.and_then(|modified| modified.elapsed().ok());
        if is_result && age.is_some_and(|age| age > MAX_FILE_AGE) {
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::time::Duration;

    use super::{CheckCache, CheckCacheError};
    use crate::check::report::CheckOutcome;

    fn cache(directory: &std::path::Path) -> CheckCache {
        CheckCache { path: directory.join("checks/a.json") }
    }

    #[test]
    fn result_is_kept_for_its_time_and_private() {
        let scratch = tempfile::tempdir().unwrap();
        let cache = cache(scratch.path());
        let outcome = CheckOutcome::Failed("no broker".to_owned());
        assert_eq!(cache.read(Duration::from_mins(1), 1000), None);
        cache.write(&outcome, 1000).unwrap();
        assert_eq!(cache.read(Duration::from_secs(1), 2000), Some(outcome));
        assert_eq!(cache.read(Duration::from_secs(1), 2001), None);
        assert_eq!(cache.read(Duration::from_secs(1), 999), None, "the clock was set back");
        let mode = cache.path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
        std::fs::write(&cache.path, "{").unwrap();
        assert_eq!(cache.read(Duration::from_mins(1), 1000), None);
    }

    #[tokio::test]
    async fn only_one_process_has_the_lock() {
        let scratch = tempfile::tempdir().unwrap();
        let cache = cache(scratch.path());
        let held = cache.lock(Duration::ZERO).await.unwrap();
        let refused = cache.lock(Duration::ZERO).await.unwrap_err();
        assert!(matches!(refused, CheckCacheError::Busy { .. }), "{refused}");
        drop(held);
        cache.lock(Duration::ZERO).await.unwrap();
    }
}
