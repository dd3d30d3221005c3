//! A key that only one process writes: each change is stored exactly once, however often the leader of the bucket dies meanwhile.
//!
//! A lost answer does not say whether a write was stored, and a late copy of it may arrive after later writes. So each write names
//! the key's last revision, which the broker compares: a copy of an earlier write is refused.

use bytes::Bytes;

use super::entry::OPERATION_HEADER;
use super::{Bucket, BucketError, BucketRequestError, Result, expecting};

/// A key that only this process writes. Operations are repeated until the caller drops them. Cancel safe: the next operation
/// finds out what was stored.
#[derive(Debug)]
pub struct OwnedKey {
    bucket: Bucket,
    key: String,
    /// `None` before the first read.
    last: Option<LastChange>,
}

/// The last known change of the key.
#[derive(Debug, Clone, Copy)]
struct LastChange {
    /// 0 if the key was never written.
    revision: u64,
    /// Whether the key may have a value.
    has_value: bool,
}

impl Bucket {
    /// A key that no other process writes.
    pub fn owned_key(&self, key: String) -> OwnedKey {
        OwnedKey { bucket: self.retry_until_dropped(), key, last: None }
    }
}

impl OwnedKey {
    /// Writes the key; returns the revision.
    pub async fn write(&mut self, value: Bytes) -> Result<u64> {
        self.store_change(Some(value)).await
    }

    /// Deletes the value, if the key may have one.
    pub async fn delete(&mut self) -> Result<()> {
        if self.last_change().await?.has_value {
            self.store_change(None).await?;
        }
        Ok(())
    }

    async fn store_change(&mut self, value: Option<Bytes>) -> Result<u64> {
        let first = self.last_change().await?;
        let mut expected = first.revision;
        for attempt in 1.. {
            self.last = Some(LastChange { revision: expected, has_value: true });
            match self.write_once(value.clone(), expected).await {
                Ok(revision) => return Ok(self.record_change(revision, value.is_some())),
                Err(BucketRequestError::Failed(BucketError::Conflict { .. })) => {
                    let stored = self.read_stored().await?;
                    let is_ours = |(revision, stored): &(u64, Option<Bytes>)| {
                        // An older change with the same value comes from a replica that lags.
                        *revision > first.revision && *stored == value
                    };
                    if let Some((revision, _)) = stored.as_ref().filter(|stored| is_ours(stored)) {
                        return Ok(self.record_change(*revision, value.is_some()));
                    }
                    // Another revision: an earlier call was dropped, or the stream was created again.
                    expected = stored.map_or(0, |(revision, _)| revision);
                }
                Err(BucketRequestError::Failed(error)) => return Err(error),
                Err(BucketRequestError::NoResponders | BucketRequestError::Unanswered(_)) => {}
            }
            self.bucket.wait_for_retry(attempt).await;
        }
        Err(self.bucket.missing_error())
    }

    fn record_change(&mut self, revision: u64, has_value: bool) -> u64 {
        self.last = Some(LastChange { revision, has_value });
        revision
    }

    async fn last_change(&mut self) -> Result<LastChange> {
        if let Some(last) = self.last {
            return Ok(last);
        }
        let stored = self.read_stored().await?;
        let last = stored.map_or(LastChange { revision: 0, has_value: false }, |stored| {
            LastChange { revision: stored.0, has_value: stored.1.is_some() }
        });
        self.last = Some(last);
        Ok(last)
    }

    /// The last change of the key on some replica.
    async fn read_stored(&self) -> Result<Option<(u64, Option<Bytes>)>> {
        let changes = self.bucket.changes_since(&self.key, 0).await?.entries;
        let last = changes.into_iter().max_by_key(|entry| entry.revision);
        Ok(last.map(|entry| (entry.revision, entry.value)))
    }

    async fn write_once(
        &self,
        value: Option<Bytes>,
        expected: u64,
    ) -> Result<u64, BucketRequestError> {
        let mut headers = expecting(expected);
        let operation = if value.is_some() { "write" } else { "delete" };
        if value.is_none() {
            headers.insert(OPERATION_HEADER, "DEL");
        }
        self.bucket.write_attempt(operation, &self.key, value.unwrap_or_default(), headers).await
    }
}
