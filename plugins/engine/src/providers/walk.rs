//! What lies below a directory: every entry with its path from there, parents before children, level by level.
//!
//! Does not leave the machine's root and follows links only when told to. Refuses trees of more entries than allowed.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use muster_system::{FileKind, Metadata, System, SystemError};

use super::{glob, paths};

/// How deep links to directories are followed at most: a loop of them has no end.
const FOLLOWED: usize = 40;

/// How to walk.
#[derive(Debug, Clone, Copy)]
pub struct Walk<'a> {
    /// Levels below the directory; `None` is all of them.
    pub depth: Option<usize>,
    /// Names that match one of these patterns are left out, with what is below them.
    pub ignore: &'a [&'a str],
    /// Whether a link counts as what it points to.
    pub follow: bool,
    /// Stops with [`Problem::TooMany`] above this number of entries.
    pub most: Option<usize>,
}

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its path from the directory where the walk began.
    pub below: PathBuf,
    /// What it is; with `follow`, what is at the end of its links.
    pub metadata: Metadata,
}

/// Why a walk ended early.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
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

impl Walk<'_> {
    /// All entries. Nothing there, or no directory, is an empty list.
    pub fn entries(&self, system: &dyn System, directory: &Path) -> Result<Vec<Entry>, Problem> {
        let mut found = Vec::new();
        let mut pending = VecDeque::from([(PathBuf::new(), 0, 0)]);
        while let Some((below, depth, links)) = pending.pop_front() {
            if self.depth.is_some_and(|most| depth >= most) {
                continue;
            }
            for name in names(system, &directory.join(&below))? {
                if self
                    .ignore
                    .iter()
                    .any(|pattern| glob::matches(pattern, &name, false))
                {
                    continue;
                }
                let below = below.join(&name);
                let path = directory.join(&below);
                // Gone since it was listed.
                let Some(own) = system.metadata(&path)? else {
                    continue;
                };
                let is_link = own.kind == FileKind::Link;
                let metadata = if is_link && self.follow {
                    paths::follow(system, &path)?.unwrap_or(own)
                } else {
                    own
                };
                let links = links + usize::from(is_link);
                if metadata.kind == FileKind::Directory && links <= FOLLOWED {
                    pending.push_back((below.clone(), depth + 1, links));
                }
                found.push(Entry { below, metadata });
                if let Some(most) = self.most.filter(|most| found.len() > *most) {
                    return Err(Problem::TooMany {
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
fn names(system: &dyn System, directory: &Path) -> Result<Vec<String>, SystemError> {
    match paths::follow(system, directory)? {
        Some(found) if found.kind == FileKind::Directory => system.read_dir(directory),
        _ => Ok(Vec::new()),
    }
}
