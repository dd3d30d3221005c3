//! Whether a file was changed or replaced, from its metadata.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// What differs after a file was changed or replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStamp {
    device: u64,
    inode: u64,
    size: u64,
    /// Seconds and nanoseconds, as of the last change of the content; a program can set them.
    modified: (i64, i64),
    /// The same of content and metadata; only the system sets them.
    changed: (i64, i64),
}

impl FileStamp {
    /// The stamp of the file that is there now; `None` if it cannot be found.
    pub fn read(path: &Path) -> Option<Self> {
        fs::metadata(path).ok().as_ref().map(Self::of_metadata)
    }

    /// The stamp of a file with this metadata.
    pub fn of_metadata(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::FileStamp;

    #[test]
    fn stamp_differs_after_each_change() {
        let scratch = tempfile::tempdir().unwrap();
        let (file, new) = (scratch.path().join("a"), scratch.path().join("b"));
        assert_eq!(FileStamp::read(&file), None);
        fs::write(&file, "one").unwrap();
        let first = FileStamp::read(&file);
        assert!(first.is_some() && first == FileStamp::read(&file));
        fs::write(&new, "two").unwrap();
        fs::rename(&new, &file).unwrap();
        let replaced = FileStamp::read(&file);
        assert_ne!(first, replaced);
        fs::write(&file, "three").unwrap();
        assert_ne!(replaced, FileStamp::read(&file));
    }
}
