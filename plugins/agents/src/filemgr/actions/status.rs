//! `status`: type and metadata of a path. A missing path is a valid result, not an error.

use muster_api::base::encode_hex;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use md5::Md5;
use muster_api::system::FileEntryKind;
use muster_api::{ActionError, BlockingContext};
use muster_contract::filemgr::{FilePathInput, FilemgrStatusOutput};
use sha2::{Digest, Sha256};

use super::kind_name;
use crate::path_policy::{AdmittedPath, PathPolicy};

/// Largest file for which checksums are computed, in bytes.
const MAX_CHECKSUM_BYTES: u64 = 64 * 1024 * 1024;

pub(crate) fn inspect_path(
    policy: &Arc<PathPolicy>,
    cx: &BlockingContext,
    FilePathInput { path }: FilePathInput,
) -> Result<FilemgrStatusOutput, ActionError> {
    let admitted = policy.admit_path(&*cx.system, &path, false)?;
    let Some(entry) = &admitted.entry else { return Ok(FilemgrStatusOutput::default()) };
    let Some(found) = entry.status()? else { return Ok(FilemgrStatusOutput::default()) };
    let found = found.metadata;
    let target = match found.kind {
        FileEntryKind::Link => Some(entry.read_link()?),
        _ => None,
    };
    let content = match found.kind {
        FileEntryKind::File => read_for_checksum(&admitted)?,
        _ => None,
    };
    let content = content.as_deref();
    let modified = found.modified.duration_since(UNIX_EPOCH);
    Ok(FilemgrStatusOutput {
        present: true,
        kind: Some(kind_name(found.kind).to_owned()),
        mode: Some(format!("{:04o}", found.mode)),
        uid: Some(found.uid),
        gid: Some(found.gid),
        size: Some(found.size),
        modified: modified.ok().map(|since| since.as_secs()),
        target: target.map(|target| target.display().to_string()),
        md5: content.map(|bytes| encode_hex(Md5::digest(bytes))),
        sha256: content.map(|bytes| encode_hex(Sha256::digest(bytes))),
    })
}

/// Reads the content for the checksums; `None` for a file that is not world-readable, because a checksum lets a caller confirm a guess of the
/// content.
fn read_for_checksum(admitted: &AdmittedPath) -> Result<Option<Vec<u8>>, ActionError> {
    let Some(file) = admitted.open_target()? else { return Ok(None) };
    let metadata = file.status().metadata;
    if metadata.kind != FileEntryKind::File
        || metadata.size > MAX_CHECKSUM_BYTES
        || !file.is_world_readable()
    {
        return Ok(None);
    }
    Ok(Some(file.read_content(MAX_CHECKSUM_BYTES)?))
}
