//! Removes many keys of a bucket, or all.

use std::time::Duration;

use async_nats::jetstream;
use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use muster_wire::stores;

use super::declare::find_stream;
use super::entry::OPERATION_HEADER;
use super::{Bucket, BucketEntry, Result, expecting};

/// The header with the time after which the broker removes a message, in seconds.
const EXPIRY_HEADER: &str = "Nats-TTL";
/// Deletions at a time.
const CONCURRENT_DELETIONS: usize = 64;

impl Bucket {
    /// The values that were written at or after this instant of the broker's clock, in milliseconds since the epoch, in the order of writing.
    pub async fn written_since(&self, instant: u64) -> Result<Vec<BucketEntry>> {
        let mut entries = self.list(">").await?;
        entries.retain(|entry| entry.created >= instant);
        Ok(entries)
    }

    /// Deletes these keys, also if the bucket is full. The broker keeps a short note of each.
    pub async fn delete_keys(&self, keys: &[String]) -> Result<()> {
        let deletions = keys.iter().map(|key| self.delete(key));
        stream::iter(deletions).buffer_unordered(CONCURRENT_DELETIONS).try_collect().await
    }

    /// Deletes a key's value only if its last revision is this one. The broker removes the note of the deletion after `note_age`, of which it counts whole
    /// seconds. Only buckets that [`stores::forgets_deletions`] names accept that.
    pub async fn delete_revision(
        &self,
        key: &str,
        revision: u64,
        note_age: Duration,
    ) -> Result<()> {
        let mut headers = expecting(revision);
        headers.insert(OPERATION_HEADER, "DEL");
        headers.insert(EXPIRY_HEADER, format!("{}s", note_age.as_secs()));
        self.write_value("delete", key, Bytes::new(), headers).await.map(drop)
    }

    /// Removes the bucket with all that is in it. Needs administrator permissions.
    pub async fn remove(&self) -> Result<()> {
        let jetstream = jetstream::new(self.bus.connection().client.clone());
        let removed = jetstream.delete_stream(stores::stream_name(self.name())).await;
        removed.map(drop).map_err(|error| self.failed_error("remove", &error))
    }

    /// Removes the bucket with all that is in it, and creates it again with the same settings. Its revisions begin again. Needs administrator permissions.
    pub async fn recreate(&self) -> Result<()> {
        let Some(config) = find_stream(self).await? else { return Err(self.missing_error()) };
        let jetstream = jetstream::new(self.bus.connection().client.clone());
        self.remove().await?;
        let created = jetstream.create_stream(config).await;
        created.map_err(|error| self.failed_error("create", &error))?;
        Ok(())
    }
}
