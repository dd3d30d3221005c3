//! How the content of two files is compared: by digest, by time, or not at all.

use muster_system::{FileMetadata, SystemResult};

use crate::providers::digest::{ChecksumKind, timestamp_checksum};
use crate::resource::{Resource, ResourceValue};

/// Maximum size of managed file content, in bytes: the content is held in memory for comparison and writing.
pub(super) const MAX_CONTENT_BYTES: u64 = 512 * 1024 * 1024;

/// The meaning of `checksum`.
#[derive(Debug, Clone, Copy)]
pub(super) enum ContentComparison {
    /// By content.
    Digest(ChecksumKind),
    /// By modification time: in sync if not older.
    Modified,
    /// By status change time: in sync if not older.
    Changed,
    Nothing,
}

impl ContentComparison {
    pub(super) fn from_resource(resource: &Resource) -> Self {
        match resource.get_text("checksum").unwrap_or("sha256") {
            "mtime" => Self::Modified,
            "ctime" => Self::Changed,
            "none" => Self::Nothing,
            name => Self::Digest(ChecksumKind::from_name(name).unwrap_or(ChecksumKind::Sha256)),
        }
    }

    /// Checksum of a file; reads the content only if needed.
    pub(super) fn file_checksum(
        self,
        metadata: &FileMetadata,
        content: impl FnOnce() -> SystemResult<Vec<u8>>,
    ) -> SystemResult<String> {
        Ok(match self {
            Self::Digest(digest) => digest.tagged_checksum(&content()?),
            Self::Modified => timestamp_checksum("mtime", metadata.modified),
            Self::Changed => timestamp_checksum("ctime", metadata.changed),
            Self::Nothing => "{none}".to_owned(),
        })
    }

    /// Checksum of a content; `None` for comparisons that do not use content.
    pub(super) fn content_checksum(self, content: &[u8]) -> Option<String> {
        match self {
            Self::Digest(digest) => Some(digest.tagged_checksum(content)),
            _ => None,
        }
    }

    /// Times are formatted so that they sort.
    pub(super) fn is_satisfied(self, found: &ResourceValue, desired: &ResourceValue) -> bool {
        let later = matches!(self, Self::Modified | Self::Changed) && found >= desired;
        found == desired || later
    }
}
