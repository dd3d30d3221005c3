//! Releases in the broker: drafts, signed releases, and the promotions of nodes. The agent's actions for them are in `actions`.
//!
//! Nothing here decides which catalog a node applies: a release is signed by its author, a promotion by its promoter, and nodes verify that.

mod collect;
mod diff;
mod fold;
mod plugins;
mod released;

use std::io::Cursor;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use muster_bus::content::{ContentError, ContentStore};
use muster_bus::{Bucket, BucketError, json_bytes};
use muster_wire::catalog::CatalogRefusal;
use muster_wire::catalog::content::ContentAddress;
use muster_wire::catalog::release::{
    MAX_LIST_BYTES, Promotion, Release, ReleaseList, ReleaseListError, ReleaseListRoot,
    ReleaseNodes, ReleaseRefusal, ReleasedEntry, read_list_part, release_key, released_key,
};
use muster_wire::identity::{Identity, SubjectName};
use serde::{Deserialize, Serialize};

pub use collect::CollectedReleases;
pub use diff::{ResourceChange, diff_catalogs};
pub use fold::{ComparedNodes, DiffGroup, compare_nodes};
pub use plugins::PluginStoreError;
pub use released::ReleasedCatalog;

/// Entries that are written at once.
const CONCURRENT_WRITES: usize = 64;
/// Tries of a change that conflicts with another one.
const MAX_TRIES: usize = 10;
const RELEASE_PATTERN: &str = "release.*";
/// Largest file whose text is shown in a difference, in bytes.
const MAX_TEXT_BYTES: usize = 32 * 1024;

