//! The release of a node, read from the broker and verified. What nodes may read stays in memory, within a bound.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use muster_bus::content::{ContentError, ContentStore};
use muster_bus::{Bucket, Bus};
use muster_catalogs::releases::{ReleaseStore, ReleasedCatalog};
use muster_directory::DirectoryContext;
use muster_wire::catalog::content::ContentAddress;
use muster_wire::catalog::named_files;
use muster_wire::catalog::plugins::{MAX_PLUGIN_LIST_BYTES, PluginList};
use muster_wire::catalog::release::released_key;
use muster_wire::identity::Identity;
use muster_wire::stores::{CATALOGS_BUCKET, CONTENT_BUCKET};
use muster_wire::token::TokenCache;
use tokio::sync::{Semaphore, mpsc};

use crate::error::GatewayError;

/// Catalogs that are unpacked at once: each has up to 32 MiB of JSON.
const CONCURRENT_CATALOGS: usize = 4;
/// Most addresses of files in memory, 32 bytes each. Above that, all are forgotten and read again.
const MAX_KNOWN_FILES: usize = 1_000_000;
/// Most nodes in memory.
const MAX_KNOWN_NODES: usize = 50_000;
/// Lists of plugins in memory: the present one and the last one of a few environments.
const MAX_KNOWN_LISTS: usize = 8;

/// What a node may read because of one promotion.
#[derive(Debug)]
pub(crate) struct NodeRelease {
    pub(crate) environment: String,
    plugins: Option<ContentAddress>,
    /// The files of the catalog, sorted.
    files: Box<[ContentAddress]>,
}

/// The last promotions of a node that were read.
#[derive(Debug)]
struct KnownNode {
    /// The hash of the stored entry.
    entry: ContentAddress,
    current: Arc<NodeRelease>,
    /// A run that began before the promotion still reads its files.
    previous: Option<Arc<NodeRelease>>,
}

#[derive(Debug, Default)]
struct KnownReleases {
    nodes: HashMap<Identity, KnownNode>,
    files: usize,
    /// The latest last.
    lists: Vec<(ContentAddress, Arc<PluginList>)>,
}

/// Reads releases.
pub(crate) struct ReleaseReader {
    store: ReleaseStore,
    catalogs: Bucket,
    source: DirectoryContext,
    tokens: TokenCache,
    known: Mutex<KnownReleases>,
    unpacked: Semaphore,
}

impl ReleaseReader {
    pub(crate) fn new(bus: &Bus, source: DirectoryContext) -> Self {
        let catalogs = bus.bucket(CATALOGS_BUCKET.name);
        let content = ContentStore::new(bus.bucket(CONTENT_BUCKET.name));
        Self {
            store: ReleaseStore::new(catalogs.clone(), content),
            catalogs,
            source,
            tokens: TokenCache::default(),
            known: Mutex::default(),
            unpacked: Semaphore::new(CONCURRENT_CATALOGS),
        }
    }

    pub(crate) fn content(&self) -> &ContentStore {
        self.store.content()
    }

    /// The release of a node, without its catalog. A promotion that is known costs one read.
    pub(crate) async fn read_release(
        &self,
        node: &Identity,
    ) -> Result<Arc<NodeRelease>, GatewayError> {
        let entry = self.read_entry(node).await?;
        let address = ContentAddress::of(&entry);
        if let Some(known) = self.lock().nodes.get(node).filter(|known| known.entry == address) {
            return Ok(Arc::clone(&known.current));
        }
        self.use_catalog(node, &entry, |_| Ok(())).await.map(|(release, ())| release)
    }

