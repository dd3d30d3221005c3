//! Deletes what nothing names any more: old releases, catalogs, and files.
//!
//! ```text
//! release   the newest ones, and those that a node was given, stay
//! catalog   the newest of each node, what it says it has, and what a release that stays lists
//! file      lists and plugins of releases that stay, and what a catalog that stays names
//! ```
//!
//! Whatever is younger than a day stays: something may be about to name it. A deletion names the revision that was read, so a catalog that was stored again
//! meanwhile stays.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use muster_bus::content::CollectionReport;
use muster_bus::{BucketEntry, BucketError};
use muster_wire::Millis;
use muster_wire::catalog::content::ContentAddress;
use muster_wire::catalog::plugins::{MAX_PLUGIN_LIST_BYTES, PluginList};
use muster_wire::catalog::release::{
    MAX_LIST_BYTES, Release, ReleaseListRoot, ReleasedEntry, release_key,
};
use muster_wire::catalog::{CatalogAddress, CompiledCatalog, catalog_key, named_files};
use muster_wire::identity::Identity;

use super::{PluginStoreError, ReleaseStore, ReleaseStoreError};

const DAY_MILLIS: Millis = 24 * 60 * 60 * 1000;
/// Bytes of values that are in memory while the bucket is read.
const PAGE_BYTES: usize = 8 * 1024 * 1024;
/// After this time the broker removes the note of a deletion.
const NOTE_AGE: Duration = Duration::from_hours(1);
const CONCURRENT_DELETIONS: usize = 64;

/// What a collection has done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CollectedReleases {
    pub deleted_releases: usize,
    pub deleted_catalogs: usize,
    pub kept_catalogs: usize,
    pub content: CollectionReport,
}

/// What is found in the bucket of catalogs.
#[derive(Debug, Default)]
struct FoundCatalogs {
    kept: usize,
    files: BTreeSet<ContentAddress>,
    /// A catalog that stays and cannot be read: its files are not known.
    unreadable: Vec<String>,
    deletable: Vec<(String, u64)>,
}

impl ReleaseStore {
    /// Deletes what nothing names. `catalogs` are the newest ones of all nodes, and those that nodes say they have; `keep` is the number of releases that stay
    /// in any case.
    pub async fn collect(
        &self,
        catalogs: impl IntoIterator<Item = (Identity, CatalogAddress)>,
        keep: usize,
        now: Millis,
    ) -> Result<CollectedReleases, ReleaseStoreError> {
        let mut report = CollectedReleases::default();
        let mut marked: BTreeSet<String> =
            catalogs.into_iter().map(|(node, address)| catalog_key(&node, address)).collect();
        let mut files = BTreeSet::new();
        for release in self.collect_releases(keep, now, &mut report).await? {
            let nodes = self.read_list(release.list).await?;
            marked.extend(nodes.iter().map(|(node, address)| catalog_key(node, *address)));
            let root = self.content.read_file(release.list, MAX_LIST_BYTES).await?;
            files.extend(ReleaseListRoot::read(&root)?.parts());
            files.insert(release.list);
            if let Some(plugins) = release.plugins {
                let list = self.content.read_file(plugins, MAX_PLUGIN_LIST_BYTES).await?;
                let list = PluginList::read(&list).map_err(PluginStoreError::from)?;
                files.extend(list.files().map(|(_, file)| file));
                files.insert(plugins);
            }
        }
        let mut found = FoundCatalogs::default();
        let visit = |entry: BucketEntry| found.add(&entry, &marked, now);
        self.catalogs.visit_values("catalog.>", PAGE_BYTES, visit).await?;
        report.kept_catalogs = found.kept;
        report.deleted_catalogs = self.delete_all(found.deletable).await?;
        files.extend(found.files);
        if let Some(key) = found.unreadable.first() {
            tracing::warn!(key, "a catalog cannot be read, so no file is deleted");
            return Ok(report);
        }
        report.content = self.content.collect(&files, now).await?;
        Ok(report)
    }

    /// Deletes old releases that no node was given. Returns those that stay.
    async fn collect_releases(
        &self,
        keep: usize,
        now: Millis,
        report: &mut CollectedReleases,
    ) -> Result<Vec<Release>, ReleaseStoreError> {
        let given = self.given_releases().await?;
        let mut kept = Vec::new();
        for (index, release) in self.list().await?.into_iter().enumerate() {
            let is_young = now.saturating_sub(release.created_at) < DAY_MILLIS;
            if index < keep || is_young || given.contains(release.name.as_str()) {
                kept.push(release);
                continue;
            }
            let key = release_key(&release.name);
            if let Some(entry) = self.catalogs.get(&key).await? {
                report.deleted_releases += self.delete_all(vec![(key, entry.revision)]).await?;
            }
        }
        Ok(kept)
    }

    /// The names of the releases in `released.NODE`.
    async fn given_releases(&self) -> Result<BTreeSet<String>, ReleaseStoreError> {
        let mut names = BTreeSet::new();
        let visit = |entry: BucketEntry| {
            let value = entry.value.as_deref().unwrap_or_default();
            let released = serde_json::from_slice::<ReleasedEntry>(value).ok();
            let release = released.and_then(|entry| Release::read_unverified(&entry.release).ok());
            names.extend(release.map(|release| release.name.to_string()));
        };
        self.catalogs.visit_values("released.>", PAGE_BYTES, visit).await?;
        Ok(names)
    }

    async fn delete_all(&self, entries: Vec<(String, u64)>) -> Result<usize, ReleaseStoreError> {
        let deletions: Vec<_> =
            entries.iter().map(|(key, revision)| self.delete_one(key, *revision)).collect();
        let mut deletions = stream::iter(deletions).buffer_unordered(CONCURRENT_DELETIONS);
        let mut count = 0;
        while let Some(deleted) = deletions.next().await {
            count += usize::from(deleted?);
        }
        Ok(count)
    }

    async fn delete_one(&self, key: &str, revision: u64) -> Result<bool, BucketError> {
        match self.catalogs.delete_revision(key, revision, NOTE_AGE).await {
            Ok(()) => Ok(true),
            Err(BucketError::Conflict { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl FoundCatalogs {
    fn add(&mut self, entry: &BucketEntry, marked: &BTreeSet<String>, now: Millis) {
        let is_young = now.saturating_sub(entry.created) < DAY_MILLIS;
        if !is_young && !marked.contains(&entry.key) {
            return self.deletable.push((entry.key.clone(), entry.revision));
        }
        self.kept += 1;
        let value = entry.value.as_deref().unwrap_or_default();
        let read = CompiledCatalog::read_unverified(value).and_then(|stored| stored.stored_form());
        match read {
            Ok(catalog) => self.files.extend(named_files(&catalog)),
            Err(_) => self.unreadable.push(entry.key.clone()),
        }
    }
}
