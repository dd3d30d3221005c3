//! Lists everything below a directory: relative paths, parents before children, level by level.
//!
//! Stays inside the machine's root and follows links only if requested. Fails on trees with more entries than allowed.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use muster_base::error_chain;
use muster_system::{FileEntryKind, FileMetadata, System, SystemError, SystemResult};

use super::{glob, paths};
use crate::error::EngineError;
use crate::resource_type::BoundResource;

/// Maximum depth when following links to directories, because links can form a loop.
const MAX_LINK_DEPTH: usize = 40;

#[derive(Debug, Clone, Copy, Default)]
pub struct DirectoryWalk<'a> {
    /// Number of levels below the directory; `None` for all.
    pub depth: Option<usize>,
    /// Names that match one of these patterns are skipped, including everything below them.
    pub ignore: &'a [&'a str],
    /// Whether a link is treated as its target.
    pub follow: bool,
    /// Maximum number of entries; more fail with [`DirectoryWalkError::TooMany`].
    pub max_entries: Option<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryWalkEntry {
    /// Path relative to the start directory.
    pub relative_path: PathBuf,
    /// Metadata; with `follow`, of the link's target.
    pub metadata: FileMetadata,
}

#[derive(Debug, thiserror::Error)]
pub enum DirectoryWalkError {
    #[error(
        "The directory '{}' contains more than {limit} entries, which exceeds the limit specified by the max_files parameter for this resource",
        directory.display()
    )]
    TooMany {
        /// The start directory.
        directory: PathBuf,
        limit: usize,
    },
    #[error(transparent)]
    System(#[from] SystemError),
}

impl DirectoryWalk<'_> {
    /// All entries. Empty if the path is missing or not a directory.
    pub fn collect_entries(
        &self,
        system: &dyn System,
        directory: &Path,
    ) -> Result<Vec<DirectoryWalkEntry>, DirectoryWalkError> {
        let mut entries = Vec::new();
        let mut pending = VecDeque::from([(PathBuf::new(), 0, 0)]);
        while let Some((relative_path, depth, links)) = pending.pop_front() {
            if self.depth.is_some_and(|max_depth| depth >= max_depth) {
                continue;
            }
            for name in list_names(system, &directory.join(&relative_path))? {
                if self.ignore.iter().any(|pattern| glob::matches_pattern(pattern, &name, false)) {
                    continue;
                }
                let relative_path = relative_path.join(&name);
                let path = directory.join(&relative_path);
                // Removed since it was listed.
                let Some(own_metadata) = system.metadata(&path)? else { continue };
                let is_link = own_metadata.kind == FileEntryKind::Link;
                let target =
                    if is_link && self.follow { paths::follow_links(system, &path)? } else { None };
                let metadata = target.unwrap_or(own_metadata);
                let links = links + usize::from(is_link);
                if metadata.kind == FileEntryKind::Directory && links <= MAX_LINK_DEPTH {
                    pending.push_back((relative_path.clone(), depth + 1, links));
                }
                entries.push(DirectoryWalkEntry { relative_path, metadata });
                if let Some(limit) = self.max_entries.filter(|limit| entries.len() > *limit) {
                    let directory = directory.to_owned();
                    return Err(DirectoryWalkError::TooMany { directory, limit });
                }
            }
        }
        Ok(entries)
    }
}

const ENTRY_WARNING_LIMIT: usize = 1000;

/// All entries that a resource with `max_files` may have; without a limit, logs a warning about many entries that ends with `advice`.
pub(crate) fn collect_limited(
    resource: &BoundResource<'_>,
    directory: &Path,
    walk: DirectoryWalk<'_>,
    advice: &str,
) -> Result<Vec<DirectoryWalkEntry>, EngineError> {
    let max_files = resource.get_int("max_files").unwrap_or(0);
    let max_entries = usize::try_from(max_files).ok().filter(|limit| *limit > 0);
    let entries = DirectoryWalk { max_entries, ..walk }
        .collect_entries(resource.cx.system, directory)
        .map_err(|problem| EngineError::failed(resource, error_chain(&problem)))?;
    if max_files == 0 && entries.len() > ENTRY_WARNING_LIMIT {
        let (directory, count) = (directory.display(), entries.len());
        resource.cx.log_line(format!("The directory '{directory}' contains {count} entries, which exceeds the default soft limit {ENTRY_WARNING_LIMIT}{advice}"));
    }
    Ok(entries)
}

/// Names in a directory; empty if it is not a directory.
fn list_names(system: &dyn System, directory: &Path) -> SystemResult<Vec<String>> {
    match paths::follow_links(system, directory)? {
        Some(found) if found.kind == FileEntryKind::Directory => system.read_dir(directory),
        _ => Ok(Vec::new()),
    }
}
