//! `remove`: deletes a file, a link or an empty directory; a directory that is not empty only if the caller asks for it.

use std::path::Path;
use std::sync::Arc;

use muster_api::system::{FileEntryKind, SystemError};
use muster_api::{ActionError, AgentAction, CallContext};
use serde::Deserialize;

use super::FileChangeOutput;
use crate::path_policy::{PathPolicy, to_action_error};

pub(crate) struct FilemgrRemoveAction(pub(crate) Arc<PathPolicy>);

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct FilemgrRemoveInput {
    path: String,
    recursive: bool,
}

impl AgentAction for FilemgrRemoveAction {
    const NAME: &'static str = "remove";
    type Input = FilemgrRemoveInput;
    type Output = FileChangeOutput;

    async fn run(
        &self,
        cx: &CallContext,
        input: FilemgrRemoveInput,
    ) -> Result<FileChangeOutput, ActionError> {
        let (policy, system) = (Arc::clone(&self.0), Arc::clone(&cx.system));
        cx.run_blocking(move |_| {
            // Do not follow links: the link itself is removed, not its target.
            let admitted = policy.admit_path(&*system, &input.path, false)?;
            let path = &admitted.path;
            let refused = |reason: &str| {
                let message = format!("{} is not removed: {reason}", path.display());
                Err(ActionError::invalid_input(message))
            };
            let Some(entry) = &admitted.entry else {
                return Ok(FileChangeOutput { changed: false });
            };
            let Some(found) = entry.status().map_err(|error| to_action_error(&error))? else {
                return Ok(FileChangeOutput { changed: false });
            };
            if found.metadata.kind != FileEntryKind::Directory {
                entry.remove_entry(false).map_err(|error| to_action_error(&error))?;
                return Ok(FileChangeOutput { changed: true });
            }
            if path.parent().is_none_or(|parent| parent == Path::new("/")) {
                return refused("it is the root directory, or directly below it");
            }
            if admitted.contains_denied_path() {
                return refused("it contains a path that is denied on this node");
            }
            if input.recursive {
                entry.remove_tree().map_err(|error| to_action_error(&error))?;
                return Ok(FileChangeOutput { changed: true });
            }
            match entry.remove_entry(true) {
                Ok(()) => Ok(FileChangeOutput { changed: true }),
                Err(error) if is_not_empty(&error) => {
                    refused("it is not empty; set `recursive` to remove it with its content")
                }
                Err(error) => Err(to_action_error(&error)),
            }
        })
        .await?
    }
}

fn is_not_empty(error: &SystemError) -> bool {
    let SystemError::File { source, .. } = error else {
        return false;
    };
    source.kind() == std::io::ErrorKind::DirectoryNotEmpty
}
