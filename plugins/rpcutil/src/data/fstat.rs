//! `fstat("/etc/hosts")`: what is at a path. A symbolic link at its end is told, not followed.
//!
//! `MCollective`'s names, except that `present` is a boolean and `mode` the permission bits alone; SHA-256 is added, and
//! the times of access and of the last change of attributes are not told.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use md5::Md5;
use muster_api::system::error::chain;
use muster_api::system::{FileKind, Metadata, System, SystemError};
use muster_api::{ActionError, Context, DataSource};
use serde::Serialize;
use sha2::{Digest, Sha256};

/// Largest file with checksums, in bytes. Files that not every user may read have none: a checksum proves a guess of the content.
const CHECKSUM_LIMIT: u64 = 16 * 1024 * 1024;

pub(crate) struct Fstat;

#[derive(Debug, Default, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct Output {
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

impl DataSource for Fstat {
    const NAME: &'static str = "fstat";
    type Output = Output;

    async fn query(&self, cx: &Context, query: Option<&str>) -> Result<Output, ActionError> {
        let path = query.unwrap_or_default().to_owned();
        let system = cx.system.clone();
        cx.blocking(move |_| stat(&*system, &path).map_err(|error| refusal(&error)))
            .await?
    }
}

fn stat(system: &dyn System, path: &str) -> Result<Output, SystemError> {
    let at = Path::new(path);
    let name = path.to_owned();
    let Some(found) = system.metadata(at)? else {
        return Ok(Output {
            name,
            status: "not present".to_owned(),
            kind: "unknown".to_owned(),
            ..Output::default()
        });
    };
    let content = content(system, at, &found)?;
    Ok(Output {
        name,
        status: "present".to_owned(),
        present: true,
        kind: kind(found.kind).to_owned(),
        size: Some(found.size),
        mode: Some(format!("{:04o}", found.mode)),
        uid: Some(found.uid),
        gid: Some(found.gid),
        mtime_seconds: Some(seconds_since(found.modified, UNIX_EPOCH)),
        mtime_age: Some(seconds_since(system.now(), found.modified)),
        md5: content
            .as_ref()
            .map(|bytes| format!("{:x}", Md5::digest(bytes))),
        sha256: content.map(|bytes| format!("{:x}", Sha256::digest(bytes))),
    })
}

fn kind(kind: FileKind) -> &'static str {
    match kind {
        FileKind::File => "file",
        FileKind::Directory => "directory",
        FileKind::Link => "symlink",
        FileKind::Other => "other",
    }
}

/// Whole seconds; 0 when `later` is not.
fn seconds_since(later: SystemTime, earlier: SystemTime) -> u64 {
    later.duration_since(earlier).unwrap_or_default().as_secs()
}

/// The bytes of a regular file within the limit that every user may read.
fn content(
    system: &dyn System,
    path: &Path,
    found: &Metadata,
) -> Result<Option<Vec<u8>>, SystemError> {
    if found.kind != FileKind::File {
        return Ok(None);
    }
    match system.read_world_readable(path, CHECKSUM_LIMIT) {
        Ok(content) => Ok(content),
        Err(SystemError::TooLarge { .. } | SystemError::File { .. }) => Ok(None),
        Err(other) => Err(other),
    }
}

fn refusal(error: &SystemError) -> ActionError {
    if let SystemError::Path { .. } = error {
        return ActionError::invalid(error.to_string());
    }
    ActionError::failed(chain(error))
}
