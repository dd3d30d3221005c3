//! Data source `fstat("/etc/hosts")`: the metadata of a path. A symbolic link at its end is described, not followed.
//!
//! Uses `MCollective`'s names, except that `present` is a boolean and `mode` holds the permission bits only. Adds SHA-256; omits access time
//! and change time.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use md5::Md5;
use muster_api::system::{FileEntryKind, FileMetadata, System, SystemError, SystemResult};
use muster_api::{ActionError, BlockingContext, NoState};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Largest file with checksums, in bytes. Files that are not world-readable get none, because a checksum confirms a guess of the content.
const MAX_CHECKSUM_BYTES: u64 = 16 * 1024 * 1024;

#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
pub(crate) struct FstatDataOutput {
    name: String,
    #[serde(rename = "output")]
    status: String,
    present: bool,
    #[serde(rename = "type")]
    kind: String,
    size: Option<u64>,
    mode: Option<String>,
    uid: Option<u32>,
    gid: Option<u32>,
    mtime_seconds: Option<u64>,
    mtime_age: Option<u64>,
    md5: Option<String>,
    sha256: Option<String>,
}

pub(crate) fn describe_path(
    _: &NoState,
    cx: &BlockingContext,
    path: &str,
) -> Result<FstatDataOutput, ActionError> {
    let (system, file) = (&*cx.system, Path::new(path));
    let name = path.to_owned();
    let found = system.metadata(file).map_err(|error| match error {
        SystemError::Path { .. } => ActionError::invalid_input(error.to_string()),
        error => error.into(),
    });
    let Some(metadata) = found? else {
        return Ok(FstatDataOutput {
            name,
            status: "not present".to_owned(),
            kind: "unknown".to_owned(),
            ..FstatDataOutput::default()
        });
    };
    let content = read_content(system, file, &metadata)?;
    Ok(FstatDataOutput {
        name,
        status: "present".to_owned(),
        present: true,
        kind: kind_name(metadata.kind).to_owned(),
        size: Some(metadata.size),
        mode: Some(format!("{:04o}", metadata.mode)),
        uid: Some(metadata.uid),
        gid: Some(metadata.gid),
        mtime_seconds: Some(seconds_since(metadata.modified, UNIX_EPOCH)),
        mtime_age: Some(seconds_since(system.now(), metadata.modified)),
        md5: content.as_ref().map(|bytes| format!("{:x}", Md5::digest(bytes))),
        sha256: content.map(|bytes| format!("{:x}", Sha256::digest(bytes))),
    })
}

fn kind_name(kind: FileEntryKind) -> &'static str {
    match kind {
        FileEntryKind::File => "file",
        FileEntryKind::Directory => "directory",
        FileEntryKind::Link => "symlink",
        FileEntryKind::Other => "other",
    }
}

/// Whole seconds from `earlier` to `later`; 0 if `later` is not later.
fn seconds_since(later: SystemTime, earlier: SystemTime) -> u64 {
    later.duration_since(earlier).unwrap_or_default().as_secs()
}

/// The content of a world-readable regular file within the size limit.
fn read_content(
    system: &dyn System,
    path: &Path,
    metadata: &FileMetadata,
) -> SystemResult<Option<Vec<u8>>> {
    if metadata.kind != FileEntryKind::File {
        return Ok(None);
    }
    match system.read_world_readable(path, MAX_CHECKSUM_BYTES) {
        Ok(content) => Ok(content),
        Err(SystemError::TooLarge { .. } | SystemError::File { .. }) => Ok(None),
        Err(other) => Err(other),
    }
}
