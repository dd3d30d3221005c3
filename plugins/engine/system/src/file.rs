//! What a path is, and what it can be told to be.

use std::time::SystemTime;

/// The kind of a directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileEntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link, whether or not it points anywhere.
    Link,
    /// A device, socket or pipe.
    Other,
}

/// What `lstat` tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileMetadata {
    /// File, directory, link or other.
    pub kind: FileEntryKind,
    /// Permission bits, without the type: `0o7777` at most.
    pub mode: u32,
    /// Numeric owner.
    pub uid: u32,
    /// Numeric group.
    pub gid: u32,
    /// Size in bytes.
    pub size: u64,
    /// Last change of the content.
    pub modified: SystemTime,
    /// Last look at the content, as exactly as the file system keeps it.
    pub accessed: SystemTime,
    /// Last change of the content, the owner, the mode or the number of names.
    pub changed: SystemTime,
    /// Which file it is on its file system: another one when it was replaced as a whole.
    pub inode: u64,
}

/// Mode, owner and group to set; `None` leaves as is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileAttributes {
    /// Permission bits.
    pub mode: Option<u32>,
    /// Numeric owner.
    pub uid: Option<u32>,
    /// Numeric group.
    pub gid: Option<u32>,
}
