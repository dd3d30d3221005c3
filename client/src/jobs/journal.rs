//! Writes a job's file: locked, append-only, and synced to disk where a batch begins and ends.

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;

use muster_files::files::file_error;

use super::entry::{JobEntry, JobReply};
use super::error::SavedJobError;

/// Maximum size of one node's stored outputs, in bytes.
const MAX_DATA_BYTES: usize = 64 * 1024;
/// From this file size on, outputs are omitted and only statuses are stored, in bytes.
const MAX_FILE_BYTES_WITH_DATA: usize = 32 * 1024 * 1024;

/// A job that is being written. If it is dropped without an end entry, the job counts as interrupted.
#[derive(Debug)]
pub struct JobJournal {
    file: File,
    path: PathBuf,
    id: String,
    written: usize,
}

impl JobJournal {
    /// Creates the journal of a file that is locked and positioned at its end.
    pub(super) fn new(file: File, path: PathBuf, id: String, written: usize) -> Self {
        Self { file, path, id, written }
    }

    /// The job's id.
    pub fn job_id(&self) -> &str {
        &self.id
    }

    /// Appends an entry.
    pub fn append_entry(&mut self, entry: &JobEntry) -> Result<(), SavedJobError> {
        let failed = file_error("write", &self.path);
        let mut line = serde_json::to_vec(entry).map_err(|error| failed(error.into()))?;
        line.push(b'\n');
        // One write per line, so that a killed process leaves complete lines.
        self.file.write_all(&line).map_err(failed)?;
        self.written += line.len();
        Ok(())
    }

    /// Appends a node's reply. Outputs that are too large are omitted.
    pub fn append_reply(&mut self, reply: JobReply) -> Result<(), SavedJobError> {
        let max_data_bytes =
            if self.written < MAX_FILE_BYTES_WITH_DATA { MAX_DATA_BYTES } else { 0 };
        self.append_entry(&JobEntry::Result(reply.limit_data(max_data_bytes)))
    }

    /// Syncs the file to disk.
    pub fn sync(&self) -> Result<(), SavedJobError> {
        Ok(self.file.sync_data().map_err(file_error("write", &self.path))?)
    }
}
