//! Errors of system access, with the path or program concerned.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub type SystemResult<T> = Result<T, SystemError>;

#[derive(Debug, thiserror::Error)]
pub enum SystemError {
    #[error("cannot {verb} {}", path.display())]
    File {
        /// The operation, as in `cannot read /etc/passwd`.
        verb: &'static str,
        /// Path on the node.
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{} has {size} bytes, more than the limit of {limit} for this file", path.display())]
    TooLarge {
        /// Path on the node.
        path: PathBuf,
        /// Its size in bytes.
        size: u64,
        /// The limit in bytes.
        limit: u64,
    },
    #[error("{} is not an absolute path below the root", path.display())]
    Path { path: PathBuf },
    /// Another user can change what controls this process.
    #[error(transparent)]
    Unprotected(muster_files::ProtectedFileError),
    #[error("{} is still locked by another process after {} s", path.display(), timeout.as_secs())]
    Locked {
        /// Path of the lock file on the node.
        path: PathBuf,
        timeout: Duration,
    },
    #[error("cannot start `{program}`")]
    Start {
        program: String,
        #[source]
        source: io::Error,
    },
    #[error("cannot communicate with `{program}`")]
    Communication {
        program: String,
        #[source]
        source: io::Error,
    },
    #[error("cannot signal process {pid}")]
    Signal {
        pid: u32,
        #[source]
        source: io::Error,
    },
    /// The program exceeded its timeout; its process group was killed.
    #[error("`{program}` did not end within {} s and was stopped", after.as_secs_f64())]
    Timeout { program: String, after: Duration },
    /// The view of the machine does not permit the operation; nothing was changed.
    #[error("a plan for a remote caller does not {operation}")]
    NotAllowed {
        /// The operation, as in "run `/bin/sh`".
        operation: String,
    },
    /// The caller cancelled the request, or the daemon stops; the program keeps running.
    #[error(
        "`{program}` was not interrupted; it is still running as process {pid}, and its outcome is unknown"
    )]
    LeftRunning { program: String, pid: u32 },
    /// The caller cancelled the request; the process group was killed.
    #[error("`{program}` was stopped because the request was cancelled")]
    Cancelled { program: String },
}

impl SystemError {
    pub fn is_not_found(&self) -> bool {
        match self {
            Self::File { source, .. } | Self::Start { source, .. } => {
                source.kind() == io::ErrorKind::NotFound
            }
            _ => false,
        }
    }
}

impl From<muster_files::ProtectedFileError> for SystemError {
    /// A file that cannot be read is an error like any other, so that callers recognise a missing one.
    fn from(error: muster_files::ProtectedFileError) -> Self {
        match error {
            muster_files::ProtectedFileError::Read { path, source } => {
                Self::File { verb: "read", path, source }
            }
            unprotected => Self::Unprotected(unprotected),
        }
    }
}

/// Adds the operation and the path to an error of the kernel; for `map_err`.
pub(crate) fn file_error<E: Into<io::Error>>(
    verb: &'static str,
    path: &Path,
) -> impl Fn(E) -> SystemError {
    move |source| SystemError::File { verb, path: path.to_owned(), source: source.into() }
}

/// Converts the error of something that does not exist to `None`.
pub fn found_or_none<T>(result: SystemResult<T>) -> SystemResult<Option<T>> {
    match result {
        Err(error) if error.is_not_found() => Ok(None),
        result => result.map(Some),
    }
}
