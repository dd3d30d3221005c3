//! What is kept of each run, in a directory of its own: enough to give its result again, and to find it after the daemon was
//! started anew. The program's output and its log are there too while it runs.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use muster_api::system::{ProcessId, StateDir, SystemError};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::arguments::Wish;
use crate::files::report::Mark;
use crate::outcome::Outcome;

const FILE: &str = "run.json";
/// Largest record that is read.
const BYTES: u64 = 4 * 1024 * 1024;

/// A run as it is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) id: Uuid,
    pub(crate) request: Uuid,
    pub(crate) caller: String,
    pub(crate) wish: Wish,
    pub(crate) outcome: Outcome,
    /// The program, once it was started.
    pub(crate) step: Option<Step>,
    /// How the run itself ended, while another one pays what it left owed.
    pub(crate) before_replay: Option<Outcome>,
}

/// One program that was started for a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Step {
    pub(crate) process: ProcessId,
    /// Where its output and its log are.
    pub(crate) directory: PathBuf,
    /// The report that was there before.
    pub(crate) mark: Option<Mark>,
    /// The refreshes that it is to make.
    pub(crate) targets: Vec<String>,
    /// When we end it, in milliseconds since 1970.
    pub(crate) until: u64,
}

/// All runs of the node.
#[derive(Debug, Clone)]
pub(crate) struct Records {
    directory: PathBuf,
    keep: usize,
}

impl Records {
    pub(crate) fn new(directory: PathBuf, keep: usize) -> Self {
        Self {
            directory,
            keep: keep.max(1),
        }
    }

    /// Where the files of a run are.
    pub(crate) fn place(&self, id: Uuid) -> PathBuf {
        self.directory.join(id.to_string())
    }

    /// On the disk when this returns.
    pub(crate) fn write(&self, record: &Record) -> Result<(), SystemError> {
        let state = StateDir::open(&self.place(record.id))?;
        // A record is texts and numbers; serialising it cannot fail.
        state.replace(FILE, &serde_json::to_vec(record).unwrap_or_default())
    }

    /// The run of this identity; what cannot be read is none.
    pub(crate) fn read(&self, id: Uuid) -> Option<Record> {
        let place = self.place(id);
        if !place.is_dir() {
            return None;
        }
        let bytes = StateDir::open(&place).ok()?.read(FILE, BYTES).ok()??;
        serde_json::from_slice(&bytes).ok()
    }

    /// The identities, the newest first: those of a day sort by their time, others by their name.
    pub(crate) fn list(&self) -> Vec<Record> {
        let entries = fs::read_dir(&self.directory).into_iter().flatten();
        let id = |entry: io::Result<fs::DirEntry>| {
            Uuid::try_parse(entry.ok()?.file_name().to_str()?).ok()
        };
        let mut records: Vec<Record> = entries
            .filter_map(id)
            .filter_map(|id| self.read(id))
            .collect();
        records.sort_by_key(|record| std::cmp::Reverse((record.outcome.initiated_at, record.id)));
        records
    }

    /// Forgets the oldest runs that are over, and everything but the record of those that stay.
    pub(crate) fn tidy(&self) {
        for (number, record) in self.list().into_iter().enumerate() {
            if !record.outcome.state.is_over() {
                continue;
            }
            let place = self.place(record.id);
            // What cannot be removed now is removed after the next run.
            let _ = if number >= self.keep {
                fs::remove_dir_all(&place)
            } else {
                clear(&place)
            };
        }
    }
}

fn clear(place: &Path) -> io::Result<()> {
    for entry in fs::read_dir(place)? {
        let path = entry?.path();
        if path.is_dir() {
            fs::remove_dir_all(path)?;
        }
    }
    Ok(())
}
