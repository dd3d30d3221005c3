//! `fstat('/etc/hosts')`: what is at a path. A symbolic link at its end is told, not followed.
//!
//! `MCollective`'s names, except that `present` is a boolean, `mode` the permission bits alone, and the checksum SHA-256
//! instead of MD5; the times of access and of the last change of attributes are not told.

use std::error::Error;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use muster_api::system::{FileKind, Metadata, System, SystemError};
use muster_api::{ActionError, Answer, Context, DataSource};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::{needed, values};

/// The largest file of which a checksum is made, in bytes; larger ones have none.
const CHECKSUM_LIMIT: u64 = 16 * 1024 * 1024;

pub(crate) struct Fstat;

impl DataSource for Fstat {
    fn name(&self) -> &'static str {
        "fstat"
    }

    fn description(&self) -> &'static str {
        "What is at a path: kind, size, mode, owner, age and checksum"
    }

    fn query<'a>(&'a self, cx: &'a Context, query: Option<&'a str>) -> Answer<'a> {
        Box::pin(async move {
            let path = needed("fstat", "an absolute path", query)?.to_owned();
            let system = cx.system.clone();
            cx.blocking(move |_| stat(&*system, &path).map_err(|error| refusal(&error)))
                .await?
        })
    }
}

fn stat(system: &dyn System, path: &str) -> Result<Map<String, Value>, SystemError> {
    let at = Path::new(path);
    let Some(found) = system.metadata(at)? else {
        return Ok(values([
            ("name", json!(path)),
            ("output", json!("not present")),
            ("present", json!(false)),
            ("type", json!("unknown")),
        ]));
    };
    Ok(values([
        ("name", json!(path)),
        ("output", json!("present")),
        ("present", json!(true)),
        ("type", json!(kind(found.kind))),
        ("size", json!(found.size)),
        ("mode", json!(format!("{:04o}", found.mode))),
        ("uid", json!(found.uid)),
        ("gid", json!(found.gid)),
        (
            "mtime_seconds",
            json!(seconds_since(found.modified, UNIX_EPOCH)),
        ),
        (
            "mtime_age",
            json!(seconds_since(system.now(), found.modified)),
        ),
        ("sha256", json!(checksum(system, at, &found)?)),
    ]))
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

/// Hexadecimal, of regular files within the limit that may be read and are still there.
fn checksum(
    system: &dyn System,
    path: &Path,
    found: &Metadata,
) -> Result<Option<String>, SystemError> {
    if found.kind != FileKind::File || found.size > CHECKSUM_LIMIT {
        return Ok(None);
    }
    match system.read(path, CHECKSUM_LIMIT) {
        Ok(content) => Ok(Some(format!("{:x}", Sha256::digest(content)))),
        Err(SystemError::TooLarge { .. } | SystemError::File { .. }) => Ok(None),
        Err(other) => Err(other),
    }
}

fn refusal(error: &SystemError) -> ActionError {
    if let SystemError::Path { .. } = error {
        return ActionError::invalid(error.to_string());
    }
    let cause = error.source().map(|cause| format!(": {cause}"));
    ActionError::failed(format!("{error}{}", cause.unwrap_or_default()))
}
