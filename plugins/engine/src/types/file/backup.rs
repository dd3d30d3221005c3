//! Copies of what a `file` is about to replace or remove: beside it with a suffix, or in a file bucket.

use std::path::{Path, PathBuf};

use muster_system::{Attributes, FileKind, Metadata};

use super::LIMIT;
use crate::error::EngineError;
use crate::providers::bucket;
use crate::providers::walk::Walk;
use crate::resource::Resource;
use crate::resource_type::Cx;

/// Keeps what is at the path, if the resource asks for it.
pub(super) fn keep(
    cx: &Cx<'_>,
    resource: &Resource,
    path: &Path,
    found: &Metadata,
) -> Result<(), EngineError> {
    match resource.text("backup") {
        None | Some("false") => Ok(()),
        Some(suffix) if suffix.starts_with('.') => beside(cx, resource, path, found, suffix),
        Some(name) => in_bucket(cx, resource, path, found, name),
    }
}

/// The directory of the bucket that `backup` names.
pub(super) fn bucket(cx: &Cx<'_>, resource: &Resource, name: &str) -> Result<PathBuf, EngineError> {
    cx.memo.buckets.path(name).ok_or_else(|| {
        let problem = format!("Could not find filebucket {name} specified in backup");
        EngineError::failed(resource, problem)
    })
}

fn in_bucket(
    cx: &Cx<'_>,
    resource: &Resource,
    path: &Path,
    found: &Metadata,
    name: &str,
) -> Result<(), EngineError> {
    let directory = bucket(cx, resource, name)?;
    for path in files(cx, resource, path, found)? {
        let failing = || {
            EngineError::during(
                resource,
                format!("keeping {} in the filebucket {name}", path.display()),
            )
        };
        let content = cx.system.read(&path, LIMIT).map_err(failing())?;
        let sum = bucket::keep(cx.system, &directory, &path, &content).map_err(failing())?;
        cx.say(format!(
            "Filebucketed {} to {name} with sum {sum}",
            path.display()
        ));
    }
    Ok(())
}

/// The file itself, or every file below the directory. Links have no content.
fn files(
    cx: &Cx<'_>,
    resource: &Resource,
    path: &Path,
    found: &Metadata,
) -> Result<Vec<PathBuf>, EngineError> {
    match found.kind {
        FileKind::File => Ok(vec![path.to_owned()]),
        FileKind::Directory => {
            let entries = below(cx, resource, path)?;
            let files = entries
                .into_iter()
                .filter(|(_, found)| found.kind == FileKind::File);
            Ok(files.map(|(below, _)| path.join(below)).collect())
        }
        FileKind::Link | FileKind::Other => Ok(Vec::new()),
    }
}

fn beside(
    cx: &Cx<'_>,
    resource: &Resource,
    path: &Path,
    found: &Metadata,
    suffix: &str,
) -> Result<(), EngineError> {
    let copy = PathBuf::from(format!("{}{suffix}", path.display()));
    let failing = || {
        let doing = format!("copying {} to {}", path.display(), copy.display());
        EngineError::during(resource, doing)
    };
    if let Some(old) = cx.system.metadata(&copy).map_err(failing())? {
        if old.kind == FileKind::Directory {
            let problem = format!(
                "Will not remove directory backup {}; use a filebucket",
                copy.display()
            );
            return Err(EngineError::failed(resource, problem));
        }
        if old.kind != FileKind::File || found.kind != FileKind::File {
            cx.system.remove_file(&copy).map_err(failing())?;
        }
    }
    copy_one(cx, path, &copy, found).map_err(failing())?;
    if found.kind == FileKind::Directory {
        for (below, found) in below(cx, resource, path)? {
            copy_one(cx, &path.join(&below), &copy.join(&below), &found).map_err(failing())?;
        }
    }
    Ok(())
}

fn below(
    cx: &Cx<'_>,
    resource: &Resource,
    path: &Path,
) -> Result<Vec<(PathBuf, Metadata)>, EngineError> {
    let walk = Walk {
        depth: None,
        ignore: &[],
        follow: false,
        most: None,
    };
    let entries = walk.entries(cx.system, path).map_err(|problem| {
        EngineError::failed(resource, format!("listing {}: {problem}", path.display()))
    })?;
    Ok(entries
        .into_iter()
        .map(|entry| (entry.below, entry.metadata))
        .collect())
}

fn copy_one(
    cx: &Cx<'_>,
    from: &Path,
    to: &Path,
    found: &Metadata,
) -> Result<(), muster_system::SystemError> {
    let attributes = Attributes {
        mode: Some(found.mode),
        uid: Some(found.uid),
        gid: Some(found.gid),
    };
    match found.kind {
        FileKind::File => {
            let content = cx.system.read(from, LIMIT)?;
            cx.system.write(to, &content, &attributes)
        }
        FileKind::Directory => cx.system.create_dir(to, &attributes),
        FileKind::Link => cx.system.symlink(&cx.system.read_link(from)?, to),
        FileKind::Other => Ok(()),
    }
}
