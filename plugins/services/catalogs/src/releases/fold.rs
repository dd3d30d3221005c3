//! Compares the catalogs of many nodes, and folds equal changes.

use std::collections::BTreeMap;

use futures_util::{StreamExt as _, stream};
use muster_bus::{Bucket, BucketError};
use muster_wire::catalog::release::ReleaseNodes;
use muster_wire::catalog::{CatalogAddress, CatalogRefusal, CompiledCatalog, catalog_key};
use muster_wire::identity::Identity;
use serde_json::{Map, Value};

use super::diff::{ResourceChange, diff_catalogs};

/// Catalogs that are read at once.
const CONCURRENT_READS: usize = 16;

/// Why catalogs cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    #[error("cannot read the bucket of catalogs")]
    Bucket(#[from] BucketError),
    #[error("the catalog {address} of {node} is not stored any more")]
    Missing { node: Identity, address: CatalogAddress },
    #[error("the catalog {address} of {node} cannot be read")]
    Invalid {
        node: Identity,
        address: CatalogAddress,
        #[source]
        source: CatalogRefusal,
    },
}

/// Nodes with equal changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiffGroup {
    pub nodes: Vec<Identity>,
    pub changes: Vec<(String, ResourceChange)>,
}

/// What differs between two lists of catalogs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ComparedNodes {
    /// The largest first.
    pub groups: Vec<DiffGroup>,
    pub unchanged: usize,
    /// Nodes that are only in the later list.
    pub added: usize,
    /// Nodes that are only in the earlier list.
    pub removed: usize,
}

/// Compares addresses first, and reads only catalogs that differ.
pub async fn compare_nodes(
    bucket: &Bucket,
    before: &ReleaseNodes,
    after: &ReleaseNodes,
) -> Result<ComparedNodes, CompareError> {
    let mut compared = ComparedNodes {
        removed: before.keys().filter(|node| !after.contains_key(*node)).count(),
        ..ComparedNodes::default()
    };
    let mut differing = Vec::new();
    for (node, later) in after {
        match before.get(node) {
            None => compared.added += 1,
            Some(earlier) if earlier == later => compared.unchanged += 1,
            Some(earlier) => differing.push((node, *earlier, *later)),
        }
    }
    let reads: Vec<_> = differing
        .into_iter()
        .map(|(node, earlier, later)| compare_node(bucket, node.clone(), earlier, later))
        .collect();
    let mut groups: BTreeMap<Vec<(String, ResourceChange)>, Vec<Identity>> = BTreeMap::new();
    let mut read = stream::iter(reads).buffered(CONCURRENT_READS);
    while let Some(node) = read.next().await {
        let (node, changes) = node?;
        if changes.is_empty() {
            compared.unchanged += 1;
        } else {
            groups.entry(changes).or_default().push(node);
        }
    }
    let groups = groups.into_iter().map(|(changes, nodes)| DiffGroup { nodes, changes });
    compared.groups = groups.collect();
    compared.groups.sort_by_key(|group| std::cmp::Reverse(group.nodes.len()));
    Ok(compared)
}

async fn compare_node(
    bucket: &Bucket,
    node: Identity,
    earlier: CatalogAddress,
    later: CatalogAddress,
) -> Result<(Identity, Vec<(String, ResourceChange)>), CompareError> {
    let before = read_catalog(bucket, &node, earlier).await?;
    let after = read_catalog(bucket, &node, later).await?;
    let changes = tokio::task::block_in_place(|| diff_catalogs(&before, &after));
    Ok((node, changes))
}

async fn read_catalog(
    bucket: &Bucket,
    node: &Identity,
    address: CatalogAddress,
) -> Result<Map<String, Value>, CompareError> {
    let entry = bucket.get(&catalog_key(node, address)).await?;
    let bytes = entry.and_then(|entry| entry.value);
    let bytes = bytes.ok_or_else(|| CompareError::Missing { node: node.clone(), address })?;
    let read = CompiledCatalog::read_unverified(&bytes);
    let read = read.and_then(|compiled| compiled.stored_form());
    read.map_err(|source| CompareError::Invalid { node: node.clone(), address, source })
}
