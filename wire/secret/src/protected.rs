//! Reads files that control a daemon, such as policies. They hold no secret, so any user may read them. Only root and the process's
//! own user may be able to change them, or to replace a directory or link on their path.

use std::fs::{self, File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

/// Most symbolic links followed on one path, as in the kernel.
const MAX_LINKS: usize = 40;
/// Write permission of group and others.
const SHARED_WRITE_BITS: u32 = 0o022;
/// In a directory with this bit, only its owner and an entry's owner can rename or remove the entry.
const STICKY_BIT: u32 = 0o1000;

/// Why a file is refused.
#[derive(Debug, thiserror::Error)]
pub enum ProtectedFileError {
    /// The file or a directory on its path cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// The system error.
        #[source]
        source: io::Error,
    },
    /// The group or other users can change it.
    #[error("{path} can be changed by other users (mode {mode:04o}); run `chmod go-w {path}`", path = path.display())]
    Writable {
        /// The file, or a directory on its path.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The owner is neither root nor the process's user.
    #[error("{path} belongs to user {owner}, who can change it; run `chown -h root {path}`", path = path.display())]
    Owner {
        /// The file, link or directory.
        path: PathBuf,
        /// The owner's user id.
        owner: u32,
    },
    /// The file exceeds the size limit.
    #[error("{} has more than {limit} bytes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit in bytes.
        limit: u64,
    },
}

/// Reads a file of at most `limit` bytes of UTF-8 that no other user can change.
///
/// # Errors
/// Names the file, link or directory that others can change, and the command that fixes it.
pub fn read_protected(path: &Path, limit: u64) -> Result<String, ProtectedFileError> {
    check_protected(path)?;
    let failed = |source| ProtectedFileError::Read { path: path.to_owned(), source };
    let file = File::open(path).map_err(failed)?;
    check_metadata(path, &file.metadata().map_err(failed)?)?;
    let mut text = String::new();
    file.take(limit.saturating_add(1)).read_to_string(&mut text).map_err(failed)?;
    if u64::try_from(text.len()).unwrap_or(u64::MAX) > limit {
        return Err(ProtectedFileError::TooLarge { path: path.to_owned(), limit });
    }
    Ok(text)
}

/// Checks that no other user can change the target of this path: the file or directory itself, every directory above it, and every
/// link on the path.
///
/// # Errors
/// The same as for reading.
pub fn check_protected(path: &Path) -> Result<(), ProtectedFileError> {
    let absolute = std::path::absolute(path)
        .map_err(|source| ProtectedFileError::Read { path: path.to_owned(), source })?;
    check_components(&absolute, MAX_LINKS)
}

/// Checks each component of an absolute path, starting at the root.
fn check_components(path: &Path, links_left: usize) -> Result<(), ProtectedFileError> {
    let mut resolved = PathBuf::new();
    let mut components = path.components();
    while let Some(component) = components.next() {
        if component == Component::ParentDir {
            resolved.pop();
            continue;
        }
        let next = resolved.join(component);
        let failed = |source| ProtectedFileError::Read { path: next.clone(), source };
        let metadata = fs::symlink_metadata(&next).map_err(failed)?;
        if metadata.is_symlink() {
            check_owner(&next, &metadata)?;
            let links_left = links_left
                .checked_sub(1)
                .ok_or_else(|| failed(io::Error::other("too many symbolic links")))?;
            let target = fs::read_link(&next).map_err(failed)?;
            return check_components(&resolved.join(target).join(components.as_path()), links_left);
        }
        check_metadata(&next, &metadata)?;
        resolved = next;
    }
    Ok(())
}

fn check_metadata(path: &Path, metadata: &Metadata) -> Result<(), ProtectedFileError> {
    check_owner(path, metadata)?;
    let mode = metadata.mode() & 0o7777;
    let is_shared = metadata.is_dir() && mode & STICKY_BIT != 0;
    if mode & SHARED_WRITE_BITS != 0 && !is_shared {
        return Err(ProtectedFileError::Writable { path: path.to_owned(), mode });
    }
    Ok(())
}

fn check_owner(path: &Path, metadata: &Metadata) -> Result<(), ProtectedFileError> {
    let owner = metadata.uid();
    if owner == 0 || owner == nix::unistd::geteuid().as_raw() {
        return Ok(());
    }
    Err(ProtectedFileError::Owner { path: path.to_owned(), owner })
}
