//! What a static catalog says of the files that its `source` URLs name: kind, permissions and checksum. Values only.
//!
//! Parsed in [`crate::catalog`], applied by the type `file`. The contents are in a directory of the node, see
//! [`DEFAULT_CONTENT_DIRECTORY`].

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use muster_system::FileAttributes;

/// The directory of the contents, unless a run says otherwise. A content is a file with its SHA-256 as name, in lower-case hexadecimal digits.
pub const DEFAULT_CONTENT_DIRECTORY: &str = "/var/lib/muster/engine/content";

/// The sources of one `file`, as the compiler found them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StaticSources {
    /// The first source that exists, without what is below it.
    Single(Arc<StaticFile>),
    /// The sources of a recursive `file` by URL; those that do not exist are missing.
    Trees(BTreeMap<String, StaticTree>),
}

/// One source of a recursive `file`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaticTree {
    /// The source itself.
    pub top: Arc<StaticFile>,
    /// Everything below it, by relative path.
    pub entries: BTreeMap<PathBuf, Arc<StaticFile>>,
}

/// A file, directory or link that a source URL names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaticFile {
    /// The URL, if the catalog says which one of a list it is.
    pub source: Option<String>,
    pub kind: StaticFileKind,
    /// Mode, owner and group, if known.
    pub attributes: FileAttributes,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StaticFileKind {
    File {
        /// With its kind: `{sha256}ba78...`.
        checksum: String,
    },
    Directory,
    Link {
        destination: String,
    },
}

impl StaticSources {
    /// What the first existing one of these URLs names.
    pub fn first_file(&self, urls: &[&str]) -> Option<&StaticFile> {
        match self {
            Self::Single(file) => Some(file),
            Self::Trees(trees) => {
                let tree = urls.iter().find_map(|url| trees.get(*url))?;
                Some(&tree.top)
            }
        }
    }

    /// Number of files below the directory in all sources.
    pub fn entry_count(&self) -> usize {
        match self {
            Self::Single(_) => 0,
            Self::Trees(trees) => trees.values().map(|tree| tree.entries.len()).sum(),
        }
    }
}
