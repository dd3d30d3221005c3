//! `touch` and `mkdir`: create an empty file or update the time of an existing one; create a directory.

use std::sync::Arc;

use muster_api::system::FileEntryKind;
use muster_api::system::confined::ConfinedEntry;
use muster_api::{ActionError, BlockingContext};
use muster_contract::filemgr::{FileChangeInput, FileChangeOutput};

use crate::path_policy::{AdmittedPath, PathPolicy};

/// Mode of a created file.
const FILE_MODE: u32 = 0o644;
/// Mode of a created directory.
const DIRECTORY_MODE: u32 = 0o755;

pub(crate) fn touch_file(
    policy: &Arc<PathPolicy>,
    cx: &BlockingContext,
    FileChangeInput { path, noop }: FileChangeInput,
) -> Result<FileChangeOutput, ActionError> {
    let noop = noop == Some(true);
    let admitted = policy.admit_path(&*cx.system, &path, true)?;
    if let Some(file) = admitted.open_target()? {
        if file.status().is_hard_linked() {
            return Err(hard_link_error(&admitted));
        }
        if !noop {
            file.set_times_to_now()?;
        }
    } else {
        let entry = require_parent(&admitted)?;
        if !noop {
            entry.create_file(FILE_MODE)?;
        }
    }
    Ok(FileChangeOutput { changed: true })
}

pub(crate) fn make_directory(
    policy: &Arc<PathPolicy>,
    cx: &BlockingContext,
    FileChangeInput { path, noop }: FileChangeInput,
) -> Result<FileChangeOutput, ActionError> {
    let admitted = policy.admit_path(&*cx.system, &path, true)?;
    let entry = require_parent(&admitted)?;
    let found = entry.status()?;
    match found.map(|found| found.metadata.kind) {
        Some(FileEntryKind::Directory) => Ok(FileChangeOutput { changed: false }),
        Some(_) => Err(ActionError::failed(format!(
            "{} exists and is not a directory",
            admitted.path.display()
        ))),
        None => {
            if noop != Some(true) {
                entry.create_directory(DIRECTORY_MODE)?;
            }
            Ok(FileChangeOutput { changed: true })
        }
    }
}

/// Returns the entry, or an error if the parent directory does not exist.
fn require_parent(admitted: &AdmittedPath) -> Result<&ConfinedEntry, ActionError> {
    admitted.entry.as_ref().ok_or_else(|| {
        let path = admitted.path.display();
        ActionError::failed(format!("the parent directory of {path} does not exist"))
    })
}

/// A file with several hard links is not changed: one of its links may be in a denied directory.
fn hard_link_error(admitted: &AdmittedPath) -> ActionError {
    let message =
        format!("{} is not changed: it has more than one hard link", admitted.path.display());
    ActionError::denied_by_rule(message, "plugins.filemgr.hard_link".to_owned())
}
