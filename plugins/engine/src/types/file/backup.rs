//! Backups of content that a `file` is about to replace or remove: beside the file with a suffix, or in a file bucket.

use std::path::{Path, PathBuf};

use muster_system::{FileAttributes, FileEntryKind, FileMetadata, SystemResult};

use super::compare::MAX_CONTENT_BYTES;
use crate::error::{DescribeOperation as _, EngineError, Result};
use crate::providers::bucket;
use crate::providers::walk::DirectoryWalk;
use crate::resource_type::{BoundResource, ResourceContext};

/// Backs up the content of the path if the resource requests it.
pub(super) fn back_up_entry(
    resource: &BoundResource<'_>,
    path: &Path,
    found: &FileMetadata,
) -> Result<()> {
    match resource.get_text("backup") {
        None | Some("false") => Ok(()),
        Some(suffix) if suffix.starts_with('.') => copy_beside(resource, path, found, suffix),
        Some(name) => store_in_bucket(resource, path, found, name),
    }
}

/// Directory of the bucket named by `backup`.
pub(super) fn bucket_directory(resource: &BoundResource<'_>, name: &str) -> Result<PathBuf> {
    resource.cx.cache.buckets.bucket_path(name).ok_or_else(|| {
        let problem = format!("Could not find filebucket {name} specified in backup");
        EngineError::failed(resource, problem)
    })
}

fn store_in_bucket(
    resource: &BoundResource<'_>,
    path: &Path,
    found: &FileMetadata,
    name: &str,
) -> Result<()> {
    let cx = resource.cx;
    let directory = bucket_directory(resource, name)?;
    for path in list_files(resource, path, found)? {
        let doing = format_args!("storing {} in the filebucket {name}", path.display());
        let content = cx.system.read_file(&path, MAX_CONTENT_BYTES).during(resource, doing)?;
        let sum = bucket::store_content(cx.system, &directory, &path, &content)
            .during(resource, doing)?;
        cx.log_line(format!("Filebucketed {} to {name} with sum {sum}", path.display()));
    }
    Ok(())
}

/// The file itself, or all files below the directory. Links have no content.
fn list_files(
    resource: &BoundResource<'_>,
    path: &Path,
    found: &FileMetadata,
) -> Result<Vec<PathBuf>> {
    match found.kind {
        FileEntryKind::File => Ok(vec![path.to_owned()]),
        FileEntryKind::Directory => {
            let entries = list_below(resource, path)?;
            let files = entries.into_iter().filter(|(_, found)| found.kind == FileEntryKind::File);
            Ok(files.map(|(relative_path, _)| path.join(relative_path)).collect())
        }
        FileEntryKind::Link | FileEntryKind::Other => Ok(Vec::new()),
    }
}

fn copy_beside(
    resource: &BoundResource<'_>,
    path: &Path,
    found: &FileMetadata,
    suffix: &str,
) -> Result<()> {
    let cx = resource.cx;
    let copy = PathBuf::from(format!("{}{suffix}", path.display()));
    let doing = format_args!("copying {} to {}", path.display(), copy.display());
    if let Some(existing) = cx.system.metadata(&copy).during(resource, doing)? {
        if existing.kind == FileEntryKind::Directory {
            let problem =
                format!("Will not remove directory backup {}; use a filebucket", copy.display());
            return Err(EngineError::failed(resource, problem));
        }
        if existing.kind != FileEntryKind::File || found.kind != FileEntryKind::File {
            cx.system.remove_file(&copy).during(resource, doing)?;
        }
    }
    copy_entry(cx, path, &copy, found).during(resource, doing)?;
    if found.kind == FileEntryKind::Directory {
        for (relative_path, found) in list_below(resource, path)? {
            copy_entry(cx, &path.join(&relative_path), &copy.join(&relative_path), &found)
                .during(resource, doing)?;
        }
    }
    Ok(())
}

fn list_below(resource: &BoundResource<'_>, path: &Path) -> Result<Vec<(PathBuf, FileMetadata)>> {
    let entries = DirectoryWalk::default().collect_entries(resource.cx.system, path);
    let entries = entries.map_err(|problem| {
        EngineError::failed(resource, format!("listing {}: {problem}", path.display()))
    })?;
    Ok(entries.into_iter().map(|entry| (entry.relative_path, entry.metadata)).collect())
}

fn copy_entry(
    cx: &ResourceContext<'_>,
    from: &Path,
    to: &Path,
    found: &FileMetadata,
) -> SystemResult<()> {
    let attributes =
        FileAttributes { mode: Some(found.mode), uid: Some(found.uid), gid: Some(found.gid) };
    match found.kind {
        FileEntryKind::File => {
            let content = cx.system.read_file(from, MAX_CONTENT_BYTES)?;
            cx.system.write_file(to, &content, &attributes)
        }
        FileEntryKind::Directory => cx.system.create_dir(to, &attributes),
        FileEntryKind::Link => cx.system.create_symlink(&cx.system.read_link(from)?, to),
        FileEntryKind::Other => Ok(()),
    }
}
