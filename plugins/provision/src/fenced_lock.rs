//! The provisioning lock of the node, with a lease and a fence number, and the markers of its provisioning state.
//!
//! The *fence* never decreases, also across unlocking. A step with an older fence than the node has seen is rejected, so a provisioner that was
//! presumed dead cannot continue after another one has taken over. All functions block; none depends on Puppet.

use muster_api::base::{duration_millis, error_chain, unix_millis};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use muster_api::ActionError;
use muster_api::system::{LockGuard, StateDir, SystemError, SystemResult};
use muster_contract::provision::ProvisionLockOutput;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Marker file: provisioning of this node has ended. In the daemon's state directory.
pub const DISABLED_FILE: &str = "provision.disabled";
/// Marker file: the daemon offers only the provisioning agents. In the same directory.
pub const PROVISIONING_FILE: &str = "provisioning";

const LOCK_FILE: &str = "provision.lock";
const FENCE_FILE: &str = "provision.fence";
const GUARD_FILE: &str = "provision.guard";
/// Maximum wait for another step that uses these files.
const GUARD_TIMEOUT: Duration = Duration::from_secs(20);
const MAX_FILE_BYTES: u64 = 4096;
/// Longest lease, in seconds. A longer remaining time results from a clock change, and counts as expired.
const MAX_LEASE_SECONDS: u64 = 3600;

/// Lock and marker files in one directory.
#[derive(Debug, Clone)]
pub(crate) struct FencedLock {
    directory: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LockRecord {
    pub(crate) owner: String,
    pub(crate) fence: u64,
    /// In milliseconds since 1970.
    pub(crate) expires: u64,
}

/// The highest fence so far, and its owner.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct FenceRecord {
    owner: String,
    fence: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LockStatus {
    /// The lock, if its lease has not expired.
    pub(crate) lock: Option<LockRecord>,
    /// Owner of the lock, or of the highest fence if there is no lock.
    pub(crate) owner: String,
    pub(crate) fence: u64,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum FencedLockError {
    #[error("`{}` has locked this node with fence {}; the lock expires in {} s", lock.owner, lock.fence, left.as_secs() + 1)]
    Held { lock: LockRecord, left: Duration },
    #[error(
        "fence {requested} is not valid: this node was already locked with fence {highest}; another provisioner may have taken over"
    )]
    Fenced { requested: u64, highest: u64 },
    #[error("this node was not locked with fence {requested}; acquire the lock first")]
    NotAcquired { requested: u64 },
    #[error(
        "provisioning of this node has ended; run `rpc do provision reprovision` to start it again"
    )]
    Disabled,
    #[error(transparent)]
    System(#[from] SystemError),
}

impl From<FencedLockError> for ActionError {
    fn from(error: FencedLockError) -> Self {
        let message = error_chain(&error);
        match error {
            FencedLockError::Held { lock, left } => {
                Self::busy(message, left).with_output(&ProvisionLockOutput {
                    locked: true,
                    owner: lock.owner,
                    fence: lock.fence,
                    expires: lock.expires / 1000,
                })
            }
            FencedLockError::Fenced { .. } | FencedLockError::NotAcquired { .. } => {
                Self::denied_by_rule(message, "provision.fence")
            }
            FencedLockError::Disabled => Self::denied_by_rule(message, DISABLED_FILE),
            FencedLockError::System(_) => Self::failed(message),
        }
    }
}

impl FencedLock {
    pub(crate) fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// Takes the lock, or renews it. An expired lock is taken over with a higher fence.
    pub(crate) fn acquire_lock(
        &self,
        owner: &str,
        lease: Duration,
        fence: Option<u64>,
        now: SystemTime,
    ) -> Result<LockRecord, FencedLockError> {
        let (files, _guard) = self.open_guarded()?;
        if files.contains(DISABLED_FILE) {
            return Err(FencedLockError::Disabled);
        }
        let (current, fence_record) = (read_lock_record(&files)?, read_fence_record(&files)?);
        let highest = fence_record.fence.max(current.as_ref().map_or(0, |lock| lock.fence));
        let valid_lock = current.as_ref().filter(|lock| remaining_lease(lock, now).is_some());
        let new_fence = match (valid_lock, fence) {
            (Some(lock), _) if lock.owner != owner => return Err(held_error(lock, now)),
            (Some(lock), None) => lock.fence,
            (None, None) => highest.saturating_add(1),
            (_, Some(fence)) => fence,
        };
        if new_fence < highest
            || (new_fence == highest && highest > 0 && fence_record.owner != owner)
        {
            let requested = new_fence;
            return Err(FencedLockError::Fenced { requested, highest });
        }
        let new_lock = LockRecord {
            owner: owner.to_owned(),
            fence: new_fence,
            expires: unix_millis(now).saturating_add(duration_millis(lease)),
        };
        // Write the fence first: after a crash in between it counts as used.
        let fence_record = FenceRecord { owner: owner.to_owned(), fence: new_fence };
        files.replace_record(FENCE_FILE, &fence_record)?;
        if current.is_some() || !files.create_record(LOCK_FILE, &new_lock)? {
            // The guard excludes concurrent writers, so an existing lock file is unreadable, or expired or ours.
            files.replace_record(LOCK_FILE, &new_lock)?;
        }
        Ok(new_lock)
    }

