//! Reads the daemon's head records, which say where its logs must end, from its state directory on the node.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use muster_audit::{AuditAnchor, HeadRecord};

use super::lines;
use crate::files::{RpcFileError, file_error};

/// Builds anchors for these files from the head records in the directory that name one of them. A record applies if its log is among the
/// files, or if its log is gone and an older file of it is among them. The files must reach back to the record.
pub(super) fn read_anchors(
    state: &Path,
    files: &[PathBuf],
) -> Result<Vec<AuditAnchor>, RpcFileError> {
    let failed = file_error("read", state);
    let mut found = Vec::new();
    for entry in fs::read_dir(state).map_err(&failed)? {
        let path = entry.map_err(&failed)?.path();
        if path.extension().is_none_or(|extension| extension != "head") {
            continue;
        }
        let text = fs::read_to_string(&path).map_err(file_error("read", &path))?;
        // A crash may leave the record empty; it then gives no anchor.
        let Ok(record) = text.parse::<HeadRecord>() else {
            continue;
        };
        if covers_files(&record, files)? {
            found.push(record.anchor);
        }
    }
    Ok(found)
}

fn covers_files(record: &HeadRecord, files: &[PathBuf]) -> Result<bool, RpcFileError> {
    let Some(log) = record.log.as_deref().map(Path::new) else {
        return Ok(false);
    };
    let is_gone =
        matches!(fs::metadata(log), Err(error) if error.kind() == io::ErrorKind::NotFound);
    let is_log = |file: &PathBuf| {
        let file = fs::canonicalize(file).unwrap_or_else(|_| file.clone());
        file == log || (is_gone && file.with_extension("") == log)
    };
    if !files.iter().any(is_log) {
        return Ok(false);
    }
    let mut first = None;
    for file in files {
        let number = lines::first_number(file)?;
        first = first.into_iter().chain(number).min();
    }
    Ok(first.is_none_or(|first| first <= record.anchor.seq))
}
