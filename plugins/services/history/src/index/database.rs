//! The database: its file, its version, and what is kept of it.

use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use muster_wire::compressed::JsonCompressor;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, params};

use super::error::IndexError;

const FILE: &str = "history.db";
/// A database of another version is built again.
const VERSION: i32 = 3;
const SCHEMA: &str = include_str!("schema.sql");
/// A reader never waits for the writer in this mode; two processes with the same file do.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Connections that read at once.
const READERS: usize = 4;

/// The index, with one connection that writes and some that read.
#[derive(Debug)]
pub struct HistoryIndex {
    writer: Mutex<Connection>,
    /// For the events of ended runs.
    pub(super) compressor: Mutex<JsonCompressor>,
    readers: [Mutex<Connection>; READERS],
}

impl HistoryIndex {
    /// Opens the index in a directory, which is created. Only its owner can read it: what was changed may be confidential.
    pub fn open(directory: &Path) -> Result<Self, IndexError> {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let path = directory.join(FILE);
        // SQLite creates its other files with the mode of this one.
        OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path)?;
        let mut writer = Connection::open(&path)?;
        let version: i32 = writer.pragma_query_value(None, "user_version", |row| row.get(0))?;
        if version != VERSION && version != 0 {
            drop(writer);
            tracing::warn!(
                version,
                "the index of the history is of another version; it is built again"
            );
            for suffix in ["", "-wal", "-shm"] {
                match std::fs::remove_file(directory.join(format!("{FILE}{suffix}"))) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        return Err(error.into());
                    }
                    _ => {}
                }
            }
            return Self::open(directory);
        }
        writer.busy_timeout(BUSY_TIMEOUT)?;
        writer.pragma_update(None, "journal_mode", "WAL")?;
        // A power cut may lose the last messages, which the broker still has: their revisions are lost with them.
        writer.pragma_update(None, "synchronous", "NORMAL")?;
        if version == 0 {
            let transaction = writer.transaction()?;
            transaction.execute_batch(SCHEMA)?;
            transaction.pragma_update(None, "user_version", VERSION)?;
            transaction.commit()?;
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let open_reader = || {
            let reader = Connection::open_with_flags(&path, flags)?;
            reader.busy_timeout(BUSY_TIMEOUT)?;
            Ok::<_, IndexError>(Mutex::new(reader))
        };
        let readers = [open_reader()?, open_reader()?, open_reader()?, open_reader()?];
        Ok(Self { writer: Mutex::new(writer), compressor: Mutex::default(), readers })
    }

    /// The revision of the bucket up to which everything was taken, and when the message with it was stored.
    pub fn progress(&self) -> Result<(u64, u64), IndexError> {
        let reader = self.read();
        let mut select = reader.prepare_cached("SELECT revision, time FROM progress")?;
        let found = select.query_row([], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        Ok(found.unwrap_or_default())
    }

    /// The last place in the order of rows of which everything was taken: the revision, after those of buckets that were created again.
    pub(super) fn last_place(&self) -> Result<u64, IndexError> {
        let sum = "SELECT base + revision FROM progress";
        let found = self.read().query_row(sum, [], |row| row.get(0));
        Ok(found.optional()?.unwrap_or_default())
    }

    /// Begins again with the bucket: it was created again, and its revisions begin at 1. What was taken stays, before what comes.
    pub fn forget_revision(&self) -> Result<(), IndexError> {
        self.write()
            .execute("UPDATE progress SET base = base + revision, revision = 0, time = 0", [])?;
        Ok(())
    }

    /// Deletes what happened before this time, in milliseconds since the epoch.
    pub fn delete_before(&self, time: u64) -> Result<usize, IndexError> {
        let time = to_signed(time);
        let mut writer = self.write();
        let transaction = writer.transaction()?;
        transaction.execute(
            "DELETE FROM words WHERE rowid IN (SELECT id FROM happened WHERE time < ?1)",
            [time],
        )?;
        let deleted = transaction.execute("DELETE FROM happened WHERE time < ?1", [time])?;
        transaction.execute(
            "DELETE FROM event WHERE run IN (SELECT id FROM run WHERE started < ?1)",
            params![time],
        )?;
        transaction.execute("DELETE FROM run WHERE started < ?1", [time])?;
        transaction.commit()?;
        Ok(deleted)
    }

    /// Deletes the events of runs without changes that ended before this time, in milliseconds since the epoch; the rows of the runs stay, and the last run of each
    /// node stays as it is. At most `limit` runs, because nothing else is written meanwhile; returns how many.
    pub fn thin_unchanged(&self, time: u64, limit: usize) -> Result<usize, IndexError> {
        let writer = self.write();
        let mut thin = writer.prepare_cached(
            "UPDATE run SET events = NULL WHERE id IN (
                 SELECT id FROM run AS old WHERE status = 'unchanged' AND events IS NOT NULL AND ended < ?1 AND EXISTS (
                     SELECT 1 FROM run AS newer WHERE newer.node = old.node AND newer.started > old.started
                 ) LIMIT ?2
             )",
        )?;
        Ok(thin.execute(params![to_signed(time), limit])?)
    }

    pub(super) fn write(&self) -> MutexGuard<'_, Connection> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection that nothing reads from; if there is none, the first one when it is free.
    pub(super) fn read(&self) -> MutexGuard<'_, Connection> {
        let [first, ..] = &self.readers;
        let free = self.readers.iter().find_map(|reader| reader.try_lock().ok());
        free.unwrap_or_else(|| first.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// `SQLite` has signed integers only; times and counts are far below the limit.
pub(super) fn to_signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
