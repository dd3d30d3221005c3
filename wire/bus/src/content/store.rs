//! Reads and writes entries of the content store, also while the bucket is unavailable for a short time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use muster_base::{duration_millis, unix_millis_now};
use muster_wire::catalog::content::{ContentAddress, ContentKey};
use tokio::time::{Instant, sleep, timeout};

use super::error::Result;
use super::known::KnownContent;
use crate::store::{Bucket, BucketEntry, BucketError};

/// How long an operation is repeated while the bucket is unavailable: longer than a cluster needs to elect a leader.
const OUTAGE_TIMEOUT: Duration = Duration::from_mins(1);
/// An entry that is put again after this time is written again: a quarter of the time after which it may be deleted.
const REFRESH_AGE: Duration = Duration::from_hours(6);
/// Attempts to write an entry that others write, too.
const MAX_WRITE_ATTEMPTS: u32 = 6;
/// Reads of an entry before it counts as missing: a replica of the bucket may lag behind the others.
const MAX_READ_ATTEMPTS: u32 = 5;
/// Before the second attempt; each further one waits twice as long.
const FIRST_RETRY_DELAY: Duration = Duration::from_millis(50);

/// The files in the bucket `CONTENT`. Clones share the connection and the memory.
#[derive(Debug, Clone)]
pub struct ContentStore {
    bucket: Bucket,
    /// The same bucket, which repeats its operations.
    patient: Bucket,
    known: Arc<Mutex<KnownContent>>,
    refresh_age: Duration,
}

impl ContentStore {
    /// The store in this bucket, which must be `CONTENT`.
    pub fn new(bucket: Bucket) -> Self {
        let patient = bucket.retry_until_dropped();
        Self { bucket, patient, known: Arc::default(), refresh_age: REFRESH_AGE }
    }

    /// Writes entries again that are older than this when they are put; without this, after six hours.
    #[must_use]
    pub fn refreshing_after(self, age: Duration) -> Self {
        Self { refresh_age: age, ..self }
    }

    /// Whether the store has the file. Its chunks are stored before it.
    pub async fn has(&self, file: ContentAddress) -> Result<bool> {
        Ok(self.read_entry(ContentKey::File(file)).await?.is_some())
    }

    /// Forgets what was stored: everything that is put again is compared with the store. After a report that something is missing or altered.
    pub fn forget_stored(&self) {
        *self.lock_known() = KnownContent::default();
    }

    pub(super) fn bucket(&self) -> &Bucket {
        &self.bucket
    }

    pub(super) fn is_known(&self, key: ContentKey) -> bool {
        self.lock_known().has(key, Instant::now())
    }

    pub(super) fn remember(&self, key: ContentKey) {
        self.lock_known().remember(key, Instant::now());
    }

    /// Whether an entry is so new that a file that is put may rely on it.
    pub(super) fn is_fresh(&self, entry: &BucketEntry) -> bool {
        let age = unix_millis_now().saturating_sub(entry.created);
        age < duration_millis(self.refresh_age)
    }

    /// The entry; `None` if the replica that answers does not have it.
    pub(super) async fn read_entry(&self, key: ContentKey) -> Result<Option<BucketEntry>> {
        let key = key.to_string();
        Ok(within_outage(self.patient.get(&key), self.bucket.get(&key)).await?)
    }

    /// The value of an entry that should exist; `None` if it does not.
    pub(super) async fn read_value(&self, key: ContentKey) -> Result<Option<Bytes>> {
        let mut delay = FIRST_RETRY_DELAY;
        for _ in 1..MAX_READ_ATTEMPTS {
            if let Some(entry) = self.read_entry(key).await? {
                return Ok(entry.value);
            }
            sleep(delay).await;
            delay *= 2;
        }
        Ok(self.read_entry(key).await?.and_then(|entry| entry.value))
    }

    /// Stores a value, unless the store has it. A value that is old is written again, and so is one that was altered.
    pub(super) async fn store_value(&self, key: ContentKey, value: Bytes) -> Result<()> {
        let name = key.to_string();
        let mut conflict = BucketError::Conflict { key: name.clone() };
        let mut delay = FIRST_RETRY_DELAY;
        for _ in 0..MAX_WRITE_ATTEMPTS {
            let stored = self.read_entry(key).await?;
            let is_same = |entry: &BucketEntry| entry.value.as_ref() == Some(&value);
            if !stored.as_ref().is_some_and(|entry| is_same(entry) && self.is_fresh(entry)) {
                let revision = stored.map(|entry| entry.revision);
                let patient = write_revision(&self.patient, &name, value.clone(), revision);
                let brief = write_revision(&self.bucket, &name, value.clone(), revision);
                match within_outage(patient, brief).await {
                    Ok(_) => {}
                    // Another writer was first, or this writer and the answer was lost; or the replica that answered lags.
                    Err(error @ BucketError::Conflict { .. }) => {
                        conflict = error;
                        sleep(delay).await;
                        delay *= 2;
                        continue;
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            self.remember(key);
            return Ok(());
        }
        Err(conflict.into())
    }

    fn lock_known(&self) -> MutexGuard<'_, KnownContent> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes a key that has this revision, or no value.
async fn write_revision(
    bucket: &Bucket,
    key: &str,
    value: Bytes,
    revision: Option<u64>,
) -> Result<u64, BucketError> {
    match revision {
        Some(revision) => bucket.update(key, value, revision).await,
        None => bucket.create(key, value).await,
    }
}

/// The result of the patient operation, which never fails because the bucket is unavailable. When that has lasted too long, one brief attempt tells why.
async fn within_outage<T>(
    patient: impl Future<Output = Result<T, BucketError>>,
    brief: impl Future<Output = Result<T, BucketError>>,
) -> Result<T, BucketError> {
    match timeout(OUTAGE_TIMEOUT, patient).await {
        Ok(result) => result,
        Err(_) => brief.await,
    }
}