    /// Returns whether there was a lock.
    pub(crate) fn release_lock(
        &self,
        fence: Option<u64>,
        force: bool,
        now: SystemTime,
    ) -> Result<bool, FencedLockError> {
        let (files, _guard) = self.open_guarded()?;
        let Some(lock) = read_lock_record(&files)? else {
            // Also removes a lock file that cannot be read.
            let exists = files.contains(LOCK_FILE);
            files.remove_file(LOCK_FILE)?;
            return Ok(exists);
        };
        if !force {
            validate_fence(Some(&lock), lock.fence, fence, now)?;
        }
        files.remove_file(LOCK_FILE)?;
        Ok(true)
    }

    pub(crate) fn admit_step(
        &self,
        fence: Option<u64>,
        now: SystemTime,
    ) -> Result<(), FencedLockError> {
        self.admit_exclusive_step(fence, now).map(drop)
    }

    /// Like [`Self::admit_step`]; no other provisioner can take the lock until the guard is dropped.
    pub(crate) fn admit_exclusive_step(
        &self,
        fence: Option<u64>,
        now: SystemTime,
    ) -> Result<Box<dyn LockGuard>, FencedLockError> {
        let (files, guard) = self.open_guarded()?;
        if files.contains(DISABLED_FILE) {
            return Err(FencedLockError::Disabled);
        }
        check_step_fence(&files, fence, now)?;
        Ok(guard)
    }

    /// Marks provisioning as ended; with `unlock` also removes the lock. Returns whether it was not marked before. Idempotent.
    pub(crate) fn finish_provisioning(
        &self,
        fence: Option<u64>,
        unlock: bool,
        now: SystemTime,
    ) -> Result<bool, FencedLockError> {
        let (files, _guard) = self.open_guarded()?;
        let changed = !files.contains(DISABLED_FILE);
        check_step_fence(&files, fence, now)?;
        if changed {
            let marker = json!({ "since": unix_millis(now) / 1000 });
            files.replace_record(DISABLED_FILE, &marker)?;
        }
        files.remove_file(PROVISIONING_FILE)?;
        if unlock {
            files.remove_file(LOCK_FILE)?;
        }
        Ok(changed)
    }

    /// Removes the marker, so that the node can be provisioned again. Returns whether there was one.
    pub(crate) fn clear_disabled(&self) -> Result<bool, FencedLockError> {
        let (files, _guard) = self.open_guarded()?;
        let changed = files.contains(DISABLED_FILE);
        files.remove_file(DISABLED_FILE)?;
        Ok(changed)
    }

    pub(crate) fn lock_status(&self, now: SystemTime) -> Result<LockStatus, FencedLockError> {
        let files = StateDir::open(&self.directory)?;
        let (current, fence_record) = (read_lock_record(&files)?, read_fence_record(&files)?);
        let highest = fence_record.fence.max(current.as_ref().map_or(0, |lock| lock.fence));
        let lock = current.filter(|lock| remaining_lease(lock, now).is_some());
        Ok(LockStatus {
            owner: lock.as_ref().map_or(fence_record.owner, |lock| lock.owner.clone()),
            lock,
            fence: highest,
        })
    }

    /// Whether provisioning has ended, and whether the daemon is in provisioning mode.
    pub(crate) fn read_markers(&self) -> (bool, bool) {
        let exists = |name: &str| self.directory.join(name).exists();
        (exists(DISABLED_FILE), exists(PROVISIONING_FILE))
    }

