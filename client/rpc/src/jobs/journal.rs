//! A job's file while it is written: locked, appended to, and forced to disk where a wave begins and ends.

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;

use super::entry::{JobEntry, JobReply};
use super::error::SavedJobError;
use crate::report::NodeReply;

/// Largest outputs of one node that are kept, in bytes.
const MAX_DATA_BYTES: usize = 64 * 1024;
/// Once the file has so many bytes no more outputs are kept, only how nodes ended.
const MAX_FILE_BYTES_WITH_DATA: usize = 32 * 1024 * 1024;

/// A job that is being written. Dropping it without an end leaves an interrupted job.
#[derive(Debug)]
pub struct JobJournal {
    file: File,
    path: PathBuf,
    id: String,
    written: usize,
}

impl JobJournal {
    /// The journal of a file that is locked, and stands at its end.
    pub(super) fn new(file: File, path: PathBuf, id: String, written: usize) -> Self {
        Self {
            file,
            path,
            id,
            written,
        }
    }

    /// The job's id.
    pub fn job_id(&self) -> &str {
        &self.id
    }

    /// Appends an entry.
    pub fn append_entry(&mut self, entry: &JobEntry) -> Result<(), SavedJobError> {
        let failed = SavedJobError::file_error("write", &self.path);
        let mut line = serde_json::to_vec(entry).map_err(|error| failed(error.into()))?;
        line.push(b'\n');
        // One write for each line: whoever is killed leaves whole lines.
        self.file.write_all(&line).map_err(failed)?;
        self.written += line.len();
        Ok(())
    }

    /// Appends a node's answer.
    pub fn append_reply(&mut self, reply: &NodeReply) -> Result<(), SavedJobError> {
        let room = if self.written < MAX_FILE_BYTES_WITH_DATA {
            MAX_DATA_BYTES
        } else {
            0
        };
        self.append_entry(&JobEntry::Result(JobReply::new(reply, room)))
    }

    /// Returns when everything is on the disk.
    pub fn sync(&self) -> Result<(), SavedJobError> {
        let synced = self.file.sync_data();
        synced.map_err(SavedJobError::file_error("write", &self.path))
    }
}
