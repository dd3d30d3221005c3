//! Records of runs, one directory per run: enough to return the result again, and to find the run after a restart of the daemon. The program's output
//! and log are in the same directory while it runs.

use std::fs;
use std::io;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use muster_api::system::{ProcessId, StateDir, SystemResult};
use muster_api::wire::history::RunCause;
use muster_contract::puppet::PuppetRunOutcome;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::arguments::PuppetRunOptions;
use crate::files::report::ReportIdentity;
use crate::options::RunCatalog;

const RECORD_FILE: &str = "run.json";
const MAX_RECORD_BYTES: u64 = 4 * 1024 * 1024;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PuppetRunRecord {
    pub(crate) id: Uuid,
    pub(crate) request: Uuid,
    pub(crate) caller: String,
    /// Why it runs, for the fleet's history.
    #[serde(default)]
    pub(crate) cause: RunCause,
    #[serde(rename = "wish")]
    pub(crate) run_options: PuppetRunOptions,
    pub(crate) outcome: PuppetRunOutcome,
    /// The program, once started.
    pub(crate) step: Option<ProgramRecord>,
    /// What is applied instead of that of the options.
    #[serde(default)]
    pub(crate) catalog: Option<RunCatalog>,
    /// The limit of concurrent runs that the request specified.
    #[serde(default)]
    pub(crate) limit: Option<NonZeroU32>,
    /// Result of the run itself, while its replay is in progress.
    pub(crate) before_replay: Option<PuppetRunOutcome>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ProgramRecord {
    /// Its process; `None` from just before the start until its id is known. A daemon that was killed meanwhile finds it by the spool.
    pub(crate) process: Option<ProcessId>,
    /// Directory of its output and log.
    pub(crate) directory: PathBuf,
    /// The id of its run in the fleet's history.
    #[serde(default)]
    pub(crate) history_run: Option<Uuid>,
    /// Identity of the report that existed before the start.
    pub(crate) mark: Option<ReportIdentity>,
    /// The refreshes that it is to make.
    pub(crate) targets: Vec<String>,
    /// Deadline after which it is stopped, in milliseconds since 1970.
    pub(crate) until: u64,
}

#[derive(Debug, Clone)]
pub(crate) struct RunRecordStore {
    directory: PathBuf,
    keep: usize,
}

impl RunRecordStore {
    pub(crate) fn new(directory: PathBuf, keep: usize) -> Self {
        Self { directory, keep: keep.max(1) }
    }

    pub(crate) fn run_directory(&self, id: Uuid) -> PathBuf {
        self.directory.join(id.to_string())
    }

    /// The record is on disk when this returns.
    pub(crate) fn write(&self, record: &PuppetRunRecord) -> SystemResult<()> {
        let state = StateDir::open(&self.run_directory(record.id))?;
        state.replace_record(RECORD_FILE, record)
    }

    /// The record of a run; `None` if it cannot be read.
    pub(crate) fn read(&self, id: Uuid) -> Option<PuppetRunRecord> {
        let directory = self.run_directory(id);
        if !directory.is_dir() {
            return None;
        }
        StateDir::open(&directory).ok()?.read_record(RECORD_FILE, MAX_RECORD_BYTES).ok()?
    }

    /// All records, newest request first; ties are broken by identity.
    pub(crate) fn list(&self) -> Vec<PuppetRunRecord> {
        let entries = fs::read_dir(&self.directory).into_iter().flatten();
        let id = |entry: io::Result<fs::DirEntry>| {
            Uuid::try_parse(entry.ok()?.file_name().to_str()?).ok()
        };
        let mut records: Vec<PuppetRunRecord> =
            entries.filter_map(id).filter_map(|id| self.read(id)).collect();
        records.sort_by_key(|record| std::cmp::Reverse((record.outcome.initiated_at, record.id)));
        records
    }

    /// Removes the oldest ended runs, and everything but the record from the ended runs that are kept.
    pub(crate) fn prune_runs(&self) {
        for (number, record) in self.list().into_iter().enumerate() {
            if !record.outcome.state.is_over() {
                continue;
            }
            let directory = self.run_directory(record.id);
            // A directory that cannot be removed now is retried after the next run.
            let _ = if number >= self.keep {
                fs::remove_dir_all(&directory)
            } else {
                remove_subdirectories(&directory)
            };
        }
    }
}

fn remove_subdirectories(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            fs::remove_dir_all(path)?;
        }
    }
    Ok(())
}
