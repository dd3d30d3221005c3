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
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use muster_base::{count_text, duration_millis};
use muster_wire::Millis;
use muster_wire::fresh::{
    DEFAULT_CAPACITY, DualClockInstant, InsertionOutcome, JOURNAL_START, SeenCache, SeenRecord,
};
use tokio::sync::Notify;
use uuid::Uuid;

use crate::ground::files;
use crate::ground::shared::lock_mutex;

/// The journal is compacted at this number of records, and at every start.
const COMPACT_THRESHOLD: usize = 65_536;

/// Passes of a compaction that write without the lock. Each pass is shorter than the one before, unless requests arrive faster than the disk writes.
const UNLOCKED_PASSES: usize = 4;

#[derive(Debug)]
pub struct SeenRequests {
    inner: Mutex<SeenState>,
    /// Notified when the journal has grown enough for a compaction.
    grown: Notify,
    journal_state: JournalState,
    /// The start time on the node's clock.
    wall_start: Millis,
    /// The start time on the monotonic clock, which cannot be set.
    steady_start: Instant,
}

/// The state of the previous daemon's journal at start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JournalState {
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
    /// Records appended since a compaction read the cache, encoded; `None` while there is no compaction.
    appended: Option<Vec<u8>>,
    /// Whether the file was renamed into place and its directory is not yet on disk.
    renamed: bool,
}

/// The journal cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("cannot read or write the journal of seen requests in {}", path.display())]
pub struct SeenError {
    path: PathBuf,
    source: io::Error,
}

impl SeenRequests {
    /// An in-memory journal, for virtual nodes.
    pub fn in_memory() -> Self {
        Self {
            inner: Mutex::new(SeenState { cache: SeenCache::default(), journal: None }),
            grown: Notify::new(),
            journal_state: JournalState::Intact,
            wall_start: 0,
            steady_start: Instant::now(),
        }
    }

    /// Skips a torn or damaged record. Without free disk space it opens too: writes then fail until there is space. `ran_before` is whether other
    /// files show that a daemon has run before.
    pub fn open(path: &Path, now: Millis, ran_before: bool) -> Result<Self, SeenError> {
        let to_error = |source| SeenError { path: path.to_owned(), source };
        let bytes = files::allow_missing(std::fs::read(path)).map_err(to_error)?;
        let decoded = SeenRecord::decode_all(bytes.as_deref().unwrap_or_default());
        let journal_state = match bytes {
            None if !ran_before => JournalState::Missing,
            None => JournalState::Lost,
            Some(_) if decoded.damaged > 0 => JournalState::Damaged(decoded.damaged),
            Some(_) if !decoded.has_start => JournalState::Lost,
            Some(_) => JournalState::Intact,
        };
        if let Some(problem) = journal_state.problem() {
            tracing::error!(path = %path.display(), "{problem}");
        }
        let steady_start = Instant::now();
        let start = DualClockInstant { wall: now, steady: 0 };
        let cache = SeenCache::restore(decoded.records, DEFAULT_CAPACITY, start);
        let journal = match SeenJournal::rewrite(path, &cache) {
            Err(error) if is_out_of_room(&error) => {
                tracing::error!(%error, path = %path.display(), "the journal of seen requests cannot be written; changes are refused");
                SeenJournal::without_file(path)
            }
            written => written.map_err(to_error)?,
        };
        Ok(Self {
            inner: Mutex::new(SeenState { cache, journal: Some(journal) }),
            grown: Notify::new(),
            journal_state,
            wall_start: now,
            steady_start,
        })
    }

    pub fn journal_state(&self) -> JournalState {
        self.journal_state
    }

