//! The memory of seen requests on disk, so that a restart does not run a captured request again.
//!
//! Every request is appended; before an action that changes the node, the file is also forced to disk. The form of the records
//! and what counts as seen is `muster_wire::fresh`'s. A disk without room keeps nobody from reading: it is tried again with each request.
//!
//! What a journal no longer holds cannot be told from what never came. So after a start without a whole journal, requests that were issued
//! before the start are refused, for as long as they could have been valid.

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

/// The journal is written anew when it holds this many records, and at every start.
const COMPACT_THRESHOLD: usize = 65_536;

/// The seen requests of one node.
#[derive(Debug)]
pub struct SeenRequests {
    inner: Mutex<SeenState>,
    /// What the start found.
    found: JournalState,
    /// The time of the start, by the node's clock.
    started: Millis,
    /// Where the clock begins that nobody can set.
    began: Instant,
}

/// What a start found of the journal of the daemon before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JournalState {
    /// All of it.
    Intact,
    /// None, as on a machine where no daemon has run.
    Missing,
    /// None, though a daemon has run here; or an emptied file.
    Lost,
    /// So many records are damaged.
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
    /// Nothing as long as there was never room for it. What an earlier life has written stays in its place.
    file: Option<Arc<File>>,
    records: usize,
}

/// The journal cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("cannot keep the journal of seen requests in {}", path.display())]
pub struct SeenError {
    /// The file.
    path: PathBuf,
    /// The system's word.
    #[source]
    source: io::Error,
}

impl SeenRequests {
    /// A memory that ends with the process, for virtual nodes.
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

    /// Takes up the journal at this path. A torn or damaged record is left out. Without room on the disk it begins all the same: what
    /// is to be remembered fails then, until there is room. `ran_before` tells whether there are other traces of an earlier daemon.
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
                tracing::error!(%error, path = %path.display(), "no change is made before seen requests can be written down");
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

    /// What the start found of the journal.
    pub fn journal_state(&self) -> JournalState {
        self.found
    }

    /// Whether a request that was issued at this instant, for this long, may have been seen by an earlier daemon whose journal is gone. Clocks
    /// may differ by `skew`. Once the request's life is over on a clock that cannot be set, its age alone decides again.
    pub fn may_have_been_seen(&self, issued_at: Millis, ttl: Millis, skew: Millis) -> bool {
        let before = match self.found {
            JournalState::Intact => return false,
            // What no daemon ran for cannot have been seen here; a machine that was set up anew still refuses what is surely older.
            JournalState::Missing => self.started.saturating_sub(skew),
            JournalState::Lost | JournalState::Damaged(_) => self.started.saturating_add(skew),
        };
        let life = ttl.saturating_add(skew.saturating_mul(3));
        issued_at < before && self.now(0).steady <= life
    }

    /// Notes a request. It counts as seen even if the journal could not be written, which is told by the error.
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

    /// Forgets what is over, also when nobody asks anything any more.
    pub fn forget_expired(&self, now: Millis) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.cache.remove_expired(self.now(now));
    }

    fn now(&self, wall: Millis) -> DualClockInstant {
        let steady = Millis::try_from(self.began.elapsed().as_millis()).unwrap_or(Millis::MAX);
        DualClockInstant { wall, steady }
    }

    /// Forces what was noted to disk. Blocks.
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
    /// What is wrong with the journal, for the log and for health.
    pub fn problem(self) -> Option<String> {
        let what = match self {
            Self::Intact | Self::Missing => return None,
            Self::Lost => "the journal of seen requests is gone".to_owned(),
            Self::Damaged(records) => {
                format!("{records} records of the journal of seen requests are damaged")
            }
        };
        Some(format!(
            "{what}; requests that were issued before the daemon's start are refused until they have expired"
        ))
    }
}

/// Whether this is for want of room, which may be made at any time.
fn is_out_of_room(error: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    matches!(
        error.kind(),
        QuotaExceeded | ReadOnlyFilesystem | StorageFull
    )
}

impl SeenJournal {
    /// One for which there was no room.
    fn without_file(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            file: None,
            records: 0,
        }
    }

    /// Writes what is alive to a new file, and puts it in the old one's place.
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
            // The record is in the cache already.
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
