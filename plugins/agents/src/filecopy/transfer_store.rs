//! The unfinished copies of a node: a record and a map of written parts for each, in the daemon's state directory, and the parts themselves in a hidden
//! file next to the target.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use muster_api::ActionError;
use muster_api::system::{StateDir, System, SystemError, SystemResult};

use crate::path_policy::{AdmittedPath, PathPolicy};

use crate::filecopy::transfer::{TransferRecord, WRITTEN};

/// Largest record, in bytes.
const MAX_RECORD_BYTES: u64 = 64 * 1024;
/// Space that a copy leaves free on its file system, in bytes.
const SPARE_BYTES: u64 = 16 * 1024 * 1024;

/// Number of locks that copies share.
const LOCK_COUNT: usize = 16;

/// The unfinished copies.
#[derive(Debug)]
pub(crate) struct TransferStore {
    directory: PathBuf,
    pub(crate) policy: PathPolicy,
    expiry: Duration,
    max_transfers: usize,
    pub(crate) max_bytes: u64,
    /// Held while a copy begins, so that concurrent calls cannot exceed the limit.
    begin_lock: Mutex<()>,
    /// Parts are written with a shared lock of their copy; its end needs the exclusive one.
    locks: [RwLock<()>; LOCK_COUNT],
    is_sweeping: AtomicBool,
}

/// The record or the map of a copy cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TransferStoreError {
    #[error(
        "this node has no unfinished copy {0}; it was finished, removed after an error, or has expired"
    )]
    Unknown(String),
    #[error("unfinished copies: {count}; [plugins.filecopy] allows {limit}")]
    Full { count: usize, limit: usize },
    #[error("{path} needs {needed} bytes, and its file system has {available} available")]
    Space { path: String, needed: u64, available: u64 },
    #[error("the directory of {0} does not exist on this node")]
    NoDirectory(String),
    #[error("cannot read or write {}", path.display())]
    Map {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(transparent)]
    System(#[from] SystemError),
}

impl From<TransferStoreError> for ActionError {
    fn from(error: TransferStoreError) -> Self {
        match error {
            TransferStoreError::Unknown(_) => Self::invalid_input(error.to_string()),
            TransferStoreError::Full { .. } => {
                Self::busy(error.to_string(), Duration::from_secs(10))
            }
            _ => Self::from_cause(error),
        }
    }
}

impl TransferStore {
    pub(crate) fn new(
        directory: PathBuf,
        policy: PathPolicy,
        expiry: Duration,
        max_transfers: usize,
        max_bytes: u64,
    ) -> Self {
        Self {
            directory,
            policy,
            expiry,
            max_transfers,
            max_bytes,
            begin_lock: Mutex::default(),
            locks: Default::default(),
            is_sweeping: AtomicBool::default(),
        }
    }

    /// The lock of a copy, which it may share with others.
    pub(crate) fn lock_of(&self, transfer: &str) -> &RwLock<()> {
        let sum = transfer.bytes().map(usize::from).sum::<usize>();
        let [first, ..] = &self.locks;
        self.locks.get(sum % LOCK_COUNT).unwrap_or(first)
    }

    /// The record of a copy that this caller began. A copy of another caller gives the same error as a missing one.
    pub(crate) fn load_record(
        &self,
        transfer: &str,
        caller: &str,
    ) -> Result<TransferRecord, TransferStoreError> {
        let record = self.read_record(transfer)?.filter(|record| record.caller == caller);
        record.ok_or_else(|| TransferStoreError::Unknown(transfer.to_owned()))
    }

    /// Continues the copy if its parts are there, otherwise begins it. Returns the map of its parts.
    pub(crate) fn begin_or_resume(
        &self,
        record: &TransferRecord,
        target: &AdmittedPath,
    ) -> Result<Vec<u8>, TransferStoreError> {
        let lock = self.lock_of(&record.transfer);
        let _guard = lock.write().unwrap_or_else(PoisonError::into_inner);
        let _begin_guard = self.begin_lock.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(map) = self.read_parts(record, target) {
            // The attributes may be others than before.
            self.write_record(record)?;
            return Ok(map);
        }
        self.remove_files(record, target);
        let count = self.list_records()?.len();
        if count >= self.max_transfers {
            return Err(TransferStoreError::Full { count, limit: self.max_transfers });
        }
        let created = self.create_parts(record, target);
        if created.is_err() {
            self.remove_files(record, target);
        }
        created
    }

    /// The map of a copy that can be continued.
    fn read_parts(&self, record: &TransferRecord, target: &AdmittedPath) -> Option<Vec<u8>> {
        self.read_record(&record.transfer).ok()??;
        let map = self.read_map(record).ok()?;
        let parts =
            target.entry.as_ref()?.sibling(&record.part_name()).ok()?.open_writable().ok()?;
        let is_complete =
            map.len() as u64 == record.chunk_count() && parts.size().ok()? == record.size;
        is_complete.then_some(map)
    }

    fn create_parts(
        &self,
        record: &TransferRecord,
        target: &AdmittedPath,
    ) -> Result<Vec<u8>, TransferStoreError> {
        let Some(entry) = &target.entry else {
            return Err(TransferStoreError::NoDirectory(record.path.clone()));
        };
        let (needed, available) = (record.size, entry.available_bytes()?);
        if available < needed.saturating_add(SPARE_BYTES) {
            let path = record.path.clone();
            return Err(TransferStoreError::Space { path, needed, available });
        }
        // Recorded first, so that the parts are found and removed even if the daemon ends in between.
        self.write_record(record)?;
        entry.sibling(&record.part_name())?.create_writable()?.reserve(record.size)?;
        let map = vec![0; usize::try_from(record.chunk_count()).unwrap_or(0)];
        self.open_state()?.replace_file(&map_name(&record.transfer), &map)?;
        Ok(map)
    }