    /// Whether an earlier daemon whose journal is lost may have seen a request with this issue time and lifetime. Clocks may differ by `skew`. Once
    /// the lifetime has passed on the monotonic clock, only the request's age decides.
    pub fn may_have_been_seen(&self, issued_at: Millis, ttl: Millis, skew: Millis) -> bool {
        let cutoff = match self.journal_state {
            JournalState::Intact => return false,
            // Without an earlier daemon nothing was seen here; a newly installed machine still refuses requests that are certainly older.
            JournalState::Missing => self.wall_start.saturating_sub(skew),
            JournalState::Lost | JournalState::Damaged(_) => self.wall_start.saturating_add(skew),
        };
        let lifetime = ttl.saturating_add(skew.saturating_mul(3));
        issued_at < cutoff && self.now(0).steady <= lifetime
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
        let mut inner = self.lock();
        let SeenState { cache, journal } = &mut *inner;
        let insertion = cache.insert(caller, request, expires, now);
        if let (InsertionOutcome::New, Some(journal)) = (insertion, journal) {
            let record = SeenRecord { caller: *caller, request, expires };
            let appended = journal.append(&record, cache);
            if journal.is_compaction_due(cache) {
                self.grown.notify_one();
            }
            appended.map_err(|source| SeenError { path: journal.path.clone(), source })?;
        }
        Ok(insertion)
    }

    /// Needed on an idle node, which gets no new requests.
    pub fn forget_expired(&self, now: Millis) {
        let mut inner = self.lock();
        inner.cache.remove_expired(self.now(now));
    }

    fn now(&self, wall: Millis) -> DualClockInstant {
        DualClockInstant { wall, steady: duration_millis(self.steady_start.elapsed()) }
    }

    /// Waits until the journal has grown enough for [`Self::compact`].
    pub async fn wait_until_grown(&self) {
        self.grown.notified().await;
    }

    /// Blocks.
    pub fn sync(&self) -> Result<(), SeenError> {
        let (file, path, renamed) = {
            let inner = self.lock();
            let Some(journal) = &inner.journal else { return Ok(()) };
            (journal.file.clone(), journal.path.clone(), journal.renamed)
        };
        let synced = match file {
            Some(file) if renamed => file.sync_data().and_then(|()| sync_directory(&path)),
            Some(file) => file.sync_data(),
            None => Err(io::ErrorKind::StorageFull.into()),
        };
        synced.map_err(|source| SeenError { path, source })
    }

    /// Replaces the journal by a file without expired records. Requests are inserted meanwhile: the lock is held while memory is copied and the
    /// file is renamed, and not while data is written. Blocks. On an error the old file stays in use.
    pub fn compact(&self) -> Result<(), SeenError> {
        let (path, snapshot) = {
            let mut inner = self.lock();
            let SeenState { cache, journal } = &mut *inner;
            let Some(journal) = journal.as_mut().filter(|it| it.is_compaction_due(cache)) else {
                return Ok(());
            };
            journal.appended = Some(Vec::new());
            (journal.path.clone(), encode_records(cache))
        };
        let written = self.write_compacted(&path, &snapshot);
        if written.is_err() {
            // Tried again after as many records more, not at each request: the disk is probably full.
            self.edit_journal(|journal| (journal.appended, journal.records) = (None, 0));
        }
        written.map_err(|source| SeenError { path, source })
    }

    fn write_compacted(&self, path: &Path, snapshot: &[u8]) -> io::Result<()> {
        let file = create_beside(path)?;
        let file = Arc::new(file);
        (&*file).write_all(snapshot)?;
        file.sync_data()?;
        for _ in 0..UNLOCKED_PASSES {
            let mut appended = Vec::new();
            self.edit_journal(|journal| {
                appended = journal.appended.replace(Vec::new()).unwrap_or_default();
            });
            if appended.is_empty() {
                break;
            }
            (&*file).write_all(&appended)?;
            file.sync_data()?;
        }
        self.replace_file(path, &file)?;
        sync_directory(path)?;
        self.edit_journal(|journal| journal.renamed = false);
        Ok(())
    }

