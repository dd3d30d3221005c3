//! The one door to files that hold a secret: keys, credentials, tokens. What others can read or change is refused before a byte of it
//! is read. It does not know what the secrets mean, and writes none. Files that others may read but not change: `protected`.

#![warn(missing_docs)]

mod protected;

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
pub use protected::{ProtectedFileError, check_protected, read_protected};
pub use zeroize::Zeroizing;

/// Whose secret it is, which decides who else may look at its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretOwner {
    /// A daemon's: a plain file that only its owner can read or change. The owner is root or the daemon's own user: who owns a file can
    /// put another key into it.
    Daemon,
    /// A person's, on the command line: the same, whoever owns it, because `sudo` changes the user and not the file. A pipe will do
    /// too, as in `RPC_CREDENTIALS=<(gpg -d my.creds.gpg) rpc ping`.
    Person,
    /// One of Puppet's private keys: its group may read it too. Puppet makes these files with mode 0640, for its service's group, and
    /// sets the mode back at each of its runs.
    Puppet,
}

impl SecretOwner {
    /// Permission bits that none of its secrets may have.
    const fn forbidden_bits(self) -> u32 {
        match self {
            Self::Daemon | Self::Person => 0o077,
            Self::Puppet => 0o037,
        }
    }

    /// The mode that `chmod` is to set.
    const fn advised_mode(self) -> u32 {
        match self {
            Self::Daemon | Self::Person => 0o600,
            Self::Puppet => 0o640,
        }
    }
}

/// Why a secret's file is not used. Never tells what is in it.
#[derive(Debug, thiserror::Error)]
pub enum SecretFileError {
    /// It cannot be looked at.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's word.
        #[source]
        source: io::Error,
    },
    /// It is a directory or a device.
    #[error("{} is not a file", path.display())]
    NotAFile {
        /// What was given.
        path: PathBuf,
    },
    /// Its group, or everybody, can read or change it.
    #[error("{path} holds a secret and is open to others (mode {mode:04o}); run `chmod {advised:o} {path}`", path = path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
        /// The bits that it should have.
        advised: u32,
    },
    /// It belongs to somebody who is neither root nor the daemon's user.
    #[error("{path} holds a secret and belongs to user {owner}; it must be root's or the daemon's own: run `chown root {path}`", path = path.display())]
    Owner {
        /// The file.
        path: PathBuf,
        /// Its owner's number.
        owner: u32,
    },
    /// Larger than any such secret.
    #[error("{} has more than {limit} bytes; that is not what it should be", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Bytes that are accepted.
        limit: u64,
    },
}

impl SecretFileError {
    /// Whether there is no such file.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Read { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

/// Reads a secret of at most `limit` bytes of UTF-8. What is judged is the file that was opened, not what its name stands for a moment
/// before or after.
///
/// # Errors
/// Says which file is refused, and what would make it good.
pub fn read_secret(
    path: &Path,
    keeper: SecretOwner,
    limit: u64,
) -> Result<Zeroizing<String>, SecretFileError> {
    let failed = |source| SecretFileError::Read {
        path: path.to_owned(),
        source,
    };
    let file = open_secret(path, keeper)?;
    // The room is there before the secret is: a text that grows leaves its earlier places behind, unwiped.
    let expected = file.metadata().map_err(failed)?.len().min(limit);
    let room = usize::try_from(expected).unwrap_or_default();
    let mut text = Zeroizing::new(String::with_capacity(room.saturating_add(1)));
    file.take(limit.saturating_add(1))
        .read_to_string(&mut text)
        .map_err(failed)?;
    if u64::try_from(text.len()).unwrap_or(u64::MAX) > limit {
        return Err(SecretFileError::TooLarge {
            path: path.to_owned(),
            limit,
        });
    }
    Ok(text)
}

/// Says whether a secret would be read, without reading it.
///
/// # Errors
/// The same as for reading.
pub fn check_secret(path: &Path, keeper: SecretOwner) -> Result<(), SecretFileError> {
    open_secret(path, keeper).map(drop)
}

/// Opens what may be read. A daemon does not wait for the other end of a pipe.
fn open_secret(path: &Path, keeper: SecretOwner) -> Result<File, SecretFileError> {
    let failed = |source| SecretFileError::Read {
        path: path.to_owned(),
        source,
    };
    let flags = if keeper == SecretOwner::Person {
        OFlag::O_NOCTTY
    } else {
        OFlag::O_NOCTTY | OFlag::O_NONBLOCK
    };
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits())
        .open(path);
    let file = opened.map_err(failed)?;
    check_metadata(path, keeper, &file.metadata().map_err(failed)?)?;
    Ok(file)
}

fn check_metadata(
    path: &Path,
    keeper: SecretOwner,
    found: &Metadata,
) -> Result<(), SecretFileError> {
    let path = path.to_owned();
    let kind = found.file_type();
    if !(kind.is_file() || keeper == SecretOwner::Person && kind.is_fifo()) {
        return Err(SecretFileError::NotAFile { path });
    }
    let mode = found.mode() & 0o7777;
    if mode & keeper.forbidden_bits() != 0 {
        let advised = keeper.advised_mode();
        return Err(SecretFileError::Exposed {
            path,
            mode,
            advised,
        });
    }
    let owner = found.uid();
    if keeper == SecretOwner::Daemon && owner != 0 && owner != nix::unistd::geteuid().as_raw() {
        return Err(SecretFileError::Owner { path, owner });
    }
    Ok(())
}
