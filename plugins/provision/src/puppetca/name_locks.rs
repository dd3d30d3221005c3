//! Makes the changes of one name one after the other: a slow `clean` of a provisioner that died must not remove the certificate that its successor
//! has had signed meanwhile. Calls for other names do not wait, except for the few that share a lock.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::puppetca::name::CertName;

/// Number of locks; names are distributed over them.
const LOCK_COUNT: usize = 256;

/// Locks of names, of a constant size.
#[derive(Debug)]
pub(crate) struct NameLocks {
    locks: Vec<Mutex<()>>,
    hasher: RandomState,
}

impl NameLocks {
    pub(crate) fn new() -> Self {
        let locks = std::iter::repeat_with(Mutex::default).take(LOCK_COUNT).collect();
        Self { locks, hasher: RandomState::new() }
    }

    /// Waits until no other call changes this name. Blocks at most as long as the call that holds the lock, which has a time limit of its own.
    pub(crate) fn lock_name(&self, name: &CertName) -> Option<MutexGuard<'_, ()>> {
        let hash = usize::try_from(self.hasher.hash_one(name.as_str()) % LOCK_COUNT as u64);
        let lock = self.locks.get(hash.unwrap_or_default())?;
        Some(lock.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
