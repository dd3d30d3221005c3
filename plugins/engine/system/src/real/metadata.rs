//! Metadata of files as the engine sees them.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::time::{Duration, SystemTime};

use crate::{FileEntryKind, FileMetadata};

/// Converts the error of a path that does not exist to `None`.
pub(crate) fn absent_is_none<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    use io::ErrorKind::{NotADirectory, NotFound};
    match result {
        Err(error) if matches!(error.kind(), NotFound | NotADirectory) => Ok(None),
        result => result.map(Some),
    }
}

pub(crate) fn convert_metadata(found: &fs::Metadata) -> FileMetadata {
    let kind = found.file_type();
    let kind = if kind.is_symlink() {
        FileEntryKind::Link
    } else if kind.is_dir() {
        FileEntryKind::Directory
    } else if kind.is_file() {
        FileEntryKind::File
    } else {
        debug_assert!(
            kind.is_socket() || kind.is_fifo() || kind.is_block_device() || kind.is_char_device()
        );
        FileEntryKind::Other
    };
    FileMetadata {
        kind,
        mode: found.mode() & 0o7777,
        uid: found.uid(),
        gid: found.gid(),
        size: found.size(),
        modified: system_time(found.mtime(), found.mtime_nsec()),
        accessed: system_time(found.atime(), found.atime_nsec()),
        changed: system_time(found.ctime(), found.ctime_nsec()),
        inode: found.ino(),
    }
}

/// Converts seconds and nanoseconds since 1970; out-of-range values become 1970.
fn system_time(seconds: i64, nanoseconds: i64) -> SystemTime {
    let size = Duration::from_secs(seconds.unsigned_abs());
    let epoch = SystemTime::UNIX_EPOCH;
    let whole = if seconds < 0 { epoch.checked_sub(size) } else { epoch.checked_add(size) };
    let rest = Duration::from_nanos(nanoseconds.unsigned_abs());
    whole.and_then(|whole| whole.checked_add(rest)).unwrap_or(SystemTime::UNIX_EPOCH)
}
