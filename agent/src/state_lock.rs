//! Keeps every other daemon out of a state directory: two would forget each other's seen requests.

use std::fs::{DirBuilder, File, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::assemble::AssembleError;

/// How long what a killed daemon was just starting may outlive it, on a machine that is busy.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);
/// How often it is looked whether it is gone.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Keeps other daemons out of a state directory, until it is dropped.
#[derive(Debug)]
pub(crate) struct StateLock {
    /// The directory itself, and the lock file in it.
    _files: Vec<File>,
}

/// Makes the state directory, and keeps every other daemon out of it: two would forget each other's seen requests. Waits for a moment
/// for one that was killed: a program that it was just starting holds the lock until it has begun.
pub(crate) async fn acquire_state_lock(state: &Path) -> Result<StateLock, AssembleError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(state);
    made.map_err(|source| AssembleError::Directory {
        path: state.to_owned(),
        source,
    })?;
    let directory = state.to_owned();
    let failed = |source| AssembleError::Lock {
        path: directory.clone(),
        source,
    };
    let mut files = vec![File::open(state).map_err(failed)?];
    files.extend(lock_file(state)?);
    let latest = Instant::now() + LOCK_TIMEOUT;
    for file in &files {
        wait_for_lock(file, state, latest).await?;
    }
    Ok(StateLock { _files: files })
}

/// The file that every version locks; nothing where the state cannot be written, which is no reason not to answer questions.
fn lock_file(state: &Path) -> Result<Option<File>, AssembleError> {
    let path = state.join("lock");
    let opened = File::options()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(&path);
    // Whoever can open it can hold it, and keep the daemon from starting. An older one may have been open to all.
    let closed = opened.and_then(|file| {
        file.set_permissions(Permissions::from_mode(0o600))?;
        Ok(file)
    });
    match closed {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => {
            tracing::error!(%error, path = %path.display(), "the state cannot be written: no change is made");
            Ok(None)
        }
        Err(source) => Err(AssembleError::Lock { path, source }),
    }
}

async fn wait_for_lock(file: &File, state: &Path, latest: Instant) -> Result<(), AssembleError> {
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if Instant::now() < latest => {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
            Err(TryLockError::WouldBlock) => {
                return Err(AssembleError::Occupied {
                    path: state.to_owned(),
                });
            }
            Err(TryLockError::Error(source)) => {
                return Err(AssembleError::Lock {
                    path: state.to_owned(),
                    source,
                });
            }
        }
    }
}
