//! By what the content of two files is compared: a digest, a moment, or nothing.

use muster_system::{FileMetadata, SystemError};

use crate::providers::digest::{ChecksumKind, timestamp_checksum};
use crate::resource::{Resource, ResourceValue};

/// The meaning of `checksum`.
#[derive(Debug, Clone, Copy)]
pub(super) enum ContentComparison {
    /// By content.
    Digest(ChecksumKind),
    /// By the last change of the content: in order when it is not older.
    Modified,
    /// By the last change of anything, in the same way.
    Changed,
    /// Not at all.
    Nothing,
}

impl ContentComparison {
    /// What the resource says.
    pub(super) fn from_resource(resource: &Resource) -> Self {
        match resource.get_text("checksum").unwrap_or("sha256") {
            "mtime" => Self::Modified,
            "ctime" => Self::Changed,
            "none" => Self::Nothing,
            name => Self::Digest(ChecksumKind::from_name(name).unwrap_or(ChecksumKind::Sha256)),
        }
    }

    /// The checksum of a file; its content is only asked for when it counts.
    pub(super) fn file_checksum(
        self,
        metadata: &FileMetadata,
        content: impl FnOnce() -> Result<Vec<u8>, SystemError>,
    ) -> Result<String, SystemError> {
        Ok(match self {
            Self::Digest(digest) => digest.tagged_checksum(&content()?),
            Self::Modified => timestamp_checksum("mtime", metadata.modified),
            Self::Changed => timestamp_checksum("ctime", metadata.changed),
            Self::Nothing => "{none}".to_owned(),
        })
    }

    /// The checksum of a content; none where contents are compared by anything else.
    pub(super) fn content_checksum(self, content: &[u8]) -> Option<String> {
        match self {
            Self::Digest(digest) => Some(digest.tagged_checksum(content)),
            _ => None,
        }
    }

    /// Whether the found checksum is as good as the desired one. Moments are written so that they sort.
    pub(super) fn is_satisfied(self, found: &ResourceValue, desired: &ResourceValue) -> bool {
        let later = matches!(self, Self::Modified | Self::Changed) && found >= desired;
        found == desired || later
    }
}