    /// Opens the directory, and excludes other writers until the guard is dropped.
    fn open_guarded(&self) -> SystemResult<(StateDir, Box<dyn LockGuard>)> {
        let files = StateDir::open(&self.directory)?;
        let guard = files.acquire_lock(GUARD_FILE, GUARD_TIMEOUT)?;
        Ok((files, guard))
    }
}

fn check_step_fence(
    files: &StateDir,
    fence: Option<u64>,
    now: SystemTime,
) -> Result<(), FencedLockError> {
    let (current, fence_record) = (read_lock_record(files)?, read_fence_record(files)?);
    let highest = fence_record.fence.max(current.as_ref().map_or(0, |lock| lock.fence));
    validate_fence(current.as_ref(), highest, fence, now)
}

/// Checks the fence of a step: it must be that of the lock or, without a lock, the highest one. Without a lock it may be omitted.
fn validate_fence(
    current: Option<&LockRecord>,
    highest: u64,
    fence: Option<u64>,
    now: SystemTime,
) -> Result<(), FencedLockError> {
    let valid_lock = current.filter(|lock| remaining_lease(lock, now).is_some());
    match (valid_lock, fence) {
        (Some(lock), None) => Err(held_error(lock, now)),
        (_, Some(requested)) if requested < highest => {
            Err(FencedLockError::Fenced { requested, highest })
        }
        (_, Some(requested)) if requested > highest => {
            Err(FencedLockError::NotAcquired { requested })
        }
        _ => Ok(()),
    }
}

fn held_error(lock: &LockRecord, now: SystemTime) -> FencedLockError {
    FencedLockError::Held {
        lock: lock.clone(),
        left: remaining_lease(lock, now).unwrap_or_default(),
    }
}

/// Remaining time of the lease; `None` when it has expired.
fn remaining_lease(lock: &LockRecord, now: SystemTime) -> Option<Duration> {
    let left = lock.expires.checked_sub(unix_millis(now))?;
    (left > 0 && left <= MAX_LEASE_SECONDS * 1000).then(|| Duration::from_millis(left))
}

fn read_lock_record(files: &StateDir) -> SystemResult<Option<LockRecord>> {
    files.read_record(LOCK_FILE, MAX_FILE_BYTES)
}

