//! The lock of a state directory: two daemons in it would lose each other's seen requests.

use std::fs::{DirBuilder, File, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

use muster_files::{check_protected, check_protected_below, check_protected_metadata};

use crate::daemon::assemble::AssembleError;

/// How long a child that a killed daemon was just starting may outlive it on a busy machine.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Excludes other daemons from a state directory until dropped.
#[derive(Debug)]
pub(crate) struct StateLock {
    /// The directory itself, and the lock file in it.
    _files: Vec<File>,
}

/// Creates the state directory and locks it: two daemons in it would lose each other's seen requests. Waits briefly for a killed daemon: a child
/// that it was starting holds the lock until it executes its program.
pub(crate) async fn acquire_state_lock(state: &Path) -> Result<StateLock, AssembleError> {
    let created = DirBuilder::new().recursive(true).mode(0o700).create(state);
    created.map_err(|source| AssembleError::Directory { path: state.to_owned(), source })?;
    check_state_protected(state)?;
    let directory = state.to_owned();
    let lock_error = |source| AssembleError::Lock { path: directory.clone(), source };
    let mut files = vec![File::open(state).map_err(lock_error)?];
    files.extend(lock_file(state)?);
    let deadline = Instant::now() + LOCK_TIMEOUT;
    for file in &files {
        wait_for_lock(file, state, deadline).await?;
    }
    Ok(StateLock { _files: files })
}

/// Refuses a directory that other users can change, or that has an entry of another user: who removes or replaces a file in it makes the daemon accept
/// repeated requests, used approvals, and revoked keys.
fn check_state_protected(state: &Path) -> Result<(), AssembleError> {
    let open_error = |source| AssembleError::Directory { path: state.to_owned(), source };
    let directory = std::path::absolute(state).map_err(open_error)?;
    check_protected_below(Path::new("/"), &directory)?;
    for entry in directory.read_dir().map_err(open_error)? {
        let path = entry.map_err(open_error)?.path();
        let metadata = match path.symlink_metadata() {
            Ok(metadata) => metadata,
            // A temporary file of another command.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(source) => return Err(AssembleError::Directory { path, source }),
        };
        // The permissions of a link have no meaning; its target is checked with its directories.
        if !metadata.is_symlink() {
            check_protected_metadata(&path, &metadata)?;
        } else if path.exists() {
            check_protected(&path)?;
        }
    }
    Ok(())
}

/// The lock file that every version uses; `None` if the state directory is not writable, because a node can still reply to read requests then.
fn lock_file(state: &Path) -> Result<Option<File>, AssembleError> {
    let path = state.join("lock");
    let opened = File::options().create(true).append(true).mode(0o600).open(&path);
    // Any user who can open the file can lock it and block the daemon. An older file may be open to all.
    let restricted = opened.and_then(|file| {
        file.set_permissions(Permissions::from_mode(0o600))?;
        Ok(file)
    });
    match restricted {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => {
            tracing::error!(%error, path = %path.display(), "the state directory is read-only; changes are refused");
            Ok(None)
        }
        Err(source) => Err(AssembleError::Lock { path, source }),
    }
}

async fn wait_for_lock(file: &File, state: &Path, deadline: Instant) -> Result<(), AssembleError> {
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
            Err(TryLockError::WouldBlock) => {
                return Err(AssembleError::Occupied { path: state.to_owned() });
            }
            Err(TryLockError::Error(source)) => {
                return Err(AssembleError::Lock { path: state.to_owned(), source });
            }
        }
    }
}