    /// Reads the released catalog of a node and makes something of it. Few catalogs are in memory at once.
    pub(crate) async fn read_catalog<T: Send + 'static>(
        &self,
        node: &Identity,
        make: impl FnOnce(ReleasedCatalog) -> Result<T, GatewayError> + Send + 'static,
    ) -> Result<T, GatewayError> {
        let entry = self.read_entry(node).await?;
        self.use_catalog(node, &entry, make).await.map(|(_, output)| output)
    }

    async fn read_entry(&self, node: &Identity) -> Result<Bytes, GatewayError> {
        let entry = self.catalogs.get(&released_key(node)).await?;
        let value = entry.and_then(|entry| entry.value);
        value.ok_or_else(|| GatewayError::NoRelease(node.clone()))
    }

    async fn use_catalog<T: Send + 'static>(
        &self,
        node: &Identity,
        entry: &[u8],
        make: impl FnOnce(ReleasedCatalog) -> Result<T, GatewayError> + Send + 'static,
    ) -> Result<(Arc<NodeRelease>, T), GatewayError> {
        let _permit = self.unpacked.acquire().await.map_err(|_| GatewayError::Busy)?;
        let trust = (self.source.trust)();
        let read = self.store.read_released(node, entry, &trust, &self.tokens).await?;
        let released = read.ok_or_else(|| GatewayError::NoRelease(node.clone()))?;
        let task = tokio::task::spawn_blocking(move || {
            let release = Arc::new(NodeRelease {
                environment: released.statement.environment.clone(),
                plugins: released.release.plugins,
                files: named_files(&released.catalog).into_iter().collect(),
            });
            make(released).map(|output| (release, output))
        });
        let (release, output) = task.await??;
        self.lock().remember(node, ContentAddress::of(entry), Arc::clone(&release));
        Ok((release, output))
    }

    /// Whether a released catalog of the node names a file: the present one, or the one before as far as it is known here.
    pub(crate) async fn names_file(
        &self,
        node: &Identity,
        file: ContentAddress,
    ) -> Result<bool, GatewayError> {
        if self.lock().names_file(node, file) {
            return Ok(true);
        }
        self.read_release(node).await.map(|release| release.names(file))
    }

    /// The plugins of a release.
    pub(crate) async fn read_plugins(
        &self,
        node: &Identity,
    ) -> Result<Arc<PluginList>, GatewayError> {
        let address = match self.read_release(node).await {
            Err(GatewayError::NoRelease(_)) => None,
            read => read?.plugins,
        };
        let address = address.ok_or_else(|| GatewayError::NoPlugins(node.clone()))?;
        let known = self.lock().lists.iter().find(|(known, _)| *known == address).cloned();
        if let Some((_, list)) = known {
            return Ok(list);
        }
        let list = Arc::new(PluginList::read(&self.read_list(address).await?)?);
        let mut known = self.lock();
        known.lists.retain(|(other, _)| *other != address);
        if known.lists.len() >= MAX_KNOWN_LISTS {
            known.lists.remove(0);
        }
        known.lists.push((address, Arc::clone(&list)));
        Ok(list)
    }

    async fn read_list(&self, address: ContentAddress) -> Result<Vec<u8>, ContentError> {
        let limit = u64::try_from(MAX_PLUGIN_LIST_BYTES).unwrap_or(u64::MAX);
        let open = self.content().open_file(address, limit).await?;
        let (sender, mut parts) = mpsc::channel::<Bytes>(1);
        let collect = async {
            let mut bytes = Vec::new();
            while let Some(part) = parts.recv().await {
                bytes.extend_from_slice(&part);
            }
            bytes
        };
        let (sent, bytes) = tokio::join!(open.send_parts(sender), collect);
        sent.map(|()| bytes)
    }

    fn lock(&self) -> MutexGuard<'_, KnownReleases> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl NodeRelease {
    fn names(&self, file: ContentAddress) -> bool {
        self.files.binary_search(&file).is_ok()
    }
}

impl KnownNode {
    fn releases(&self) -> impl Iterator<Item = &Arc<NodeRelease>> {
        [&self.current].into_iter().chain(&self.previous)
    }

    fn files(&self) -> usize {
        self.releases().map(|release| release.files.len()).sum()
    }
}

impl KnownReleases {
    fn names_file(&self, node: &Identity, file: ContentAddress) -> bool {
        let known = self.nodes.get(node);
        known.is_some_and(|known| known.releases().any(|release| release.names(file)))
    }

    fn remember(&mut self, node: &Identity, entry: ContentAddress, current: Arc<NodeRelease>) {
        if self.nodes.len() >= MAX_KNOWN_NODES || self.files >= MAX_KNOWN_FILES {
            self.nodes.clear();
            self.files = 0;
        }
        let replaced = self.nodes.remove(node);
        self.files -= replaced.as_ref().map_or(0, KnownNode::files).min(self.files);
        let previous = match replaced {
            Some(known) if known.entry == entry => known.previous,
            replaced => replaced.map(|known| known.current),
        };
        let known = KnownNode { entry, current, previous };
        self.files += known.files();
        self.nodes.insert(node.clone(), known);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use muster_wire::catalog::content::ContentAddress;
    use muster_wire::identity::Identity;

    use super::{KnownReleases, MAX_KNOWN_FILES, NodeRelease};

    fn release(files: &[ContentAddress]) -> Arc<NodeRelease> {
        let environment = "production".to_owned();
        Arc::new(NodeRelease { environment, plugins: None, files: files.into() })
    }

    #[test]
    fn files_of_the_present_and_the_last_release_are_known_within_a_bound() {
        let node = Identity::parse("web1.acme.net").unwrap();
        let other = Identity::parse("web2.acme.net").unwrap();
        let address = |text: &str| ContentAddress::of(text.as_bytes());
        let mut known = KnownReleases::default();
        for text in ["a", "b", "b", "c"] {
            known.remember(&node, address(text), release(&[address(text)]));
        }
        let names: Vec<bool> =
            ["a", "b", "c"].map(|text| known.names_file(&node, address(text))).into();
        assert_eq!(names, [false, true, true]);
        assert!(!known.names_file(&other, address("c")));
        assert_eq!(known.files, 2);
        let many = vec![address("x"); MAX_KNOWN_FILES];
        known.remember(&other, address("d"), release(&many));
        known.remember(&other, address("e"), release(&[]));
        assert!(!known.names_file(&node, address("c")) && known.files == 0);
    }
}
