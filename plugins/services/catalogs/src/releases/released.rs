//! The catalog that a node was given by its promotion, for programs that show it. The node itself fetches and verifies its own.

use muster_wire::catalog::content::ContentAddress;
use muster_wire::catalog::release::{
    MAX_LIST_BYTES, Promotion, Release, ReleaseListRoot, ReleasedEntry, read_list_part,
};
use muster_wire::catalog::{
    CatalogAddress, CatalogRefusal, CatalogStatement, CompiledCatalog, catalog_key,
    open_compiled_catalog,
};
use muster_wire::identity::Identity;
use muster_wire::token::{AccountTrust, TokenCache};
use serde_json::{Map, Value};

use super::{ReleaseStore, ReleaseStoreError};

/// The released catalog of a node. Its promoter and its compiler are verified.
#[derive(Debug, Clone, PartialEq)]
pub struct ReleasedCatalog {
    pub promotion: Promotion,
    pub release: Release,
    pub statement: CatalogStatement,
    /// The stored form: secrets are digests.
    pub catalog: Map<String, Value>,
}

impl ReleaseStore {
    /// The catalog that a value of `released.NODE` names; `None` if the release has none for the node, or it was deleted. The tokens of promoter and compiler count
    /// as of when they signed: a promotion outlives them.
    pub async fn read_released(
        &self,
        node: &Identity,
        value: &[u8],
        trust: &AccountTrust,
        tokens: &TokenCache,
    ) -> Result<Option<ReleasedCatalog>, ReleaseStoreError> {
        let entry: ReleasedEntry = serde_json::from_slice(value)
            .map_err(|source| ReleaseStoreError::Entry { name: node.to_string(), source })?;
        let (claimed, _) = entry.read_unverified()?;
        let opened = entry.open(trust, tokens, claimed.issued_at)?;
        let Some(address) = self.find_in_list(node, opened.release.list).await? else {
            return Ok(None);
        };
        let stored = self.catalogs.get(&catalog_key(node, address)).await?;
        let Some(bytes) = stored.and_then(|entry| entry.value) else { return Ok(None) };
        let (statement, catalog) = open_stored(&bytes, node, address, trust, tokens)?;
        let (promotion, release) = (opened.promotion, opened.release);
        Ok(Some(ReleasedCatalog { promotion, release, statement, catalog }))
    }

    /// The catalog of a node in the list of a release. Reads two entries.
    async fn find_in_list(
        &self,
        node: &Identity,
        list: ContentAddress,
    ) -> Result<Option<CatalogAddress>, ReleaseStoreError> {
        let root = ReleaseListRoot::read(&self.content.read_file(list, MAX_LIST_BYTES).await?)?;
        let Some(part) = root.part_of(node) else { return Ok(None) };
        let part = self.content.read_file(part, MAX_LIST_BYTES).await?;
        Ok(read_list_part(&part)?.remove(node))
    }
}

fn open_stored(
    bytes: &[u8],
    node: &Identity,
    address: CatalogAddress,
    trust: &AccountTrust,
    tokens: &TokenCache,
) -> Result<(CatalogStatement, Map<String, Value>), CatalogRefusal> {
    let compiled_at = CompiledCatalog::read_unverified(bytes)?.statement.compiled_at;
    let compiled = open_compiled_catalog(bytes, node, address, trust, tokens, compiled_at)?;
    let catalog = compiled.stored_form()?;
    Ok((compiled.statement, catalog))
}
