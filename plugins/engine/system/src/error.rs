//! What can go wrong with the machine, with the path or program it went wrong with.

use std::error::Error;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// A failure of one call on the machine.
#[derive(Debug, thiserror::Error)]
pub enum SystemError {
    /// A file operation failed.
    #[error("cannot {verb} {}", path.display())]
    File {
        /// What was tried, as in `cannot read /etc/passwd`.
        verb: &'static str,
        /// The node's own path.
        path: PathBuf,
        /// The system's word.
        #[source]
        source: io::Error,
    },
    /// A file is larger than the caller wanted to read.
    #[error("{} is {size} bytes, more than the {limit} that are read of such a file", path.display())]
    TooLarge {
        /// The node's own path.
        path: PathBuf,
        /// Its size in bytes.
        size: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// The path is relative, or climbs out of the root.
    #[error("{} is not an absolute path inside the machine", path.display())]
    Path {
        /// What was given.
        path: PathBuf,
    },
    /// Somebody else holds the lock.
    #[error("{} is still locked by another process after {} s", path.display(), patience.as_secs())]
    Locked {
        /// The node's own path of the lock file.
        path: PathBuf,
        /// How long was waited.
        patience: Duration,
    },
    /// The program could not be started.
    #[error("cannot start `{program}`")]
    Start {
        /// The program as asked for.
        program: String,
        /// The system's word.
        #[source]
        source: io::Error,
    },
    /// A program that is talked to does not take or give lines.
    #[error("cannot talk to `{program}`")]
    Talk {
        /// The program as asked for.
        program: String,
        /// The system's word.
        #[source]
        source: io::Error,
    },
    /// A process could not be signalled.
    #[error("cannot signal process {pid}")]
    Signal {
        /// Its number.
        pid: u32,
        /// The system's word.
        #[source]
        source: io::Error,
    },
    /// The program ran longer than allowed; its process group was ended.
    #[error("`{program}` did not end within {} s and was stopped", after.as_secs_f64())]
    Timeout {
        /// The program as asked for.
        program: String,
        /// The limit.
        after: Duration,
    },
    /// The view of the machine that was given does not allow it; nothing was touched.
    #[error("a plan for a remote caller does not {what}")]
    NotAllowed {
        /// What was tried, as in "run `/bin/sh`".
        what: String,
    },
    /// The caller took the request back; the process group was ended.
    #[error("`{program}` was stopped because the request was cancelled")]
    Cancelled {
        /// The program as asked for.
        program: String,
    },
}

impl SystemError {
    /// Whether the error says that something does not exist.
    pub fn is_not_found(&self) -> bool {
        match self {
            Self::File { source, .. } | Self::Start { source, .. } => {
                source.kind() == io::ErrorKind::NotFound
            }
            _ => false,
        }
    }
}

/// An error with its causes in one line, for logs, records and answers: `cannot read /etc/passwd: permission denied`.
pub fn error_chain(error: &dyn Error) -> String {
    with_causes(error.to_string(), error)
}

/// Words of one's own, followed by what caused an error.
pub fn with_causes(words: impl Into<String>, error: &dyn Error) -> String {
    let mut line = words.into();
    let mut cause = error.source();
    while let Some(inner) = cause {
        line.push_str(": ");
        line.push_str(&inner.to_string());
        cause = inner.source();
    }
    line
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::PathBuf;

    use super::{SystemError, error_chain, with_causes};

    #[test]
    fn an_error_is_followed_by_its_causes() {
        let error = SystemError::File {
            verb: "read",
            path: PathBuf::from("/etc/passwd"),
            source: io::Error::other("the disk is on fire"),
        };
        assert_eq!(
            error_chain(&error),
            "cannot read /etc/passwd: the disk is on fire"
        );
        assert_eq!(
            with_causes("no users", &error),
            "no users: the disk is on fire"
        );
        assert_eq!(error_chain(&io::Error::other("alone")), "alone");
    }
}
