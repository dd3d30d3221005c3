//! The released catalogs of all nodes: a summary of each in memory, the catalog itself from the broker.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use muster_base::error_chain;
use muster_bus::BucketError;
use muster_catalogs::releases::{ReleaseStoreError, ReleasedCatalog};
use muster_wire::Millis;
use muster_wire::identity::Identity;
use serde_json::{Map, Value};
use tokio::runtime::Handle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::error::Result;
use super::sources::PRODUCER;
use crate::forms::{FormSource, catalog_form};
use crate::sink::CatalogSource;

const RELEASED_PREFIX: &str = "released.";
const RELEASED_PATTERN: &str = "released.>";
/// Pause after an error of the broker.
const RETRY_DELAY: Duration = Duration::from_secs(2);

/// What lists show of a catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CatalogSummary {
    pub(super) environment: String,
    /// When it was promoted.
    pub(super) time: Millis,
    pub(super) address: String,
    pub(super) version: Option<String>,
    pub(super) catalog_uuid: Option<String>,
    pub(super) code_id: Option<String>,
    pub(super) resources: u64,
}

/// The released catalogs of all nodes.
#[derive(Debug)]
pub struct KnownCatalogs {
    source: CatalogSource,
    known: RwLock<BTreeMap<Identity, CatalogSummary>>,
    /// Queries are answered on threads that block.
    runtime: Handle,
}

impl KnownCatalogs {
    /// Empty until it is followed. Called within a runtime.
    pub fn new(source: CatalogSource) -> Self {
        Self { source, known: RwLock::default(), runtime: Handle::current() }
    }

    /// Keeps the summaries current.
    pub async fn run_until_stopped(&self, stop: CancellationToken) {
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.follow() => {}
        }
    }

    async fn follow(&self) {
        loop {
            if let Err(error) = self.follow_once().await {
                tracing::debug!(%error, "cannot follow the released catalogs; opening the bucket again");
            }
            sleep(RETRY_DELAY).await;
        }
    }

    async fn follow_once(&self) -> std::result::Result<(), BucketError> {
        let bucket = self.source.handle.catalogs().retry_until_dropped();
        let mut watch = bucket.watch(RELEASED_PATTERN).await?;
        while let Some(entry) = watch.next().await? {
            let name = entry.key.strip_prefix(RELEASED_PREFIX).unwrap_or_default();
            let Ok(node) = Identity::parse(name) else { continue };
            let summary = match &entry.value {
                Some(value) => self.summarize(&node, value).await,
                None => None,
            };
            let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
            match summary {
                Some(summary) => known.insert(node, summary),
                None => known.remove(&node),
            };
        }
        Ok(())
    }

    /// An entry that is not valid counts as none.
    async fn summarize(&self, node: &Identity, value: &[u8]) -> Option<CatalogSummary> {
        let released = match self.open(node, value).await {
            Ok(released) => released?,
            Err(error) => {
                let error = error_chain(&error);
                tracing::warn!(%node, error, "cannot read the released catalog for queries");
                return None;
            }
        };
        let form = form_of(node, &released)?;
        let text = |name: &str| form.get(name).and_then(Value::as_str).map(str::to_owned);
        let resources = form.get("resources").and_then(Value::as_array).map_or(0, Vec::len);
        Some(CatalogSummary {
            environment: released.statement.environment.clone(),
            time: released.promotion.issued_at,
            address: released.statement.address.to_string(),
            version: text("version"),
            catalog_uuid: text("catalog_uuid"),
            code_id: text("code_id"),
            resources: u64::try_from(resources).unwrap_or(u64::MAX),
        })
    }

    async fn open(
        &self,
        node: &Identity,
        value: &[u8],
    ) -> std::result::Result<Option<ReleasedCatalog>, ReleaseStoreError> {
        let CatalogSource { handle, releases } = &self.source;
        releases.read_released(node, value, &handle.trust(), handle.tokens()).await
    }

    pub(super) fn summary(&self, node: &Identity) -> Option<CatalogSummary> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).get(node).cloned()
    }

    /// All summaries, by node.
    pub(super) fn summaries(&self) -> BTreeMap<Identity, CatalogSummary> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The form of a catalog for `PuppetDB`. Blocks.
    pub(super) fn read_form(&self, node: &Identity) -> Result<Option<Map<String, Value>>> {
        let key = format!("{RELEASED_PREFIX}{node}");
        let released = self.runtime.block_on(async {
            let entry = self.source.handle.catalogs().get(&key).await?;
            match entry.and_then(|entry| entry.value) {
                Some(value) => self.open(node, &value).await,
                None => Ok(None),
            }
        })?;
        Ok(released.and_then(|released| form_of(node, &released)))
    }
}

/// `None` for a catalog that `PuppetDB` would not store.
fn form_of(node: &Identity, released: &ReleasedCatalog) -> Option<Map<String, Value>> {
    let source = FormSource {
        certname: node.as_str(),
        environment: &released.statement.environment,
        producer: PRODUCER,
        producer_timestamp: released.promotion.issued_at,
    };
    match catalog_form(&released.catalog, None, source) {
        Ok(form) => Some(form),
        Err(error) => {
            let error = error_chain(&error);
            tracing::warn!(%node, error, "the released catalog has no form for queries");
            None
        }
    }
}
