//! Small questions about paths that several types ask: what is at the end of the links, and are the parents there.

use std::path::{Path, PathBuf};

use muster_system::{FileAttributes, FileMetadata, System, SystemError};

/// How many links are followed before a loop is assumed, as in the kernel.
const MAX_LINKS: usize = 40;

/// What a path leads to when links are followed; `None` when that is nothing, or a loop.
pub fn follow_links(system: &dyn System, path: &Path) -> Result<Option<FileMetadata>, SystemError> {
    resolve_links(system, path).map(|(_, found)| found)
}

/// Where a path leads to when links are followed, and what is there; `None` when that is nothing, or a loop.
pub fn resolve_links(
    system: &dyn System,
    path: &Path,
) -> Result<(PathBuf, Option<FileMetadata>), SystemError> {
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

/// Creates the directories that are missing above and at `path`.
pub fn create_dirs(
    system: &dyn System,
    path: &Path,
    attributes: &FileAttributes,
) -> Result<(), SystemError> {
    if path.parent().is_none() || follow_links(system, path)?.is_some() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        create_dirs(system, parent, &FileAttributes::default())?;
    }
    match system.create_dir(path, attributes) {
        // Somebody else was faster: the same result.
        Err(_) if follow_links(system, path)?.is_some() => Ok(()),
        other => other,
    }
}

/// Takes `.` and `..` out, as names only.
fn normalise_path(path: &Path) -> PathBuf {
    let mut clean = PathBuf::from("/");
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => drop(clean.pop()),
            std::path::Component::Normal(name) => clean.push(name),
            _ => {}
        }
    }
    clean
}
