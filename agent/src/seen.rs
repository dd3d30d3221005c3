//! The memory of seen requests on disk, so that a restart does not run a captured request again.
//!
//! Every request is appended; before an action that changes the node, the file is also forced to disk. The form of the records
//! and what counts as seen is `muster_wire::fresh`'s. A disk without room keeps nobody from reading: it is tried again with each request.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use muster_wire::Millis;
use muster_wire::fresh::{DEFAULT_CAPACITY, Insertion, Now, Record, SeenCache};
use uuid::Uuid;

/// The journal is written anew when it holds this many records, and at every start.
const COMPACT_AT: usize = 65_536;

/// The seen requests of one node.
#[derive(Debug)]
pub struct Seen {
    inner: Mutex<Inner>,
    /// Where the clock begins that nobody can set.
    began: Instant,
}

#[derive(Debug)]
struct Inner {
    cache: SeenCache,
    journal: Option<Journal>,
}

#[derive(Debug)]
struct Journal {
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

impl Seen {
    /// A memory that ends with the process, for virtual nodes.
    pub fn in_memory() -> Self {
        Self::with(SeenCache::default(), None, Instant::now())
    }

    /// Takes up the journal at this path. A torn or damaged record is left out. Without room on the disk it begins all the same: what
    /// is to be remembered fails then, until there is room.
    pub fn open(path: &Path, now: Millis) -> Result<Self, SeenError> {
        let failed = |source| SeenError {
            path: path.to_owned(),
            source,
        };
        let bytes = match std::fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(failed(error)),
        };
        let decoded = Record::decode_all(&bytes);
        if decoded.damaged > 0 {
            tracing::warn!(path = %path.display(), records = decoded.damaged, "damaged records of seen requests");
        }
        let began = Instant::now();
        let start = Now {
            wall: now,
            steady: 0,
        };
        let cache = SeenCache::restore(decoded.records, DEFAULT_CAPACITY, start);
        let journal = match Journal::write(path, &cache) {
            Err(error) if is_out_of_room(&error) => {
                tracing::error!(%error, path = %path.display(), "no change is made before seen requests can be written down");
                Journal::unwritten(path)
            }
            written => written.map_err(failed)?,
        };
        Ok(Self::with(cache, Some(journal), began))
    }

    fn with(cache: SeenCache, journal: Option<Journal>, began: Instant) -> Self {
        Self {
            inner: Mutex::new(Inner { cache, journal }),
            began,
        }
    }

    /// Notes a request. It counts as seen even if the journal could not be written, which is told by the error.
    pub fn insert(
        &self,
        caller: &[u8; 32],
        request: Uuid,
        expires: Millis,
        now: Millis,
    ) -> Result<Insertion, SeenError> {
        let now = self.now(now);
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let Inner { cache, journal } = &mut *inner;
        let insertion = cache.insert(caller, request, expires, now);
        if let (Insertion::Fresh, Some(journal)) = (insertion, journal) {
            let record = Record {
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
    pub fn forget(&self, now: Millis) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.cache.forget(self.now(now));
    }

    fn now(&self, wall: Millis) -> Now {
        let steady = Millis::try_from(self.began.elapsed().as_millis()).unwrap_or(Millis::MAX);
        Now { wall, steady }
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

/// Whether this is for want of room, which may be made at any time.
fn is_out_of_room(error: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    matches!(
        error.kind(),
        QuotaExceeded | ReadOnlyFilesystem | StorageFull
    )
}

impl Journal {
    /// One for which there was no room.
    fn unwritten(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            file: None,
            records: 0,
        }
    }

    /// Writes what is alive to a new file, and puts it in the old one's place.
    fn write(path: &Path, cache: &SeenCache) -> io::Result<Self> {
        let fresh = path.with_extension("new");
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&fresh)?;
        let bytes: Vec<u8> = cache.records().flat_map(|record| record.encode()).collect();
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

    fn append(&mut self, record: &Record, cache: &SeenCache) -> io::Result<()> {
        let grown = self.records >= COMPACT_AT && self.records > 2 * cache.len();
        match &self.file {
            Some(file) if !grown => {
                (&**file).write_all(&record.encode())?;
                self.records += 1;
            }
            // The record is in the cache already.
            _ => *self = Self::write(&self.path, cache)?,
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
        let seen = Seen::open(&path, 0).unwrap();
        assert_eq!(
            seen.insert(&[1; 32], old, 100, 0).unwrap(),
            Insertion::Fresh
        );
        assert_eq!(
            seen.insert(&[1; 32], young, LATER + 900, 0).unwrap(),
            Insertion::Fresh
        );
        seen.sync().unwrap();
        drop(seen);

        let seen = Seen::open(&path, LATER + 500).unwrap();
        assert_eq!(
            seen.insert(&[1; 32], young, LATER + 900, LATER + 500)
                .unwrap(),
            Insertion::Seen
        );
        assert_eq!(
            seen.insert(&[2; 32], young, LATER + 900, LATER + 500)
                .unwrap(),
            Insertion::Fresh
        );
        assert_eq!(
            seen.insert(&[1; 32], old, LATER + 900, LATER + 500)
                .unwrap(),
            Insertion::Fresh
        );
    }

    #[test]
    fn a_torn_record_costs_only_itself() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("seen");
        let request = Uuid::now_v7();
        Seen::open(&path, 0)
            .unwrap()
            .insert(&[1; 32], request, 900, 0)
            .unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.extend_from_slice(&[7; 20]);
        std::fs::write(&path, bytes).unwrap();
        let seen = Seen::open(&path, 1).unwrap();
        assert_eq!(
            seen.insert(&[1; 32], request, 900, 1).unwrap(),
            Insertion::Seen
        );
    }
}
