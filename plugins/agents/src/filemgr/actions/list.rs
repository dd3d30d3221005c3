//! `list`: the entries of a directory.

use std::sync::Arc;

use muster_api::{ActionError, BlockingContext};
use muster_contract::filemgr::{DirectoryEntryRow, FilePathInput, FilemgrListOutput};

use super::kind_name;
use crate::path_policy::PathPolicy;

/// Maximum number of entries in one reply.
const MAX_LISTED_ENTRIES: usize = 2000;

pub(crate) fn list_directory(
    policy: &Arc<PathPolicy>,
    cx: &BlockingContext,
    FilePathInput { path }: FilePathInput,
) -> Result<FilemgrListOutput, ActionError> {
    let admitted = policy.admit_path(&*cx.system, &path, true)?;
    let Some(directory) = admitted.open_target()? else {
        return Err(ActionError::failed(format!("{} does not exist", admitted.path.display())));
    };
    let names = directory.list_entries()?;
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
}
