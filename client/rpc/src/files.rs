//! The files that `rpc` keeps: whole or not at all, on disk before anybody relies on them, and secrets readable by their owner only.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use muster_secret::{SecretFileError, SecretOwner, Zeroizing};

/// What could not be done with which file.
#[derive(Debug, thiserror::Error)]
pub enum RpcFileError {
    /// The system refuses.
    #[error("cannot {action} {}", path.display())]
    System {
        /// What was tried.
        action: &'static str,
        /// With which file.
        path: PathBuf,
        /// The system's word.
        #[source]
        source: io::Error,
    },
    /// Larger than it can be.
    #[error("{} has more than {limit} bytes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Bytes that are accepted.
        limit: u64,
    },
    /// A secret that cannot be read, or that others can read too.
    #[error(transparent)]
    Secret(#[from] SecretFileError),
}

/// Makes the error of an action on a file.
pub fn file_error(action: &'static str, path: &Path) -> impl Fn(io::Error) -> RpcFileError {
    let path = path.to_owned();
    move |source| RpcFileError::System {
        action,
        path: path.clone(),
        source,
    }
}

/// Reads a text of at most `limit` bytes.
pub fn read_text(path: &Path, limit: u64) -> Result<String, RpcFileError> {
    let file = File::open(path).map_err(file_error("read", path))?;
    let mut text = String::new();
    file.take(limit + 1)
        .read_to_string(&mut text)
        .map_err(file_error("read", path))?;
    if text.len() as u64 > limit {
        return Err(RpcFileError::TooLarge {
            path: path.to_owned(),
            limit,
        });
    }
    Ok(text)
}

/// Reads a secret, unless others could have read or changed it too.
pub fn read_secret(path: &Path, limit: u64) -> Result<Zeroizing<String>, RpcFileError> {
    Ok(muster_secret::read_secret(
        path,
        SecretOwner::Person,
        limit,
    )?)
}

/// Makes a directory, with those above it, that only its owner can enter.
pub fn create_private_directory(path: &Path) -> Result<(), RpcFileError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(file_error("make", path))
}

/// Puts a public file in place of what is there.
pub fn replace_public(path: &Path, bytes: &[u8]) -> Result<(), RpcFileError> {
    replace_with_mode(path, bytes, 0o644)
}

/// Puts a secret, or what is nobody else's, in place of what is there.
pub fn replace_secret(path: &Path, bytes: &[u8]) -> Result<(), RpcFileError> {
    replace_with_mode(path, bytes, 0o600)
}

/// Writes a secret where nothing is yet.
pub fn create_secret(path: &Path, bytes: &[u8]) -> Result<(), RpcFileError> {
    write_new(path, bytes, 0o600).map_err(file_error("write", path))
}

/// Adds to the end of a public file. The mode is set each time, so that neither the umask nor an older version leaves the file open.
pub fn append_public(path: &Path, bytes: &[u8]) -> Result<(), RpcFileError> {
    let failed = file_error("write", path);
    let mut file = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o644)
        .open(path)
        .map_err(&failed)?;
    file.set_permissions(Permissions::from_mode(0o644))
        .and_then(|()| file.write_all(bytes))
        .and_then(|()| file.sync_all())
        .map_err(failed)
}

/// A reader sees the old file or the new one. The name beside it begins with a dot and is ours alone under the lock.
fn replace_with_mode(path: &Path, bytes: &[u8], mode: u32) -> Result<(), RpcFileError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let beside = path.with_file_name(format!(".{name}.{}", std::process::id()));
    let result = write_new(&beside, bytes, mode).and_then(|()| fs::rename(&beside, path));
    if result.is_err() {
        let _ = fs::remove_file(&beside);
    }
    result.map_err(file_error("write", path))
}

/// The mode is set once more because the process's mask may have narrowed it.
fn write_new(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path)?;
    file.set_permissions(Permissions::from_mode(mode))?;
    file.write_all(bytes)?;
    file.sync_all()
}
