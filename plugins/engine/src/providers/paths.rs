//! Path helpers shared by several types: following links, creating parents.

use std::path::{Path, PathBuf};

use muster_system::{FileAttributes, FileMetadata, System, SystemResult};

/// Maximum number of links followed, as in the Linux kernel; more are treated as a loop.
const MAX_LINKS: usize = 40;

/// Metadata of a path after following links; `None` if it does not exist or the links form a loop.
pub fn follow_links(system: &dyn System, path: &Path) -> SystemResult<Option<FileMetadata>> {
    resolve_links(system, path).map(|(_, found)| found)
}

/// Path and metadata after following links; `None` if it does not exist or the links form a loop.
pub fn resolve_links(
    system: &dyn System,
    path: &Path,
) -> SystemResult<(PathBuf, Option<FileMetadata>)> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        let found = system.metadata(&path)?;
        if found.is_none_or(|found| found.kind != muster_system::FileEntryKind::Link) {
            return Ok((path, found));
        }
        let target = system.read_link(&path)?;
        path = normalise_path(&path.parent().unwrap_or(Path::new("/")).join(target));
    }
    Ok((path, None))
}

/// Creates `path` and its missing parents.
pub fn create_dirs(
    system: &dyn System,
    path: &Path,
    attributes: &FileAttributes,
) -> SystemResult<()> {
    if path.parent().is_none() || follow_links(system, path)?.is_some() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        create_dirs(system, parent, &FileAttributes::default())?;
    }
    match system.create_dir(path, attributes) {
        // Another process created it concurrently; the result is the same.
        Err(_) if follow_links(system, path)?.is_some() => Ok(()),
        other => other,
    }
}

/// Removes `.` and `..` lexically.
fn normalise_path(path: &Path) -> PathBuf {
    let mut normalised = PathBuf::from("/");
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => drop(normalised.pop()),
            std::path::Component::Normal(name) => normalised.push(name),
            _ => {}
        }
    }
    normalised
}