/// Why a release cannot be read or stored.
#[derive(Debug, thiserror::Error)]
pub enum ReleaseStoreError {
    #[error("cannot read or write the bucket of catalogs")]
    Bucket(#[from] BucketError),
    #[error("cannot read or store the list of a release")]
    Content(#[from] ContentError),
    #[error(transparent)]
    List(#[from] ReleaseListError),
    #[error("the list of the release cannot be written")]
    Write(#[source] serde_json::Error),
    #[error("cannot store the plugins of the environment")]
    Plugins(#[from] PluginStoreError),
    #[error(transparent)]
    Refused(#[from] ReleaseRefusal),
    #[error("the catalog is not accepted")]
    Catalog(#[from] CatalogRefusal),
    #[error("the stored entry of the release {name} cannot be read")]
    Entry {
        name: String,
        #[source]
        source: serde_json::Error,
    },
    #[error("there is no release {0}; `rpc release list` shows them")]
    Unknown(String),
    #[error("there is a release {0} already; a name is given once")]
    Taken(SubjectName),
    #[error("the list {0} is not stored; it was removed, or never drafted")]
    NoList(ContentAddress),
}

/// The value of `release.NAME`.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct StoredRelease {
    /// As its author signed it.
    release: String,
}

/// What was stored of a promotion.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PromotedNodes {
    pub stored: usize,
    /// Nodes with a later promotion.
    pub later: usize,
}

/// The buckets of releases.
#[derive(Debug, Clone)]
pub struct ReleaseStore {
    catalogs: Bucket,
    content: ContentStore,
}

impl ReleaseStore {
    pub fn new(catalogs: Bucket, content: ContentStore) -> Self {
        Self { catalogs, content }
    }

    /// The files.
    pub fn content(&self) -> &ContentStore {
        &self.content
    }

    /// Puts texts in place of the addresses of changed contents, if all of them are stored, small, and text. Returns whether it did.
    pub async fn show_texts(&self, change: &mut ResourceChange) -> bool {
        let Some((old, new)) = change.contents() else { return false };
        let (Some(old), Some(new)) = (self.read_text(old).await, self.read_text(new).await) else {
            return false;
        };
        if let ResourceChange::Parameter { before, after, .. } = change {
            (*before, *after) = (Some(old), Some(new));
        }
        true
    }

    /// A small text; an empty one for a file that is not there; `None` for other content.
    async fn read_text(&self, file: Option<ContentAddress>) -> Option<String> {
        let Some(file) = file else { return Some(String::new()) };
        let bytes = self.content.read_file(file, MAX_TEXT_BYTES).await.ok()?;
        let text = String::from_utf8(bytes.to_vec()).ok()?;
        (!text.contains('\0')).then_some(text)
    }

    /// Stores the list of these nodes: parts before the root. Returns its address.
    pub async fn store_list(
        &self,
        nodes: &ReleaseNodes,
    ) -> Result<ContentAddress, ReleaseStoreError> {
        let list = ReleaseList::new(nodes).map_err(ReleaseStoreError::Write)?;
        let address = list.address();
        for bytes in list.parts.iter().chain([&list.root]) {
            let expected = Some(ContentAddress::of(bytes));
            self.content.put_file(Cursor::new(bytes.as_slice()), expected).await?;
        }
        Ok(address)
    }

    /// The catalogs of a release by node.
    pub async fn read_list(&self, list: ContentAddress) -> Result<ReleaseNodes, ReleaseStoreError> {
        let root = ReleaseListRoot::read(&self.content.read_file(list, MAX_LIST_BYTES).await?)?;
        let mut nodes = ReleaseNodes::new();
        for part in root.parts() {
            nodes.extend(read_list_part(&self.content.read_file(part, MAX_LIST_BYTES).await?)?);
        }
        Ok(nodes)
    }

    /// Stores a verified release under its name. The same one twice is no error.
    pub async fn publish(&self, release: &Release, text: &str) -> Result<(), ReleaseStoreError> {
        for list in [Some(release.list), release.plugins].into_iter().flatten() {
            if !self.content.has(list).await? {
                return Err(ReleaseStoreError::NoList(list));
            }
        }
        let key = release_key(&release.name);
        let value = json_bytes(&StoredRelease { release: text.to_owned() });
        match self.catalogs.create(&key, value).await {
            Ok(_) => Ok(()),
            Err(BucketError::Conflict { .. })
                if self.read(release.name.as_str()).await? == text =>
            {
                Ok(())
            }
            Err(BucketError::Conflict { .. }) => {
                Err(ReleaseStoreError::Taken(release.name.clone()))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// A release as its author signed it.
    pub async fn read(&self, name: &str) -> Result<String, ReleaseStoreError> {
        let unknown = || ReleaseStoreError::Unknown(name.to_owned());
        let name_of = SubjectName::parse(name).map_err(|_| unknown())?;
        let entry = self.catalogs.get(&release_key(&name_of)).await?;
        let value = entry.and_then(|entry| entry.value).ok_or_else(unknown)?;
        let stored: StoredRelease = serde_json::from_slice(&value)
            .map_err(|source| ReleaseStoreError::Entry { name: name.to_owned(), source })?;
        Ok(stored.release)
    }

    /// All releases, the newest first. One that cannot be read is left out.
    pub async fn list(&self) -> Result<Vec<Release>, ReleaseStoreError> {
        let entries = self.catalogs.list(RELEASE_PATTERN).await?;
        let read = |value: &[u8]| {
            let stored: StoredRelease = serde_json::from_slice(value).ok()?;
            Release::read_unverified(&stored.release).ok()
        };
        let found = entries.iter().filter_map(|entry| read(entry.value.as_deref()?));
        let mut releases: Vec<Release> = found.collect();
        releases.sort_by_key(|release| std::cmp::Reverse(release.created_at));
        Ok(releases)
    }

    /// The first name `rN` after all others.
    pub async fn next_name(&self) -> Result<String, ReleaseStoreError> {
        let names = self.catalogs.list(RELEASE_PATTERN).await?.into_iter();
        let numbers = names.filter_map(|entry| {
            entry.key.rsplit_once('.')?.1.strip_prefix('r')?.parse::<u64>().ok()
        });
        Ok(format!("r{}", numbers.max().unwrap_or_default().saturating_add(1)))
    }

    /// Stores a verified promotion for these nodes, unless a node has a later one.
    pub async fn promote(
        &self,
        entry: &ReleasedEntry,
        promotion: &Promotion,
        nodes: impl IntoIterator<Item = Identity>,
    ) -> Result<PromotedNodes, ReleaseStoreError> {
        let writes: Vec<_> =
            nodes.into_iter().map(|node| self.promote_node(entry, promotion, node)).collect();
        let mut written = stream::iter(writes).buffer_unordered(CONCURRENT_WRITES);
        let mut promoted = PromotedNodes::default();
        while let Some(is_stored) = written.try_next().await? {
            promoted.stored += usize::from(is_stored);
            promoted.later += usize::from(!is_stored);
        }
        Ok(promoted)
    }

    /// Returns whether it was stored: the entry of a node moves only forward.
    async fn promote_node(
        &self,
        entry: &ReleasedEntry,
        promotion: &Promotion,
        node: Identity,
    ) -> Result<bool, ReleaseStoreError> {
        let key = released_key(&node);
        for _ in 0..MAX_TRIES {
            let known = self.catalogs.get(&key).await?;
            let written = match &known {
                None => self.catalogs.create(&key, json_bytes(entry)).await,
                Some(known) if issued_at(known.value.as_deref()) > promotion.issued_at => {
                    return Ok(false);
                }
                Some(known) => self.catalogs.update(&key, json_bytes(entry), known.revision).await,
            };
            match written {
                Ok(_) => return Ok(true),
                Err(BucketError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(BucketError::Conflict { key }.into())
    }
}

/// When a stored promotion was signed; 0 if it cannot be read.
fn issued_at(value: Option<&[u8]>) -> u64 {
    let entry = value.and_then(|value| serde_json::from_slice::<ReleasedEntry>(value).ok());
    let read = entry.and_then(|entry| entry.read_unverified().ok());
    read.map(|(promotion, _)| promotion.issued_at).unwrap_or_default()
}
