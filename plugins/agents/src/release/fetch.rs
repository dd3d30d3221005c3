//! Reads what a release names from the broker: its list, the node's catalog, and the files of the catalog.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use muster_api::system::StateDir;
use muster_bus::Bus;
use muster_bus::content::ContentStore;
use muster_wire::catalog::content::ContentAddress;
use muster_wire::catalog::release::{
    MAX_LIST_BYTES, Release, ReleaseListRoot, ReleasedEntry, read_list_part, released_key,
};
use muster_wire::catalog::{CatalogAddress, CompiledCatalog, catalog_key, named_files};
use muster_wire::identity::Identity;
use muster_wire::stores::{CATALOGS_BUCKET, CONTENT_BUCKET};

use super::error::ReleaseError;
use super::held;
use super::trust::ReleaseTrust;

/// Largest file that a catalog may name, in bytes: the largest that the engine writes.
const MAX_FILE_BYTES: u64 = 512 * 1024 * 1024;

/// The broker's buckets, and where fetched files go.
#[derive(Debug)]
pub(super) struct ReleaseFetcher<'a> {
    pub(super) bus: &'a Bus,
    pub(super) node: &'a Identity,
    pub(super) state: &'a StateDir,
    pub(super) contents: &'a Path,
}

impl ReleaseFetcher<'_> {
    /// The promotion that is stored for this node.
    pub(super) async fn read_promotion(&self) -> Result<Option<ReleasedEntry>, ReleaseError> {
        let bucket = self.bus.bucket(CATALOGS_BUCKET.name);
        let entry = bucket.get(&released_key(self.node)).await?;
        let value = entry.and_then(|entry| entry.value);
        // What is no entry is like a missing one: only compilers write here, and the signatures inside decide.
        Ok(value.and_then(|value| serde_json::from_slice(&value).ok()))
    }

    /// The catalog of a release for this node; `None` if it has none.
    pub(super) async fn find_catalog(
        &self,
        release: &Release,
    ) -> Result<Option<CatalogAddress>, ReleaseError> {
        let root = ReleaseListRoot::read(&self.read_list(release.list).await?)?;
        let Some(part) = root.part_of(self.node) else { return Ok(None) };
        let mut nodes = read_list_part(&self.read_list(part).await?)?;
        Ok(nodes.remove(self.node))
    }

    async fn read_list(&self, address: ContentAddress) -> Result<Bytes, ReleaseError> {
        let failed = |source| ReleaseError::Content {
            what: format!("the list {address} of the release"),
            source,
        };
        let content = ContentStore::new(self.bus.bucket(CONTENT_BUCKET.name));
        content.read_file(address, MAX_LIST_BYTES).await.map_err(failed)
    }

    /// Makes a catalog and its files ready for a run without a broker. Returns the files that were not here.
    pub(super) async fn fetch_catalog(
        &self,
        address: CatalogAddress,
        environment: &str,
        trust: &dyn ReleaseTrust,
    ) -> Result<Vec<ContentAddress>, ReleaseError> {
        let key = catalog_key(self.node, address);
        let entry = self.bus.bucket(CATALOGS_BUCKET.name).get(&key).await?;
        let bytes = entry.and_then(|entry| entry.value);
        let bytes = bytes.ok_or(ReleaseError::NoCatalog(address))?;
        let refused = |source| ReleaseError::Catalog { address, source };
        let compiled = trust.verify_catalog(&bytes, address).map_err(refused)?;
        if compiled.statement.environment != environment {
            let (found, expected) = (compiled.statement.environment, environment.to_owned());
            return Err(ReleaseError::Environment { found, expected });
        }
        let files = self.fetch_files(&compiled).await?;
        held::store_catalog(self.state, address, &bytes)?;
        Ok(files)
    }

    async fn fetch_files(
        &self,
        compiled: &CompiledCatalog,
    ) -> Result<Vec<ContentAddress>, ReleaseError> {
        let address = compiled.statement.address;
        let stored = compiled.stored_form();
        let stored = stored.map_err(|source| ReleaseError::Catalog { address, source })?;
        self.fetch_missing(&named_files(&stored)).await
    }

    /// Makes the plugins of a release ready. Returns the files that were not here.
    pub(super) async fn fetch_plugins(
        &self,
        list: ContentAddress,
    ) -> Result<Vec<ContentAddress>, ReleaseError> {
        let mut fetched = self.fetch_missing(&BTreeSet::from([list])).await?;
        let files = held::read_plugins(self.contents, list)?;
        fetched.extend(self.fetch_missing(&files.files().map(|(_, file)| file).collect()).await?);
        Ok(fetched)
    }

    /// Fetches the files that are not here yet, and returns these.
    async fn fetch_missing(
        &self,
        named: &BTreeSet<ContentAddress>,
    ) -> Result<Vec<ContentAddress>, ReleaseError> {
        let content = ContentStore::new(self.bus.bucket(CONTENT_BUCKET.name));
        let mut fetched = Vec::new();
        for file in named {
            let path = file_path(self.contents, *file);
            if path.exists() {
                continue;
            }
            let failed =
                |source| ReleaseError::Content { what: format!("the file {file}"), source };
            content.get_file(*file, &path, MAX_FILE_BYTES).await.map_err(failed)?;
            fetched.push(*file);
        }
        Ok(fetched)
    }
}

/// Where the engine looks for a file.
fn file_path(contents: &Path, file: ContentAddress) -> PathBuf {
    contents.join(file.to_string())
}
