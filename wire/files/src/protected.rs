//! Decides whether a daemon may use a file that controls it: a policy, a program that it runs, a catalog that it applies. Such files hold no secret, so
//! any user may read them. Only root and the process's own user may be able to change them, or to replace a directory or link on their path.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use crate::bounded::read_limited_text;

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
    read_limited_text(file, limit).map_err(|source| match source.kind() {
        io::ErrorKind::FileTooLarge => {
            ProtectedFileError::TooLarge { path: path.to_owned(), limit }
        }
        _ => failed(source),
    })
}

/// Checks that no other user can change the target of this path: the file or directory itself, every directory above it, and every
/// link on the path.
///
/// # Errors
/// The same as for reading.
pub fn check_protected(path: &Path) -> Result<(), ProtectedFileError> {
    let absolute = std::path::absolute(path)
        .map_err(|source| ProtectedFileError::Read { path: path.to_owned(), source })?;
    check_components(Path::new("/"), &absolute, MAX_LINKS).map(drop)
}

/// Checks that no other user can change the target of this path of a machine whose `/` is the directory `root`. A directory must not have the sticky
/// bit in place of closed permissions: others could add entries. Returns the target, without links.
///
/// # Errors
/// The same as for reading.
pub fn check_protected_below(root: &Path, path: &Path) -> Result<PathBuf, ProtectedFileError> {
    check_protected(root)?;
    let target = check_components(root, path, MAX_LINKS)?;
    let metadata = fs::symlink_metadata(&target)
        .map_err(|source| ProtectedFileError::Read { path: target.clone(), source })?;
    let mode = metadata.mode() & 0o7777;
    if mode & SHARED_WRITE_BITS != 0 {
        return Err(ProtectedFileError::Writable { path: target, mode });
    }
    Ok(target)
}

/// Checks each component of an absolute path below the root, and returns its target. Links do not leave the root.
fn check_components(
    root: &Path,
    path: &Path,
    links_left: usize,
) -> Result<PathBuf, ProtectedFileError> {
    let mut resolved = root.to_owned();
    let failed = |source| ProtectedFileError::Read { path: root.to_owned(), source };
    check_metadata(root, &fs::symlink_metadata(root).map_err(failed)?)?;
    let mut components = path.components();
    while let Some(component) = components.next() {
        let name = match component {
            Component::Normal(name) => name,
            Component::ParentDir => {
                if resolved != root {
                    resolved.pop();
                }
                continue;
            }
            _ => continue,
        };
        let next = resolved.join(name);
        let failed = |source| ProtectedFileError::Read { path: next.clone(), source };
        let metadata = fs::symlink_metadata(&next).map_err(failed)?;
        if metadata.is_symlink() {
            check_owner(&next, &metadata)?;
            let links_left = links_left
                .checked_sub(1)
                .ok_or_else(|| failed(io::Error::other("too many symbolic links")))?;
            let target = fs::read_link(&next).map_err(failed)?;
            let directory = resolved.strip_prefix(root).unwrap_or(&resolved);
            let target = directory.join(target).join(components.as_path());
            return check_components(root, &target, links_left);
        }
        check_metadata(&next, &metadata)?;
        resolved = next;
    }
    Ok(resolved)
}

/// Checks that no other user can change a file or directory with this metadata; those above it are not checked.
///
/// # Errors
/// The same as for reading.
pub fn check_metadata(path: &Path, metadata: &Metadata) -> Result<(), ProtectedFileError> {
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
