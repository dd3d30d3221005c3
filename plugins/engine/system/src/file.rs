//! File metadata and attributes.

use std::time::SystemTime;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileEntryKind {
    File,
    Directory,
    /// A symbolic link, dangling or not.
    Link,
    /// A device, socket or pipe.
    Other,
}

/// Result of `lstat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileMetadata {
    /// File, directory, link or other.
    pub kind: FileEntryKind,
    /// Permission bits, without the type: `0o7777` at most.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    /// Size in bytes.
    pub size: u64,
    /// Modification time of the content.
    pub modified: SystemTime,
    /// Access time, as precise as the file system records it.
    pub accessed: SystemTime,
    /// Status change time: content, owner, mode or number of links.
    pub changed: SystemTime,
    /// Inode number; changes when the file is replaced.
    pub inode: u64,
}

/// Mode, owner and group to set; `None` keeps the current value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileAttributes {
    /// Permission bits.
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
}

impl FileAttributes {
    pub fn with_mode(mode: u32) -> Self {
        Self { mode: Some(mode), ..Self::default() }
    }
}
