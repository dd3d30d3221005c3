//! The journal of seen requests on disk, so that a restart does not execute a captured request again.
//!
//! Every request is appended; before an action that changes the node, the file is also synced to disk. `muster_wire::fresh` defines the record
//! format and what counts as seen. A full disk does not block reads: writing is retried with each request.
//!
//! A lost journal cannot show whether a request was seen. After a start without a complete journal, requests issued before the start are therefore
//! refused for as long as they could have been valid.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use muster_wire::Millis;
use muster_wire::fresh::{
    DEFAULT_CAPACITY, DualClockInstant, InsertionOutcome, JOURNAL_START, SeenCache, SeenRecord,
};
use uuid::Uuid;

/// The journal is compacted at this number of records, and at every start.
const COMPACT_THRESHOLD: usize = 65_536;

/// The seen requests of one node.
#[derive(Debug)]
pub struct SeenRequests {
    inner: Mutex<SeenState>,
    /// The state of the journal at start.
    found: JournalState,
    /// The start time on the node's clock.
    started: Millis,
    /// The start time on the monotonic clock, which cannot be set.
    began: Instant,
}

/// The state of the previous daemon's journal at start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JournalState {
    /// Complete.
    Intact,
    /// Missing, on a machine where no daemon has run.
    Missing,
    /// Missing although a daemon has run, or truncated to zero.
    Lost,
    /// This number of records is damaged.
    Damaged(usize),
}

#[derive(Debug)]
struct SeenState {
    cache: SeenCache,
    journal: Option<SeenJournal>,
}

#[derive(Debug)]
struct SeenJournal {
    path: PathBuf,
    /// `None` while the disk never had free space for it. An earlier daemon's file stays in place.
    file: Option<Arc<File>>,
    records: usize,
}

/// The journal cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("cannot read or write the journal of seen requests in {}", path.display())]
pub struct SeenError {
    /// The file.
    path: PathBuf,
    /// The system error.
    #[source]
    source: io::Error,
}

impl SeenRequests {
    /// An in-memory journal, for virtual nodes.
    pub fn in_memory() -> Self {
        Self {
            inner: Mutex::new(SeenState {
                cache: SeenCache::default(),
                journal: None,
            }),
            found: JournalState::Intact,
            started: 0,
            began: Instant::now(),
        }
    }

    /// Opens the journal at this path. Skips a torn or damaged record. Without free disk space it opens too: writes then fail until there is space.
    /// `ran_before` is whether other files show that a daemon has run before.
    pub fn open(path: &Path, now: Millis, ran_before: bool) -> Result<Self, SeenError> {
        let failed = |source| SeenError {
            path: path.to_owned(),
            source,
        };
        let bytes = match std::fs::read(path) {
            Ok(bytes) => Some(bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed(error)),
        };
        let decoded = SeenRecord::decode_all(bytes.as_deref().unwrap_or_default());
        let found = match bytes {
            None if !ran_before => JournalState::Missing,
            None => JournalState::Lost,
            Some(_) if decoded.damaged > 0 => JournalState::Damaged(decoded.damaged),
            Some(_) if !decoded.has_start => JournalState::Lost,
            Some(_) => JournalState::Intact,
        };
        if let Some(problem) = found.problem() {
            tracing::error!(path = %path.display(), "{problem}");
        }
        let began = Instant::now();
        let start = DualClockInstant {
            wall: now,
            steady: 0,
        };
        let cache = SeenCache::restore(decoded.records, DEFAULT_CAPACITY, start);
        let journal = match SeenJournal::rewrite(path, &cache) {
            Err(error) if is_out_of_room(&error) => {
                tracing::error!(%error, path = %path.display(), "the journal of seen requests cannot be written; changes are refused");
                SeenJournal::without_file(path)
            }
            written => written.map_err(failed)?,
        };
        Ok(Self {
            inner: Mutex::new(SeenState {
                cache,
                journal: Some(journal),
            }),
            found,
            started: now,
            began,
        })
    }

    /// The state of the journal at start.
    pub fn journal_state(&self) -> JournalState {
        self.found
    }

