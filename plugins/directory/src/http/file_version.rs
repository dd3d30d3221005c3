//! Which version of a file was read, to read it again when it has changed.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Inode, modification time, its nanoseconds, and size.
pub(super) type FileVersion = (u64, i64, i64, u64);

/// The version that is there now; `None` if the file cannot be found.
pub(super) fn file_version(path: &Path) -> Option<FileVersion> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.ino(), metadata.mtime(), metadata.mtime_nsec(), metadata.len()))
}
