//! What is kept of each run, in a directory of its own: enough to give its result again, and to find it after the daemon was
//! started anew. The program's output and its log are there too while it runs.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use muster_api::system::{ProcessId, StateDir, SystemError};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::arguments::PuppetRunOptions;
use crate::files::report::ReportIdentity;
use crate::outcome::PuppetRunOutcome;

const RECORD_FILE: &str = "run.json";
/// Largest record that is read.
const MAX_RECORD_BYTES: u64 = 4 * 1024 * 1024;

/// A run as it is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PuppetRunRecord {
    pub(crate) id: Uuid,
    pub(crate) request: Uuid,
    pub(crate) caller: String,
    pub(crate) wish: PuppetRunOptions,
    pub(crate) outcome: PuppetRunOutcome,
    /// The program, once it was started.
    pub(crate) step: Option<ProgramRecord>,
    /// How the run itself ended, while another one pays what it left owed.
    pub(crate) before_replay: Option<PuppetRunOutcome>,
}

/// One program that was started for a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ProgramRecord {
    pub(crate) process: ProcessId,
    /// Where its output and its log are.
    pub(crate) directory: PathBuf,
    /// The report that was there before.
    pub(crate) mark: Option<ReportIdentity>,
    /// The refreshes that it is to make.
    pub(crate) targets: Vec<String>,
    /// When we end it, in milliseconds since 1970.
    pub(crate) until: u64,
}

/// All runs of the node.
#[derive(Debug, Clone)]
pub(crate) struct RunRecordStore {
    directory: PathBuf,
    keep: usize,
}

impl RunRecordStore {
    pub(crate) fn new(directory: PathBuf, keep: usize) -> Self {
        Self {
            directory,
            keep: keep.max(1),
        }
    }

    /// Where the files of a run are.
    pub(crate) fn run_directory(&self, id: Uuid) -> PathBuf {
        self.directory.join(id.to_string())
    }

    /// On the disk when this returns.
    pub(crate) fn write(&self, record: &PuppetRunRecord) -> Result<(), SystemError> {
        let state = StateDir::open(&self.run_directory(record.id))?;
        // A record is texts and numbers; serialising it cannot fail.
        state.replace_file(RECORD_FILE, &serde_json::to_vec(record).unwrap_or_default())
    }

    /// The run of this identity; what cannot be read is none.
    pub(crate) fn read(&self, id: Uuid) -> Option<PuppetRunRecord> {
        let place = self.run_directory(id);
        if !place.is_dir() {
            return None;
        }
        let bytes = StateDir::open(&place)
            .ok()?
            .read_file(RECORD_FILE, MAX_RECORD_BYTES)
            .ok()??;
        serde_json::from_slice(&bytes).ok()
    }

    /// The identities, the newest first: those of a day sort by their time, others by their name.
    pub(crate) fn list(&self) -> Vec<PuppetRunRecord> {
        let entries = fs::read_dir(&self.directory).into_iter().flatten();
        let id = |entry: io::Result<fs::DirEntry>| {
            Uuid::try_parse(entry.ok()?.file_name().to_str()?).ok()
        };
        let mut records: Vec<PuppetRunRecord> = entries
            .filter_map(id)
            .filter_map(|id| self.read(id))
            .collect();
        records.sort_by_key(|record| std::cmp::Reverse((record.outcome.initiated_at, record.id)));
        records
    }

    /// Forgets the oldest runs that are over, and everything but the record of those that stay.
    pub(crate) fn prune_runs(&self) {
        for (number, record) in self.list().into_iter().enumerate() {
            if !record.outcome.state.is_over() {
                continue;
            }
            let place = self.run_directory(record.id);
            // What cannot be removed now is removed after the next run.
            let _ = if number >= self.keep {
                fs::remove_dir_all(&place)
            } else {
                remove_subdirectories(&place)
            };
        }
    }
}

fn remove_subdirectories(place: &Path) -> io::Result<()> {
    for entry in fs::read_dir(place)? {
        let path = entry?.path();
        if path.is_dir() {
            fs::remove_dir_all(path)?;
        }
    }
    Ok(())
}
