//! `touch` and `mkdir`: create an empty file or update the time of an existing one; create a directory.

use std::sync::Arc;

use muster_api::system::FileEntryKind;
use muster_api::system::confined::ConfinedEntry;
use muster_api::{ActionError, AgentAction, CallContext};

use super::{FileChangeOutput, FilePathInput};
use crate::path_policy::{AdmittedPath, PathPolicy, to_action_error};

/// Mode of a created file.
const FILE_MODE: u32 = 0o644;
/// Mode of a created directory.
const DIRECTORY_MODE: u32 = 0o755;

pub(crate) struct FilemgrTouchAction(pub(crate) Arc<PathPolicy>);
pub(crate) struct FilemgrMkdirAction(pub(crate) Arc<PathPolicy>);

impl AgentAction for FilemgrTouchAction {
    const NAME: &'static str = "touch";
    type Input = FilePathInput;
    type Output = FileChangeOutput;

    async fn run(
        &self,
        cx: &CallContext,
        input: FilePathInput,
    ) -> Result<FileChangeOutput, ActionError> {
        let (policy, system) = (Arc::clone(&self.0), Arc::clone(&cx.system));
        cx.run_blocking(move |_| {
            let admitted = policy.admit_path(&*system, &input.path, true)?;
            if let Some(file) = admitted.open_target()? {
                if file.status().is_hard_linked() {
                    return Err(hard_link_error(&admitted));
                }
                file.set_times_to_now().map_err(|error| to_action_error(&error))?;
            } else {
                let entry = require_parent(&admitted)?;
                entry.create_file(FILE_MODE).map_err(|error| to_action_error(&error))?;
            }
            Ok(FileChangeOutput { changed: true })
        })
        .await?
    }
}

impl AgentAction for FilemgrMkdirAction {
    const NAME: &'static str = "mkdir";
    type Input = FilePathInput;
    type Output = FileChangeOutput;

    async fn run(
        &self,
        cx: &CallContext,
        input: FilePathInput,
    ) -> Result<FileChangeOutput, ActionError> {
        let (policy, system) = (Arc::clone(&self.0), Arc::clone(&cx.system));
        cx.run_blocking(move |_| {
            let admitted = policy.admit_path(&*system, &input.path, true)?;
            let entry = require_parent(&admitted)?;
            let found = entry.status().map_err(|error| to_action_error(&error))?;
            match found.map(|found| found.metadata.kind) {
                Some(FileEntryKind::Directory) => Ok(FileChangeOutput { changed: false }),
                Some(_) => Err(ActionError::failed(format!(
                    "{} exists and is not a directory",
                    admitted.path.display()
                ))),
                None => {
                    entry
                        .create_directory(DIRECTORY_MODE)
                        .map_err(|error| to_action_error(&error))?;
                    Ok(FileChangeOutput { changed: true })
                }
            }
        })
        .await?
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
