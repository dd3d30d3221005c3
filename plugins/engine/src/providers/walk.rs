//! What lies below a directory: every entry with its path from there, parents before children, level by level.
//!
//! Does not leave the machine's root and follows links only when told to. Refuses trees of more entries than allowed.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use muster_system::{FileEntryKind, FileMetadata, System, SystemError};

use super::{glob, paths};

/// How deep links to directories are followed at most: a loop of them has no end.
const MAX_LINK_DEPTH: usize = 40;

/// How to walk.
#[derive(Debug, Clone, Copy)]
pub struct DirectoryWalk<'a> {
    /// Levels below the directory; `None` is all of them.
    pub depth: Option<usize>,
    /// Names that match one of these patterns are left out, with what is below them.
    pub ignore: &'a [&'a str],
    /// Whether a link counts as what it points to.
    pub follow: bool,
    /// Stops with [`DirectoryWalkError::TooMany`] above this number of entries.
    pub most: Option<usize>,
}

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryWalkEntry {
    /// Its path from the directory where the walk began.
    pub below: PathBuf,
    /// What it is; with `follow`, what is at the end of its links.
    pub metadata: FileMetadata,
}

/// Why a walk ended early.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryWalkError {
    /// There is more than the caller can handle.
    #[error(
        "The directory '{}' contains more than {most} entries, which exceeds the limit specified by the max_files parameter for this resource",
        directory.display()
    )]
    TooMany {
        /// Where the walk began.
        directory: PathBuf,
        /// The limit.
        most: usize,
    },
    /// The machine would not.
    #[error(transparent)]
    System(#[from] SystemError),
}

impl DirectoryWalk<'_> {
    /// All entries. Nothing there, or no directory, is an empty list.
    pub fn collect_entries(
        &self,
        system: &dyn System,
        directory: &Path,
    ) -> Result<Vec<DirectoryWalkEntry>, DirectoryWalkError> {
        let mut found = Vec::new();
        let mut pending = VecDeque::from([(PathBuf::new(), 0, 0)]);
        while let Some((below, depth, links)) = pending.pop_front() {
            if self.depth.is_some_and(|most| depth >= most) {
                continue;
            }
            for name in list_names(system, &directory.join(&below))? {
                if self
                    .ignore
                    .iter()
                    .any(|pattern| glob::matches_pattern(pattern, &name, false))
                {
                    continue;
                }
                let below = below.join(&name);
                let path = directory.join(&below);
                // Gone since it was listed.
                let Some(own) = system.metadata(&path)? else {
                    continue;
                };
                let is_link = own.kind == FileEntryKind::Link;
                let metadata = if is_link && self.follow {
                    paths::follow_links(system, &path)?.unwrap_or(own)
                } else {
                    own
                };
                let links = links + usize::from(is_link);
                if metadata.kind == FileEntryKind::Directory && links <= MAX_LINK_DEPTH {
                    pending.push_back((below.clone(), depth + 1, links));
                }
                found.push(DirectoryWalkEntry { below, metadata });
                if let Some(most) = self.most.filter(|most| found.len() > *most) {
                    return Err(DirectoryWalkError::TooMany {
                        directory: directory.to_owned(),
                        most,
                    });
                }
            }
        }
        Ok(found)
    }
}

/// What is in a directory; nothing is in what is none.
fn list_names(system: &dyn System, directory: &Path) -> Result<Vec<String>, SystemError> {
    match paths::follow_links(system, directory)? {
        Some(found) if found.kind == FileEntryKind::Directory => system.read_dir(directory),
        _ => Ok(Vec::new()),
    }
}