    /// Whether an earlier daemon whose journal is lost may have seen a request with this issue time and lifetime. Clocks may differ by `skew`. Once
    /// the lifetime has passed on the monotonic clock, only the request's age decides.
    pub fn may_have_been_seen(&self, issued_at: Millis, ttl: Millis, skew: Millis) -> bool {
        let before = match self.found {
            JournalState::Intact => return false,
            // Without an earlier daemon nothing was seen here; a newly installed machine still refuses requests that are certainly older.
            JournalState::Missing => self.started.saturating_sub(skew),
            JournalState::Lost | JournalState::Damaged(_) => self.started.saturating_add(skew),
        };
        let life = ttl.saturating_add(skew.saturating_mul(3));
        issued_at < before && self.now(0).steady <= life
    }

    /// Adds a request. It counts as seen even if the journal write fails, which the error reports.
    pub fn insert(
        &self,
        caller: &[u8; 32],
        request: Uuid,
        expires: Millis,
        now: Millis,
    ) -> Result<InsertionOutcome, SeenError> {
        let now = self.now(now);
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let SeenState { cache, journal } = &mut *inner;
        let insertion = cache.insert(caller, request, expires, now);
        if let (InsertionOutcome::Fresh, Some(journal)) = (insertion, journal) {
            let record = SeenRecord {
                caller: *caller,
                request,
                expires,
            };
            journal.append(&record, cache).map_err(|source| SeenError {
                path: journal.path.clone(),
                source,
            })?;
        }
        Ok(insertion)
    }

    /// Forgets expired requests. Needed on an idle node, which gets no new requests.
    pub fn forget_expired(&self, now: Millis) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.cache.remove_expired(self.now(now));
    }

    fn now(&self, wall: Millis) -> DualClockInstant {
        let steady = Millis::try_from(self.began.elapsed().as_millis()).unwrap_or(Millis::MAX);
        DualClockInstant { wall, steady }
    }

    /// Syncs the journal to disk. Blocks.
    pub fn sync(&self) -> Result<(), SeenError> {
        let journal = {
            let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            let journal = inner.journal.as_ref();
            journal.map(|journal| (journal.file.clone(), journal.path.clone()))
        };
        let Some((file, path)) = journal else {
            return Ok(());
        };
        let synced = match file {
            Some(file) => file.sync_data(),
            None => Err(io::ErrorKind::StorageFull.into()),
        };
        synced.map_err(|source| SeenError { path, source })
    }
}

impl JournalState {
    /// The problem with the journal, for the log and the health report.
    pub fn problem(self) -> Option<String> {
        let what = match self {
            Self::Intact | Self::Missing => return None,
            Self::Lost => "the journal of seen requests is lost".to_owned(),
            Self::Damaged(records) => {
                format!("{records} records of the journal of seen requests are damaged")
            }
        };
        Some(format!(
            "{what}; requests that were issued before the start of the daemon are refused until they expire"
        ))
    }
}

/// Whether the error means that the disk is full, which may change at any time.
fn is_out_of_room(error: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    matches!(
        error.kind(),
        QuotaExceeded | ReadOnlyFilesystem | StorageFull
    )
}

