//! Removes many keys of a bucket, or all.

use async_nats::jetstream;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use muster_wire::stores;

use super::declare::find_stream;
use super::{Bucket, BucketEntry, Result};

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
