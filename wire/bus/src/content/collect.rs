//! Deletes from the content store what no catalog reaches.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use muster_wire::Millis;
use muster_wire::catalog::content::{ContentAddress, ContentKey};

use super::collection_plan::{CollectionPlan, FoundEntry, PlannedDeletions};
use super::error::Result;
use super::inspect::PAGE_BYTES;
use super::store::ContentStore;
use crate::store::BucketError;

/// After this time the broker removes the note of a deletion.
const NOTE_AGE: Duration = Duration::from_hours(1);
/// Deletions at a time.
const CONCURRENT_DELETIONS: usize = 64;

/// What a collection has done. Bytes are those of values, without their keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CollectionReport {
    /// Files that are left.
    pub kept_files: usize,
    /// Chunks that are left.
    pub kept_chunks: usize,
    /// Bytes that are left.
    pub kept_bytes: u64,
    /// Deleted files.
    pub deleted_files: usize,
    /// Deleted chunks.
    pub deleted_chunks: usize,
    /// Deleted bytes.
    pub deleted_bytes: u64,
    /// Marked files that the store lacks, and kept ones whose entry is invalid. If there are any, no chunk was deleted, because theirs are unknown.
    pub broken: Vec<ContentAddress>,
}

impl ContentStore {
    /// Deletes files that are not marked and older than a day, and chunks that neither a marked nor a younger file has. Marked are the files that stored
    /// catalogs name, read before. Reads the whole bucket. `now` is compared with times of the broker.
    pub async fn collect(
        &self,
        marked: &BTreeSet<ContentAddress>,
        now: Millis,
    ) -> Result<CollectionReport> {
        let mut plan = CollectionPlan::new(marked, now);
        self.bucket().visit_values(">", PAGE_BYTES, |entry| plan.add_entry(&entry)).await?;
        let PlannedDeletions { files, chunks, kept, broken } = plan.finish();
        let mut report = CollectionReport { broken, ..CollectionReport::default() };
        for entry in &kept {
            report.count_kept(entry);
        }
        self.delete_entries(files, &mut report).await?;
        self.delete_entries(chunks, &mut report).await?;
        Ok(report)
    }

    async fn delete_entries(
        &self,
        entries: Vec<FoundEntry>,
        report: &mut CollectionReport,
    ) -> Result<()> {
        let deletions = entries.into_iter().map(|entry| async move {
            let key = entry.key.to_string();
            (entry, self.bucket().delete_revision(&key, entry.revision, NOTE_AGE).await)
        });
        let mut deletions = stream::iter(deletions).buffer_unordered(CONCURRENT_DELETIONS);
        while let Some((entry, deleted)) = deletions.next().await {
            match deleted {
                Ok(()) => report.count_deleted(&entry),
                // It was written again, so a catalog will name it.
                Err(BucketError::Conflict { .. }) => report.count_kept(&entry),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

impl CollectionReport {
    fn count_kept(&mut self, entry: &FoundEntry) {
        self.kept_bytes += entry.bytes;
        match entry.key {
            ContentKey::File(_) => self.kept_files += 1,
            ContentKey::Chunk(_) => self.kept_chunks += 1,
        }
    }

    fn count_deleted(&mut self, entry: &FoundEntry) {
        self.deleted_bytes += entry.bytes;
        match entry.key {
            ContentKey::File(_) => self.deleted_files += 1,
            ContentKey::Chunk(_) => self.deleted_chunks += 1,
        }
    }
}
