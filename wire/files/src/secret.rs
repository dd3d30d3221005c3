//! Reads files with secrets: keys, credentials, tokens. A file that other users can read or change is refused before it is read.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use zeroize::Zeroizing;

/// The kind of secret, which determines the allowed permissions of its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretOwner {
    /// A daemon's secret: a regular file that only its owner can read or change. The owner must be root or the daemon's own user,
    /// because the owner of a file can replace the key.
    Daemon,
    /// A user's secret on the command line: like a daemon's, but with any owner, because `sudo` changes the user and not the file.
    /// A pipe is accepted too, as in `RPC_CREDENTIALS=<(gpg -d my.creds.gpg) rpc ping`.
    Person,
    /// One of Puppet's private keys: its group may also read it. Puppet creates these files with mode 0640 for its service's group,
    /// and restores the mode at each run.
    Puppet,
}

impl SecretOwner {
    /// Permission bits that the file must not have.
    const fn forbidden_bits(self) -> u32 {
        match self {
            Self::Daemon | Self::Person => 0o077,
            Self::Puppet => 0o037,
        }
    }

    /// The mode that the error advises for `chmod`.
    const fn advised_mode(self) -> u32 {
        match self {
            Self::Daemon | Self::Person => 0o600,
            Self::Puppet => 0o640,
        }
    }
}

/// Why a secret file is refused. Never contains the secret.
#[derive(Debug, thiserror::Error)]
pub enum SecretFileError {
    /// The file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system error.
        #[source]
        source: io::Error,
    },
    /// The path is a directory or a device.
    #[error("{} is not a file", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The group or other users can read or change it.
    #[error("{path} contains a secret and is accessible to other users (mode {mode:04o}); run `chmod {advised:o} {path}`", path = path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
        /// The advised permission bits.
        advised: u32,
    },
    /// The owner is neither root nor the daemon's user.
    #[error("{path} contains a secret and belongs to user {owner}; it must belong to root or to the user of this process; run `chown root {path}`", path = path.display())]
    Owner {
        /// The file.
        path: PathBuf,
        /// The owner's user id.
        owner: u32,
    },
    /// The file exceeds the size limit.
    #[error("{} has more than {limit} bytes, the limit for this file", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit in bytes.
        limit: u64,
    },
}

impl SecretFileError {
    /// Whether the file does not exist.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Read { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

/// Reads a secret of at most `limit` bytes of UTF-8. The checks use the opened file descriptor rather than the path, so a
/// concurrent rename cannot bypass them.
///
/// # Errors
/// Names the refused file, and the command that fixes it.
pub fn read_secret(
    path: &Path,
    expected_owner: SecretOwner,
    limit: u64,
) -> Result<Zeroizing<String>, SecretFileError> {
    let failed = |source| SecretFileError::Read { path: path.to_owned(), source };
    let file = open_secret(path, expected_owner)?;
    // Allocate the whole buffer first: a growing buffer would leave unwiped copies behind.
    let expected = file.metadata().map_err(failed)?.len().min(limit);
    let capacity = usize::try_from(expected).unwrap_or_default();
    let mut text = Zeroizing::new(String::with_capacity(capacity.saturating_add(1)));
    file.take(limit.saturating_add(1)).read_to_string(&mut text).map_err(failed)?;
    if u64::try_from(text.len()).unwrap_or(u64::MAX) > limit {
        return Err(SecretFileError::TooLarge { path: path.to_owned(), limit });
    }
    Ok(text)
}

/// Checks whether a secret would be accepted, without reading it.
///
/// # Errors
/// The same as for reading.
pub fn check_secret(path: &Path, expected_owner: SecretOwner) -> Result<(), SecretFileError> {
    open_secret(path, expected_owner).map(drop)
}

/// Opens a file after its checks. A daemon opens without blocking on a pipe.
fn open_secret(path: &Path, expected_owner: SecretOwner) -> Result<File, SecretFileError> {
    let failed = |source| SecretFileError::Read { path: path.to_owned(), source };
    let flags = if expected_owner == SecretOwner::Person {
        OFlag::O_NOCTTY
    } else {
        OFlag::O_NOCTTY | OFlag::O_NONBLOCK
    };
    let opened = OpenOptions::new().read(true).custom_flags(flags.bits()).open(path);
    let file = opened.map_err(failed)?;
    check_metadata(path, expected_owner, &file.metadata().map_err(failed)?)?;
    Ok(file)
}

fn check_metadata(
    path: &Path,
    expected_owner: SecretOwner,
    metadata: &Metadata,
) -> Result<(), SecretFileError> {
    let path = path.to_owned();
    let kind = metadata.file_type();
    if !(kind.is_file() || expected_owner == SecretOwner::Person && kind.is_fifo()) {
        return Err(SecretFileError::NotAFile { path });
    }
    let mode = metadata.mode() & 0o7777;
    if mode & expected_owner.forbidden_bits() != 0 {
        let advised = expected_owner.advised_mode();
        return Err(SecretFileError::Exposed { path, mode, advised });
    }
    let owner = metadata.uid();
    if expected_owner == SecretOwner::Daemon
        && owner != 0
        && owner != nix::unistd::geteuid().as_raw()
    {
        return Err(SecretFileError::Owner { path, owner });
    }
    Ok(())
}
