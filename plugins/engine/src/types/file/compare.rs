//! By what the content of two files is compared: a digest, a moment, or nothing.

use muster_system::{Metadata, SystemError};

use crate::providers::digest::{Digest, moment};
use crate::resource::{Resource, Value};

/// The meaning of `checksum`.
#[derive(Debug, Clone, Copy)]
pub(super) enum Compare {
    /// By content.
    Digest(Digest),
    /// By the last change of the content: in order when it is not older.
    Modified,
    /// By the last change of anything, in the same way.
    Changed,
    /// Not at all.
    Nothing,
}

impl Compare {
    /// What the resource says.
    pub(super) fn of(resource: &Resource) -> Self {
        match resource.text("checksum").unwrap_or("sha256") {
            "mtime" => Self::Modified,
            "ctime" => Self::Changed,
            "none" => Self::Nothing,
            name => Self::Digest(Digest::named(name).unwrap_or(Digest::Sha256)),
        }
    }

    /// The checksum of a file; its content is only asked for when it counts.
    pub(super) fn sum(
        self,
        metadata: &Metadata,
        content: impl FnOnce() -> Result<Vec<u8>, SystemError>,
    ) -> Result<String, SystemError> {
        Ok(match self {
            Self::Digest(digest) => digest.sum(&content()?),
            Self::Modified => moment("mtime", metadata.modified),
            Self::Changed => moment("ctime", metadata.changed),
            Self::Nothing => "{none}".to_owned(),
        })
    }

    /// The checksum of a content; none where contents are compared by anything else.
    pub(super) fn of_content(self, content: &[u8]) -> Option<String> {
        match self {
            Self::Digest(digest) => Some(digest.sum(content)),
            _ => None,
        }
    }

    /// Whether the found checksum is as good as the desired one. Moments are written so that they sort.
    pub(super) fn suffices(self, found: &Value, desired: &Value) -> bool {
        let later = matches!(self, Self::Modified | Self::Changed) && found >= desired;
        found == desired || later
    }
}
