//! `list`: the entries of a directory.

use std::sync::Arc;

use muster_api::{ActionError, AgentAction, CallContext};
use serde::Serialize;

use super::{FilePathInput, kind_name};
use crate::path_policy::{PathPolicy, to_action_error};

/// Maximum number of entries in one reply.
const MAX_LISTED_ENTRIES: usize = 2000;

pub(crate) struct FilemgrListAction(pub(crate) Arc<PathPolicy>);

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct FilemgrListOutput {
    count: usize,
    entries: Vec<DirectoryEntryRow>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct DirectoryEntryRow {
    name: String,
    kind: String,
    mode: String,
    size: u64,
}

impl AgentAction for FilemgrListAction {
    const NAME: &'static str = "list";
    type Input = FilePathInput;
    type Output = FilemgrListOutput;

    async fn run(
        &self,
        cx: &CallContext,
        input: FilePathInput,
    ) -> Result<FilemgrListOutput, ActionError> {
        let (policy, system) = (Arc::clone(&self.0), Arc::clone(&cx.system));
        cx.run_blocking(move |_| {
            let admitted = policy.admit_path(&*system, &input.path, true)?;
            let Some(directory) = admitted.open_target()? else {
                return Err(ActionError::failed(format!(
                    "{} does not exist",
                    admitted.path.display()
                )));
            };
            let names = directory.list_entries().map_err(|error| to_action_error(&error))?;
            let count = names.len();
            let to_row = |name: String| {
                // Skip entries that were removed since the directory was read.
                let found = directory.status_of(&name).ok()??.metadata;
                Some(DirectoryEntryRow {
                    name,
                    kind: kind_name(found.kind).to_owned(),
                    mode: format!("{:04o}", found.mode),
                    size: found.size,
                })
            };
            let entries = names.into_iter().take(MAX_LISTED_ENTRIES).filter_map(to_row).collect();
            Ok(FilemgrListOutput { count, entries })
        })
        .await?
    }
}
