//! The memory of seen requests on disk, so that a restart does not run a captured request again.
//!
//! Every request is appended; before an action that changes the node, the file is also forced to disk. The form of the records
//! and what counts as seen is `muster_wire::fresh`'s.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use muster_wire::Millis;
use muster_wire::fresh::{DEFAULT_CAPACITY, Insertion, Record, SeenCache};
use uuid::Uuid;

/// The journal is written anew when it holds this many records, and at every start.
const COMPACT_AT: usize = 65_536;

/// The seen requests of one node.
#[derive(Debug)]
pub struct Seen {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    cache: SeenCache,
    journal: Option<Journal>,
}

#[derive(Debug)]
struct Journal {
    path: PathBuf,
    file: Arc<File>,
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
        Self::with(SeenCache::default(), None)
    }

    /// Takes up the journal at this path. A torn or damaged record is left out.
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
        let cache = SeenCache::restore(decoded.records, DEFAULT_CAPACITY, now);
        let journal = Journal::write(path, &cache).map_err(failed)?;
        Ok(Self::with(cache, Some(journal)))
    }

    fn with(cache: SeenCache, journal: Option<Journal>) -> Self {
        Self {
            inner: Mutex::new(Inner { cache, journal }),
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

    /// Forces what was noted to disk. Blocks.
    pub fn sync(&self) -> Result<(), SeenError> {
        let journal = {
            let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            inner
                .journal
                .as_ref()
                .map(|journal| (Arc::clone(&journal.file), journal.path.clone()))
        };
        match journal {
            Some((file, path)) => file
                .sync_data()
                .map_err(|source| SeenError { path, source }),
            None => Ok(()),
        }
    }
}

impl Journal {
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
            file: Arc::new(file),
            records: cache.len(),
        })
    }

    fn append(&mut self, record: &Record, cache: &SeenCache) -> io::Result<()> {
        if self.records >= COMPACT_AT && self.records > 2 * cache.len() {
            *self = Self::write(&self.path, cache)?;
            return Ok(());
        }
        (&*self.file).write_all(&record.encode())?;
        self.records += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            seen.insert(&[1; 32], young, 900, 0).unwrap(),
            Insertion::Fresh
        );
        seen.sync().unwrap();
        drop(seen);

        let seen = Seen::open(&path, 500).unwrap();
        assert_eq!(
            seen.insert(&[1; 32], young, 900, 500).unwrap(),
            Insertion::Seen
        );
        assert_eq!(
            seen.insert(&[2; 32], young, 900, 500).unwrap(),
            Insertion::Fresh
        );
        assert_eq!(
            seen.insert(&[1; 32], old, 900, 500).unwrap(),
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