    /// Adds the records of the last pass, and renames the new file over the old one.
    fn replace_file(&self, path: &Path, file: &Arc<File>) -> io::Result<()> {
        let mut inner = self.lock();
        let SeenState { cache, journal } = &mut *inner;
        let Some(journal) = journal else { return Ok(()) };
        let appended = journal.appended.take().unwrap_or_default();
        if !appended.is_empty() {
            (&**file).write_all(&appended)?;
            file.sync_data()?;
        }
        std::fs::rename(path.with_extension("new"), path)?;
        journal.file = Some(Arc::clone(file));
        journal.records = cache.len();
        journal.renamed = true;
        Ok(())
    }

    fn edit_journal(&self, edit: impl FnOnce(&mut SeenJournal)) {
        if let Some(journal) = &mut self.lock().journal {
            edit(journal);
        }
    }

    fn lock(&self) -> MutexGuard<'_, SeenState> {
        lock_mutex(&self.inner)
    }
}

impl JournalState {
    pub fn problem(self) -> Option<String> {
        let problem = match self {
            Self::Intact | Self::Missing => return None,
            Self::Lost => "the journal of seen requests is lost".to_owned(),
            Self::Damaged(records) => {
                let records = count_text(records, "record", "records");
                format!("the journal of seen requests has {records} with damage")
            }
        };
        Some(format!(
            "{problem}; requests that were issued before the start of the daemon are refused until they expire"
        ))
    }
}

/// Whether the error means that the disk is full, which may change at any time.
fn is_out_of_room(error: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    matches!(error.kind(), QuotaExceeded | ReadOnlyFilesystem | StorageFull)
}

impl SeenJournal {
    /// A journal without a file, for a full disk.
    fn without_file(path: &Path) -> Self {
        Self { path: path.to_owned(), file: None, records: 0, appended: None, renamed: false }
    }

    /// Writes the unexpired records to a new file, and renames it over the old one.
    fn rewrite(path: &Path, cache: &SeenCache) -> io::Result<Self> {
        let mut file = create_beside(path)?;
        file.write_all(&encode_records(cache))?;
        file.sync_data()?;
        std::fs::rename(path.with_extension("new"), path)?;
        sync_directory(path)?;
        Ok(Self { file: Some(Arc::new(file)), records: cache.len(), ..Self::without_file(path) })
    }

    /// Whether most records have expired. A compaction that is running is not due again.
    fn is_compaction_due(&self, cache: &SeenCache) -> bool {
        let grown = self.records >= COMPACT_THRESHOLD && self.records > 2 * cache.len();
        grown && self.appended.is_none() && self.file.is_some()
    }

    fn append(&mut self, record: &SeenRecord, cache: &SeenCache) -> io::Result<()> {
        let Some(file) = &self.file else {
            // The rewrite includes the record, which is in the cache already.
            *self = Self::rewrite(&self.path, cache)?;
            return Ok(());
        };
        let bytes = record.encode();
        (&**file).write_all(&bytes)?;
        self.records += 1;
        if let Some(appended) = &mut self.appended {
            appended.extend(bytes);
        }
        Ok(())
    }
}

fn encode_records(cache: &SeenCache) -> Vec<u8> {
    let records = cache.records().flat_map(|record| record.encode());
    JOURNAL_START.into_iter().chain(records).collect()
}

/// The file that replaces the journal.
fn create_beside(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.open(path.with_extension("new"))
}