impl SeenJournal {
    /// A journal without a file, for a full disk.
    fn without_file(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            file: None,
            records: 0,
        }
    }

    /// Writes the unexpired records to a new file, and renames it over the old one.
    fn rewrite(path: &Path, cache: &SeenCache) -> io::Result<Self> {
        let fresh = path.with_extension("new");
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&fresh)?;
        let records = cache.records().flat_map(|record| record.encode());
        let bytes: Vec<u8> = JOURNAL_START.into_iter().chain(records).collect();
        file.write_all(&bytes)?;
        file.sync_data()?;
        std::fs::rename(&fresh, path)?;
        if let Some(directory) = path.parent() {
            File::open(directory)?.sync_all()?;
        }
        Ok(Self {
            path: path.to_owned(),
            file: Some(Arc::new(file)),
            records: cache.len(),
        })
    }

    fn append(&mut self, record: &SeenRecord, cache: &SeenCache) -> io::Result<()> {
        let grown = self.records >= COMPACT_THRESHOLD && self.records > 2 * cache.len();
        match &self.file {
            Some(file) if !grown => {
                (&**file).write_all(&record.encode())?;
                self.records += 1;
            }
            // The rewrite includes the record, which is in the cache already.
            _ => *self = Self::rewrite(&self.path, cache)?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Longer than any clock is wrong.
    const LATER: Millis = 86_400_000;

    #[test]
    fn a_restart_remembers_what_is_alive_and_forgets_the_rest() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("seen");
        let (old, young) = (Uuid::now_v7(), Uuid::now_v7());
        let seen = SeenRequests::open(&path, 0, false).unwrap();
        assert_eq!(
            seen.insert(&[1; 32], old, 100, 0).unwrap(),
            InsertionOutcome::Fresh
        );
        assert_eq!(
            seen.insert(&[1; 32], young, LATER + 900, 0).unwrap(),
            InsertionOutcome::Fresh
        );
        seen.sync().unwrap();
        drop(seen);

        let seen = SeenRequests::open(&path, LATER + 500, true).unwrap();
        assert_eq!(
            seen.insert(&[1; 32], young, LATER + 900, LATER + 500)
                .unwrap(),
            InsertionOutcome::Seen
        );
        assert_eq!(
            seen.insert(&[2; 32], young, LATER + 900, LATER + 500)
                .unwrap(),
            InsertionOutcome::Fresh
        );
        assert_eq!(
            seen.insert(&[1; 32], old, LATER + 900, LATER + 500)
                .unwrap(),
            InsertionOutcome::Fresh
        );
    }

    #[test]
    fn a_torn_record_costs_only_itself() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("seen");
        let request = Uuid::now_v7();
        SeenRequests::open(&path, 0, false)
            .unwrap()
            .insert(&[1; 32], request, 900, 0)
            .unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.extend_from_slice(&[7; 20]);
        std::fs::write(&path, bytes).unwrap();
        let seen = SeenRequests::open(&path, 1, true).unwrap();
        assert_eq!(
            seen.insert(&[1; 32], request, 900, 1).unwrap(),
            InsertionOutcome::Seen
        );
    }

    #[test]
    fn without_a_whole_journal_what_was_issued_before_the_start_may_be_forgotten() {
        const START: Millis = 1_000_000;
        const SKEW: Millis = 30_000;
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("seen");
        let forgotten = |ran_before| {
            let seen = SeenRequests::open(&path, START, ran_before).unwrap();
            let forgets = |issued_at| seen.may_have_been_seen(issued_at, 60_000, SKEW);
            let last = (0..START + 2 * SKEW).rev().find(|at| forgets(*at));
            (seen.journal_state(), last)
        };
        // The first start of all; the next one finds its journal, though it is without records.
        assert_eq!(
            forgotten(false),
            (JournalState::Missing, Some(START - SKEW - 1))
        );
        assert_eq!(forgotten(true), (JournalState::Intact, None));

        let seen = SeenRequests::open(&path, START, true).unwrap();
        for _ in 0..3 {
            seen.insert(&[1; 32], Uuid::now_v7(), START + 900, START)
                .unwrap();
        }
        drop(seen);
        let whole = std::fs::read(&path).unwrap();
        // Whether the clock of a caller was ahead is not known, so one skew is added.
        let until = Some(START + SKEW - 1);
        for place in [1, 3] {
            let mut damaged = whole.clone();
            damaged[place * SeenRecord::BYTES + 40] ^= 1;
            std::fs::write(&path, damaged).unwrap();
            assert_eq!(
                forgotten(true),
                (JournalState::Damaged(1), until),
                "{place}"
            );
        }
        for lost in [&b""[..], &[0; 10]] {
            std::fs::write(&path, lost).unwrap();
            assert_eq!(forgotten(true), (JournalState::Lost, until));
        }
        std::fs::remove_file(&path).unwrap();
        assert_eq!(forgotten(true), (JournalState::Lost, until));
    }
}
