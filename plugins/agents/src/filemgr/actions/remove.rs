//! `remove`: deletes a file, a link or an empty directory; a directory that is not empty only if the caller asks for it.

use std::path::Path;
use std::sync::Arc;

use muster_api::system::{FileEntryKind, SystemError};
use muster_api::{ActionError, BlockingContext};
use muster_contract::filemgr::{FileChangeOutput, FilemgrRemoveInput};

use crate::path_policy::PathPolicy;

/// Why a directory is not removed.
const NOT_EMPTY: &str = "it is not empty; set `recursive` to remove it with its content";

pub(crate) fn remove_path(
    policy: &Arc<PathPolicy>,
    cx: &BlockingContext,
    FilemgrRemoveInput { path, recursive, noop }: FilemgrRemoveInput,
) -> Result<FileChangeOutput, ActionError> {
    let noop = noop == Some(true);
    // Do not follow links: the link itself is removed, not its target.
    let admitted = policy.admit_path(&*cx.system, &path, false)?;
    let path = &admitted.path;
    let refused = |reason: &str| {
        let message = format!("{} is not removed: {reason}", path.display());
        Err(ActionError::invalid_input(message))
    };
    let Some(entry) = &admitted.entry else { return Ok(FileChangeOutput { changed: false }) };
    let Some(found) = entry.status()? else { return Ok(FileChangeOutput { changed: false }) };
    if found.metadata.kind != FileEntryKind::Directory {
        if !noop {
            entry.remove_entry(false)?;
        }
        return Ok(FileChangeOutput { changed: true });
    }
    if path.parent().is_none_or(|parent| parent == Path::new("/")) {
        return refused("it is the root directory, or directly below it");
    }
    if admitted.contains_denied_path() {
        return refused("it contains a path that is denied on this node");
    }
    if noop && !recursive && !entry.open()?.list_entries()?.is_empty() {
        return refused(NOT_EMPTY);
    }
    if noop {
        return Ok(FileChangeOutput { changed: true });
    }
    if recursive {
        entry.remove_tree()?;
        return Ok(FileChangeOutput { changed: true });
    }
    match entry.remove_entry(true) {
        Ok(()) => Ok(FileChangeOutput { changed: true }),
        Err(error) if is_not_empty(&error) => refused(NOT_EMPTY),
        Err(error) => Err(error.into()),
    }
}

fn is_not_empty(error: &SystemError) -> bool {
    let SystemError::File { source, .. } = error else { return false };
    source.kind() == std::io::ErrorKind::DirectoryNotEmpty
}
