//! Events of the provisioner that a sink has not delivered yet: a directory with a file for each.

use std::fs;
use std::path::PathBuf;

use muster_files::files::{
    FileAccessError, create_private_directory, file_error, read_text, replace_secret,
};
use serde_json::Value;
use uuid::Uuid;

use crate::dead_letters::remove_file;

/// Events that may wait.
const MAX_WAITING: usize = 10_000;
const MAX_EVENT_BYTES: u64 = 1024 * 1024;

/// The directory of events that wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProvisionQueue {
    directory: PathBuf,
}

/// Why an event does not wait.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    #[error(transparent)]
    File(#[from] FileAccessError),
    #[error("{MAX_WAITING} events wait in {}", .0.display())]
    Full(PathBuf),
}

impl ProvisionQueue {
    /// Creates the directory.
    pub(crate) fn open(directory: PathBuf) -> Result<Self, FileAccessError> {
        create_private_directory(&directory)?;
        Ok(Self { directory })
    }

    /// Adds an event; when this returns, it is on disk. Ids begin with the time, so they are in order. Blocks.
    pub fn push(&self, id: Uuid, document: &Value) -> Result<(), QueueError> {
        if self.list_files()?.len() >= MAX_WAITING {
            return Err(QueueError::Full(self.directory.clone()));
        }
        let path = self.directory.join(format!("{id}.json"));
        Ok(replace_secret(&path, document.to_string().as_bytes())?)
    }

    /// The oldest events, with their files. One that is damaged has no fields.
    pub(crate) fn read(&self, limit: usize) -> Result<Vec<(PathBuf, Value)>, FileAccessError> {
        let files = self.list_files()?.into_iter().take(limit);
        let read = |path: PathBuf| {
            let text = read_text(&path, MAX_EVENT_BYTES)?;
            Ok((path, serde_json::from_str(&text).unwrap_or_default()))
        };
        files.map(read).collect()
    }

    pub(crate) fn remove(files: &[PathBuf]) -> Result<(), FileAccessError> {
        files.iter().try_for_each(|path| remove_file(path))
    }

    /// The files of events, the oldest first.
    pub(crate) fn list_files(&self) -> Result<Vec<PathBuf>, FileAccessError> {
        let failed = file_error("read", &self.directory);
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.directory).map_err(&failed)? {
            let path = entry.map_err(&failed)?.path();
            // Others are being written.
            if path.extension().is_some_and(|extension| extension == "json") {
                files.push(path);
            }
        }
        files.sort();
        Ok(files)
    }
}