    /// The map of the parts of a copy: a byte for each.
    pub(crate) fn read_map(&self, record: &TransferRecord) -> Result<Vec<u8>, TransferStoreError> {
        let name = map_name(&record.transfer);
        let map = self.open_state()?.read_file(&name, record.chunk_count())?;
        map.ok_or_else(|| TransferStoreError::Unknown(record.transfer.clone()))
    }

    /// Marks a part as written.
    pub(crate) fn mark_written(
        &self,
        record: &TransferRecord,
        index: u64,
    ) -> Result<(), TransferStoreError> {
        let path = self.directory.join(map_name(&record.transfer));
        let map = OpenOptions::new().write(true).mode(0o600).open(&path);
        map.and_then(|map| map.write_all_at(&[WRITTEN], index))
            .map_err(|source| TransferStoreError::Map { path, source })
    }

    /// Removes a copy with its parts. The caller holds its exclusive lock.
    pub(crate) fn remove_transfer(&self, record: &TransferRecord, system: &dyn System) {
        if let Ok(target) = self.policy.admit_path(system, &record.path, true) {
            self.remove_files(record, &target);
        }
        self.forget_transfer(record);
    }

    /// Removes what is known of a copy whose parts are gone. The caller holds its exclusive lock.
    pub(crate) fn forget_transfer(&self, record: &TransferRecord) {
        if let Ok(state) = self.open_state() {
            // What cannot be removed now is removed when it has expired.
            let _ = state.remove_file(&map_name(&record.transfer));
            let _ = state.remove_file(&record_name(&record.transfer));
        }
    }

    fn remove_files(&self, record: &TransferRecord, target: &AdmittedPath) {
        if let Some(entry) = &target.entry
            && let Ok(parts) = entry.sibling(&record.part_name())
        {
            // Often there are none.
            let _ = parts.remove_entry(false);
        }
        if let Ok(state) = self.open_state() {
            let _ = state.remove_file(&map_name(&record.transfer));
            let _ = state.remove_file(&record_name(&record.transfer));
        }
    }

    /// Removes copies whose last part is too old. Returns the number of those that remain.
    pub(crate) fn remove_expired(&self, system: &dyn System) -> usize {
        let records = self.list_records().unwrap_or_default();
        let count = records.len();
        let expired = records.into_iter().filter(|record| self.is_expired(record, system));
        let removed = expired.map(|record| {
            let lock = self.lock_of(&record.transfer);
            let _guard = lock.write().unwrap_or_else(PoisonError::into_inner);
            self.remove_transfer(&record, system);
        });
        count - removed.count()
    }

    fn is_expired(&self, record: &TransferRecord, system: &dyn System) -> bool {
        let modified = |name: String| {
            let file = File::open(self.directory.join(name)).ok()?;
            file.metadata().ok()?.modified().ok()
        };
        let last =
            modified(map_name(&record.transfer)).max(modified(record_name(&record.transfer)));
        let age = last.map(|last| system.now().duration_since(last).unwrap_or_default());
        age.is_none_or(|age| age >= self.expiry)
    }

    /// Removes expired copies later, as long as there are unfinished ones.
    pub(crate) fn schedule_expiry(self: &Arc<Self>, system: &Arc<dyn System>) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if self.is_sweeping.swap(true, Ordering::AcqRel) {
            return;
        }
        let (store, system, pause) = (Arc::downgrade(self), Arc::clone(system), self.expiry);
        runtime.spawn(async move {
            loop {
                tokio::time::sleep(pause + Duration::from_secs(1)).await;
                let Some(store) = store.upgrade() else { return };
                let system = Arc::clone(&system);
                let sweep = move || {
                    let remaining = store.remove_expired(&*system);
                    store.is_sweeping.store(remaining > 0, Ordering::Release);
                    remaining
                };
                if tokio::task::spawn_blocking(sweep).await.is_ok_and(|remaining| remaining == 0) {
                    return;
                }
            }
        });
    }

    fn open_state(&self) -> SystemResult<StateDir> {
        StateDir::open(&self.directory)
    }

    fn list_records(&self) -> Result<Vec<TransferRecord>, TransferStoreError> {
        let names = self.open_state()?.list_names("")?;
        let transfers = names.iter().filter_map(|name| name.strip_suffix(".json"));
        Ok(transfers.filter_map(|transfer| self.read_record(transfer).ok()?).collect())
    }

    /// The record of a copy; `None` if there is none, or none that this version can read.
    fn read_record(&self, transfer: &str) -> Result<Option<TransferRecord>, TransferStoreError> {
        // The handle becomes a part of a path.
        if !transfer.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Ok(None);
        }
        if !Path::new(&self.directory).exists() {
            return Ok(None);
        }
        Ok(self.open_state()?.read_record(&record_name(transfer), MAX_RECORD_BYTES)?)
    }

    fn write_record(&self, record: &TransferRecord) -> Result<(), TransferStoreError> {
        Ok(self.open_state()?.replace_record(&record_name(&record.transfer), record)?)
    }
}

fn record_name(transfer: &str) -> String {
    format!("{transfer}.json")
}

fn map_name(transfer: &str) -> String {
    format!("{transfer}.map")
}
