//! `read`: a section of a text file, from its start or its end.

use std::sync::Arc;

use muster_api::system::FileEntryKind;
use muster_api::system::confined::ConfinedFile;
use muster_api::{ActionError, BlockingContext};
use muster_contract::filemgr::{FilemgrReadInput, FilemgrReadOutput};

use crate::path_policy::PathPolicy;

/// Largest file that is read, in bytes.
const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;
/// Maximum number of bytes in one reply.
const MAX_ANSWER_BYTES: u64 = 64 * 1024;

pub(crate) fn read_file(
    policy: &Arc<PathPolicy>,
    cx: &BlockingContext,
    FilemgrReadInput { path, offset, bytes }: FilemgrReadInput,
) -> Result<FilemgrReadOutput, ActionError> {
    let admitted = policy.admit_path(&*cx.system, &path, true)?;
    let file = admitted.open_target()?;
    let is_file = |file: &ConfinedFile| file.status().metadata.kind == FileEntryKind::File;
    let Some(file) = file.filter(is_file) else {
        return Err(ActionError::failed(format!(
            "{} is not a regular file",
            admitted.path.display()
        )));
    };
    let content = file.read_content(MAX_FILE_BYTES)?;
    let size = content.len() as u64;
    let start = u64::try_from(offset)
        .unwrap_or_else(|_| size.saturating_sub(offset.unsigned_abs()))
        .min(size);
    let end = start.saturating_add(bytes.min(MAX_ANSWER_BYTES));
    let range = usize::try_from(start).unwrap_or(usize::MAX)
        ..usize::try_from(end.min(size)).unwrap_or(usize::MAX);
    let chunk = content.get(range).unwrap_or_default();
    Ok(FilemgrReadOutput {
        text: String::from_utf8_lossy(chunk).into_owned(),
        size,
        offset: start + chunk.len() as u64,
    })
}
