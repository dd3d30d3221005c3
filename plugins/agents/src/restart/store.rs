//! Stores restart records: one file per target, replaced atomically, in a directory that only the daemon's user can enter.
//!
//! There are two locks per target: a short one around every change, and one that the worker holds while it works, so that only one runs.

use muster_api::base::{duration_millis, unix_millis};
use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_api::system::process::system_uptime;
use muster_api::system::{LockGuard, StateDir, SystemError, SystemResult};

use crate::restart::cycle::{ClockReading, RestartRecord};

/// Largest record in bytes. Command lines may be long.
const MAX_RECORD_BYTES: u64 = 4 * 1024 * 1024;
/// Timeout for the lock of a change.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);
const RECORD_EXTENSION: &str = ".json";

/// The store.
#[derive(Debug, Clone)]
pub struct RestartStore {
    path: PathBuf,
}

impl RestartStore {
    /// A store in this directory. The first request creates the directory.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads a record; `None` if there is none or it is damaged.
    pub fn read_record(&self, key: &str) -> SystemResult<Option<RestartRecord>> {
        if !self.path.is_dir() {
            return Ok(None);
        }
        self.open_directory()?.read_record(&format!("{key}{RECORD_EXTENSION}"), MAX_RECORD_BYTES)
    }

    /// Changes a record under its lock. On return the change is on disk.
    pub fn update_record<T>(
        &self,
        key: &str,
        change: impl FnOnce(&mut Option<RestartRecord>) -> T,
    ) -> SystemResult<T> {
        let state = self.open_directory()?;
        let _lock = state.acquire_lock(&format!("{key}.lock"), LOCK_TIMEOUT)?;
        let before = self.read_record(key)?;
        let mut record = before.clone();
        let result = change(&mut record);
        let name = format!("{key}{RECORD_EXTENSION}");
        match &record {
            _ if record == before => {}
            Some(record) => state.replace_record(&name, record)?,
            None => state.remove_file(&name)?,
        }
        Ok(result)
    }

    /// Takes the worker lock; `None` if a worker holds it.
    pub fn try_lock_worker(&self, key: &str) -> SystemResult<Option<Box<dyn LockGuard>>> {
        match self.open_directory()?.acquire_lock(&format!("{key}.worker"), Duration::ZERO) {
            Ok(lock) => Ok(Some(lock)),
            Err(SystemError::Locked { .. }) => Ok(None),
            Err(other) => Err(other),
        }
    }

    /// The keys of all records.
    pub fn list_keys(&self) -> SystemResult<Vec<String>> {
        if !self.path.is_dir() {
            return Ok(Vec::new());
        }
        let names = self.open_directory()?.list_names("")?;
        let keys = names.iter().filter_map(|name| name.strip_suffix(RECORD_EXTENSION));
        Ok(keys.map(str::to_owned).collect())
    }

    pub(crate) fn open_directory(&self) -> SystemResult<StateDir> {
        StateDir::open(&self.path)
    }
}

/// Reads both clocks.
pub fn read_clocks(system: &dyn muster_api::system::System) -> ClockReading {
    ClockReading { wall: unix_millis(system.now()), uptime: duration_millis(system_uptime()) }
}
