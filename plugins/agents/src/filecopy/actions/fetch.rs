//! `inspect` and `read`: a file for the caller, in parts.

use std::sync::Arc;

use muster_api::base::since_epoch;
use muster_api::system::confined::{ConfinedFile, EntryStatus};
use muster_api::{ActionError, BlockingContext};
use muster_contract::filecopy::{
    FilecopyInspectInput, FilecopyInspectOutput, FilecopyReadInput, FilecopyReadOutput,
    MAX_READ_BYTES, encode_chunk,
};

use crate::path_policy::PathPolicy;

use super::open_file;
use crate::filecopy::digest::digest_content;

/// Size, checksum and version of a file.
pub(crate) fn inspect_file(
    policy: &Arc<PathPolicy>,
    cx: &BlockingContext,
    FilecopyInspectInput { path }: FilecopyInspectInput,
) -> Result<FilecopyInspectOutput, ActionError> {
    let admitted = policy.admit_path(&*cx.system, &path, true)?;
    let file = require_file(open_file(&admitted)?, &path)?;
    let version = version_of(&file.current_status()?);
    let read = |offset, length| file.read_part(offset, length);
    let (sha256, size) = digest_content(read, &cx.cancel_flag)?;
    check_version(&file, &version, &path)?;
    Ok(FilecopyInspectOutput {
        path: admitted.path.display().to_string(),
        size,
        sha256,
        mode: format!("{:04o}", file.status().metadata.mode),
        version,
    })
}

/// A part of a file that has not changed since it was inspected.
pub(crate) fn read_chunk(
    policy: &Arc<PathPolicy>,
    cx: &BlockingContext,
    FilecopyReadInput { path, version, offset, bytes }: FilecopyReadInput,
) -> Result<FilecopyReadOutput, ActionError> {
    let admitted = policy.admit_path(&*cx.system, &path, true)?;
    let file = require_file(open_file(&admitted)?, &path)?;
    let length = usize::try_from(bytes.min(MAX_READ_BYTES)).unwrap_or(0);
    let part = file.read_part(offset, length)?;
    check_version(&file, &version, &path)?;
    Ok(FilecopyReadOutput { content: encode_chunk(&part), bytes: part.len() as u64 })
}

fn require_file(file: Option<ConfinedFile>, path: &str) -> Result<ConfinedFile, ActionError> {
    let missing = || ActionError::failed(format!("{} does not exist", path.escape_debug()));
    file.ok_or_else(missing)
}

fn check_version(file: &ConfinedFile, version: &str, path: &str) -> Result<(), ActionError> {
    if version_of(&file.current_status()?) == version {
        return Ok(());
    }
    let path = path.escape_debug();
    Err(ActionError::failed(format!("{path} was changed while it was copied; copy it again")))
}

/// A text that differs after each change of the file.
fn version_of(status: &EntryStatus) -> String {
    let found = &status.metadata;
    let [modified, changed] =
        [found.modified, found.changed].map(|time| since_epoch(time).as_nanos());
    format!("{:x}-{:x}-{:x}-{modified:x}-{changed:x}", status.device, found.inode, found.size)
}
