//! Reads and writes an operator's files: bounded reads; writes are atomic and synced to disk, and secrets have owner-only permissions.
//! Does not interpret contents.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use zeroize::Zeroizing;

use crate::bounded::{read_limited, read_limited_text};
use crate::replace::replace_file;
use crate::secret::{self, SecretFileError, SecretOwner};

/// A failed file operation.
#[derive(Debug, thiserror::Error)]
pub enum FileAccessError {
    /// A system error.
    #[error("cannot {action} {}", path.display())]
    System {
        /// The operation.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system error.
        #[source]
        source: io::Error,
    },
    /// The file exceeds the size limit.
    #[error("{} has more than {limit} bytes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Maximum size in bytes.
        limit: u64,
    },
    /// A secret that cannot be read, or that other users can read.
    #[error(transparent)]
    Secret(#[from] SecretFileError),
}

impl FileAccessError {
    /// Whether the file does not exist.
    pub fn is_missing(&self) -> bool {
        match self {
            Self::System { source, .. } => source.kind() == io::ErrorKind::NotFound,
            Self::TooLarge { .. } => false,
            Self::Secret(error) => error.is_missing(),
        }
    }
}

/// Returns a constructor for errors of this operation and file.
pub fn file_error(action: &'static str, path: &Path) -> impl Fn(io::Error) -> FileAccessError {
    let path = path.to_owned();
    move |source| FileAccessError::System { action, path: path.clone(), source }
}

/// Reads a text of at most `limit` bytes.
pub fn read_text(path: &Path, limit: u64) -> Result<String, FileAccessError> {
    let file = File::open(path).map_err(file_error("read", path))?;
    read_bounded(file, path, limit)
}

/// Reads a file of at most `limit` bytes.
pub fn read_bytes(path: &Path, limit: usize) -> Result<Vec<u8>, FileAccessError> {
    let limit = limit as u64;
    let read = File::open(path).and_then(|file| read_limited(file, limit));
    read.map_err(|source| read_error(source, path, limit))
}

/// Reads a text of at most `limit` bytes; `path` names the source in errors.
pub fn read_bounded(source: impl Read, path: &Path, limit: u64) -> Result<String, FileAccessError> {
    read_limited_text(source, limit).map_err(|source| read_error(source, path, limit))
}

fn read_error(source: io::Error, path: &Path, limit: u64) -> FileAccessError {
    match source.kind() {
        io::ErrorKind::FileTooLarge => FileAccessError::TooLarge { path: path.to_owned(), limit },
        _ => file_error("read", path)(source),
    }
}

/// Reads a secret; fails if other users could have read or changed it.
pub fn read_secret(path: &Path, limit: u64) -> Result<Zeroizing<String>, FileAccessError> {
    Ok(secret::read_secret(path, SecretOwner::Person, limit)?)
}

/// Creates a directory and its parents, accessible only to the owner.
pub fn create_private_directory(path: &Path) -> Result<(), FileAccessError> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(file_error("create", path))
}

/// Replaces a public file.
pub fn replace_public(path: &Path, bytes: &[u8]) -> Result<(), FileAccessError> {
    replace_file(path, bytes, 0o644).map_err(file_error("write", path))
}

/// Replaces a secret or private file.
pub fn replace_secret(path: &Path, bytes: &[u8]) -> Result<(), FileAccessError> {
    replace_file(path, bytes, 0o600).map_err(file_error("write", path))
}

/// Creates a secret; fails if the file exists.
pub fn create_secret(path: &Path, bytes: &[u8]) -> Result<(), FileAccessError> {
    write_new(path, bytes, 0o600).map_err(file_error("write", path))
}

/// Creates a public file unless it exists; an existing file is not changed.
pub fn create_public_if_missing(path: &Path, bytes: &[u8]) -> Result<(), FileAccessError> {
    match write_new(path, bytes, 0o644) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        written => written.map_err(file_error("write", path)),
    }
}

/// Appends to a public file.
pub fn append_public(path: &Path, bytes: &[u8]) -> Result<(), FileAccessError> {
    append_synced(path, bytes, 0o644, OFlag::empty()).map_err(file_error("write", path))
}

/// Appends to a file that its group can read.
pub fn append_group_readable(path: &Path, bytes: &[u8]) -> Result<(), FileAccessError> {
    // A link could name a file of another purpose, and a pipe would block.
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    append_synced(path, bytes, 0o640, flags).map_err(file_error("write", path))
}

/// Sets the mode each time, so that it depends neither on the umask nor on the version that created the file. What was written before an error is cut off.
fn append_synced(path: &Path, bytes: &[u8], mode: u32, flags: OFlag) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(mode).custom_flags(flags.bits());
    let mut file = options.open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    file.set_permissions(Permissions::from_mode(mode))?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    if written.is_err() {
        file.set_len(metadata.len())?;
    }
    written
}

/// Sets the mode explicitly because the umask may have restricted it.
fn write_new(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.set_permissions(Permissions::from_mode(mode))?;
    file.write_all(bytes)?;
    file.sync_all()
}