fn sync_directory(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |directory| File::open(directory)?.sync_all())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Longer than the largest clock error.
    const LATER: Millis = 86_400_000;

    #[test]
    fn restart_keeps_valid_requests_and_drops_expired_ones() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("seen");
        let (old, young) = (Uuid::now_v7(), Uuid::now_v7());
        let seen = SeenRequests::open(&path, 0, false).unwrap();
        assert_eq!(seen.insert(&[1; 32], old, 100, 0).unwrap(), InsertionOutcome::New);
        assert_eq!(seen.insert(&[1; 32], young, LATER + 900, 0).unwrap(), InsertionOutcome::New);
        seen.sync().unwrap();
        drop(seen);

        let seen = SeenRequests::open(&path, LATER + 500, true).unwrap();
        assert_eq!(
            seen.insert(&[1; 32], young, LATER + 900, LATER + 500).unwrap(),
            InsertionOutcome::Seen
        );
        assert_eq!(
            seen.insert(&[2; 32], young, LATER + 900, LATER + 500).unwrap(),
            InsertionOutcome::New
        );
        assert_eq!(
            seen.insert(&[1; 32], old, LATER + 900, LATER + 500).unwrap(),
            InsertionOutcome::New
        );
    }

    #[test]
    fn torn_record_does_not_affect_other_records() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("seen");
        let request = Uuid::now_v7();
        SeenRequests::open(&path, 0, false).unwrap().insert(&[1; 32], request, 900, 0).unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.extend_from_slice(&[7; 20]);
        std::fs::write(&path, bytes).unwrap();
        let seen = SeenRequests::open(&path, 1, true).unwrap();
        assert_eq!(seen.insert(&[1; 32], request, 900, 1).unwrap(), InsertionOutcome::Seen);
    }

    #[test]
    fn without_an_intact_journal_requests_before_the_start_may_have_been_seen() {
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
        // On the first start there is no journal. The next start finds a journal without records.
        assert_eq!(forgotten(false), (JournalState::Missing, Some(START - SKEW - 1)));
        assert_eq!(forgotten(true), (JournalState::Intact, None));

        let seen = SeenRequests::open(&path, START, true).unwrap();
        for _ in 0..3 {
            seen.insert(&[1; 32], Uuid::now_v7(), START + 900, START).unwrap();
        }
        drop(seen);
        let whole = std::fs::read(&path).unwrap();
        // The clock of a caller may have been ahead, so one skew is added.
        let until = Some(START + SKEW - 1);
        for place in [1, 3] {
            let mut damaged = whole.clone();
            damaged[place * SeenRecord::BYTES + 40] ^= 1;
            std::fs::write(&path, damaged).unwrap();
            assert_eq!(forgotten(true), (JournalState::Damaged(1), until), "{place}");
        }
        for lost in [&b""[..], &[0; 10]] {
            std::fs::write(&path, lost).unwrap();
            assert_eq!(forgotten(true), (JournalState::Lost, until));
        }
        std::fs::remove_file(&path).unwrap();
        assert_eq!(forgotten(true), (JournalState::Lost, until));
    }

    #[test]
    fn compaction_keeps_requests_that_are_inserted_meanwhile() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("seen");
        let seen = SeenRequests::open(&path, 0, false).unwrap();
        let insert = |expires, now| {
            let id = Uuid::now_v7();
            let outcome = seen.insert(&[1; 32], id, expires, now).unwrap();
            assert_eq!(outcome, InsertionOutcome::New);
            id
        };
        for _ in 0..COMPACT_THRESHOLD / 4 * 3 {
            insert(100, 0);
        }
        // The former requests have expired: the journal is long and the cache is short.
        let now = LATER;
        let mut alive: Vec<Uuid> =
            (0..=COMPACT_THRESHOLD / 4).map(|_| insert(now + 900, now)).collect();
        let grown = fs_len(&path);
        std::thread::scope(|scope| {
            let compacted = scope.spawn(|| seen.compact());
            while !compacted.is_finished() {
                alive.push(insert(now + 900, now));
            }
            compacted.join().unwrap().unwrap();
        });
        alive.push(insert(now + 900, now));
        seen.sync().unwrap();
        assert!(fs_len(&path) < grown, "nothing was removed");
        drop(seen);

        let again = SeenRequests::open(&path, now, true).unwrap();
        assert_eq!(again.journal_state(), JournalState::Intact);
        for id in alive {
            let outcome = again.insert(&[1; 32], id, now + 900, now).unwrap();
            assert_eq!(outcome, InsertionOutcome::Seen);
        }
    }

    fn fs_len(path: &Path) -> u64 {
        std::fs::metadata(path).unwrap().len()
    }
}