fn read_fence_record(files: &StateDir) -> SystemResult<FenceRecord> {
    Ok(files.read_record(FENCE_FILE, MAX_FILE_BYTES)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::time::{Duration, SystemTime};

    use super::{DISABLED_FILE, FencedLock, FencedLockError, LOCK_FILE, PROVISIONING_FILE};

    const LEASE: Duration = Duration::from_mins(2);

    fn hold() -> (tempfile::TempDir, FencedLock) {
        let directory = tempfile::tempdir().unwrap();
        let hold = FencedLock::new(directory.path().to_owned());
        (directory, hold)
    }

    /// A9.7: of two concurrent callers the first gets the lock; the other one gets the owner in its error.
    #[test]
    fn a9_7_concurrent_acquisitions_have_one_winner() {
        let (_directory, hold) = hold();
        let barrier = Barrier::new(2);
        let now = SystemTime::now();
        for round in 0..1000 {
            let attempt = |owner: &str| {
                // Two objects on the same files, as in two processes.
                let hold = FencedLock::new(hold.directory.clone());
                barrier.wait();
                hold.acquire_lock(owner, LEASE, None, now)
            };
            let (one, two) = std::thread::scope(|scope| {
                let one = scope.spawn(|| attempt("one"));
                let two = attempt("two");
                (one.join().unwrap(), two)
            });
            let (winner, loser) = match (one, two) {
                (Ok(won), Err(lost)) | (Err(lost), Ok(won)) => (won, lost),
                other => panic!("round {round}: {other:?}"),
            };
            let FencedLockError::Held { lock, .. } = loser else {
                panic!("round {round}: {loser:?}");
            };
            assert_eq!(lock, winner);
            assert_eq!(winner.fence, round + 1);
            assert!(hold.release_lock(Some(winner.fence), false, now).unwrap());
        }
    }

    #[test]
    fn expired_lease_is_taken_over_and_the_old_owner_is_fenced() {
        let (_directory, hold) = hold();
        let now = SystemTime::now();
        let first = hold.acquire_lock("one", LEASE, None, now).unwrap();
        assert!(matches!(
            hold.acquire_lock("two", LEASE, Some(9), now),
            Err(FencedLockError::Held { .. })
        ));
        // A renewal by the owner keeps the fence number.
        let later = now + LEASE / 2;
        let again = hold.acquire_lock("one", LEASE, Some(first.fence), later).unwrap();
        assert_eq!(again.fence, first.fence);
        assert!(again.expires > first.expires);
        hold.admit_step(Some(first.fence), later).unwrap();
        let ended = later + LEASE;
        // No other owner has taken the lock, so the step is still admitted.
        hold.admit_step(Some(first.fence), ended).unwrap();
        let second = hold.acquire_lock("two", LEASE, None, ended).unwrap();
        assert_eq!(second.fence, first.fence + 1);
        assert!(matches!(
            hold.admit_step(Some(first.fence), ended),
            Err(FencedLockError::Fenced { requested: 1, highest: 2 })
        ));
        assert!(matches!(
            hold.acquire_lock("one", LEASE, Some(first.fence), ended + LEASE),
            Err(FencedLockError::Fenced { .. })
        ));
        assert!(matches!(
            hold.release_lock(Some(first.fence), false, ended),
            Err(FencedLockError::Fenced { .. })
        ));
        assert!(matches!(
            hold.admit_step(Some(7), ended),
            Err(FencedLockError::NotAcquired { requested: 7 })
        ));
        assert!(matches!(hold.admit_step(None, ended), Err(FencedLockError::Held { .. })));
    }

    #[test]
    fn fence_numbers_outlive_locks_and_releasing_is_idempotent() {
        let (directory, hold) = hold();
        let now = SystemTime::now();
        assert!(!hold.release_lock(None, false, now).unwrap());
        hold.acquire_lock("one", LEASE, Some(40), now).unwrap();
        assert!(hold.release_lock(Some(40), false, now).unwrap());
        assert!(!hold.release_lock(Some(40), false, now).unwrap());
        hold.admit_step(None, now).unwrap();
        assert!(matches!(hold.admit_step(Some(39), now), Err(FencedLockError::Fenced { .. })));
        // Another owner needs a higher number; the same owner may use its number again.
        assert!(matches!(
            hold.acquire_lock("two", LEASE, Some(40), now),
            Err(FencedLockError::Fenced { .. })
        ));
        assert_eq!(hold.acquire_lock("one", LEASE, Some(40), now).unwrap().fence, 40);
        assert!(hold.release_lock(None, true, now).unwrap());
        assert_eq!(hold.acquire_lock("two", LEASE, None, now).unwrap().fence, 41);
        // A lock file that cannot be parsed does not block.
        hold.release_lock(None, true, now).unwrap();
        std::fs::write(directory.path().join(LOCK_FILE), "garbage").unwrap();
        assert_eq!(hold.acquire_lock("three", LEASE, None, now).unwrap().fence, 42);
        let look = hold.lock_status(now).unwrap();
        assert_eq!((look.owner.as_str(), look.fence), ("three", 42));
        assert!(look.lock.is_some());
    }

    #[test]
    fn finished_node_stays_disabled_until_cleared() {
        let (directory, hold) = hold();
        let now = SystemTime::now();
        std::fs::write(directory.path().join(PROVISIONING_FILE), "").unwrap();
        assert_eq!(hold.read_markers(), (false, true));
        let lock = hold.acquire_lock("one", LEASE, None, now).unwrap();
        assert!(matches!(
            hold.finish_provisioning(Some(0), true, now),
            Err(FencedLockError::Fenced { .. })
        ));
        assert!(hold.finish_provisioning(Some(lock.fence), true, now).unwrap());
        assert!(!directory.path().join(LOCK_FILE).exists());
        assert_eq!(hold.read_markers(), (true, false));
        // A repeated call, as after a lost reply.
        assert!(!hold.finish_provisioning(Some(lock.fence), true, now).unwrap());
        assert!(matches!(hold.admit_step(Some(lock.fence), now), Err(FencedLockError::Disabled)));
        assert!(matches!(
            hold.acquire_lock("two", LEASE, None, now),
            Err(FencedLockError::Disabled)
        ));
        assert!(hold.clear_disabled().unwrap());
        assert!(!hold.clear_disabled().unwrap());
        assert!(!directory.path().join(DISABLED_FILE).exists());
        assert_eq!(hold.acquire_lock("two", LEASE, None, now).unwrap().fence, 2);
    }
}
