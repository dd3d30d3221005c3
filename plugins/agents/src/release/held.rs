//! What a node has of releases on its disk: the last ones, their catalogs, and how the last run ended.
//!
//! ```text
//! STATE/release/release.json       promotions, addresses, the end of the last run
//! STATE/release/catalog.ADDRESS    a catalog as its compiler signed it; secrets are encrypted
//! STATE/engine/content/SHA256      files
//! ```

use std::collections::BTreeSet;
use std::path::Path;

use muster_api::system::{StateDir, SystemResult};
use muster_wire::Millis;
use muster_wire::catalog::CatalogAddress;
use muster_wire::catalog::content::ContentAddress;
use muster_wire::catalog::plugins::{MAX_PLUGIN_LIST_BYTES, PluginList};
use muster_wire::catalog::release::{Promotion, Release, ReleaseRefusal, ReleasedEntry};
use muster_wire::limits::MAX_CATALOG_BYTES;
use serde::{Deserialize, Serialize};

use super::error::ReleaseError;

const STATE_FILE: &str = "release.json";
const MAX_STATE_BYTES: u64 = 8 * 1024 * 1024;
/// Different catalogs that stay on disk: the current one, and the one before.
const KEPT_CATALOGS: usize = 2;
/// Releases that stay known.
const MAX_HELD: usize = 10;
const CATALOG_PREFIX: &str = "catalog.";

/// A release that was promoted, with the node's catalog.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HeldRelease {
    pub(crate) entry: ReleasedEntry,
    pub(crate) catalog: CatalogAddress,
}

/// The end of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LastRun {
    pub(crate) at: Millis,
    pub(crate) noop: bool,
    pub(crate) status: String,
    /// Resources that were changed, or would have been.
    pub(crate) changed: u64,
    pub(crate) failed: u64,
    pub(crate) catalog: CatalogAddress,
}

/// All that is known between two starts of the daemon.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct HeldState {
    /// The latest first. They have at most two different catalogs.
    pub(crate) held: Vec<HeldRelease>,
    /// When the latest accepted promotion was signed: no earlier one is accepted.
    pub(crate) latest: Millis,
    pub(crate) last_run: Option<LastRun>,
    /// Files that were fetched for releases, and are removed when no catalog names them.
    pub(crate) fetched: BTreeSet<ContentAddress>,
}

impl HeldRelease {
    /// What was signed. Verified when it was accepted.
    pub(crate) fn read(&self) -> Result<(Promotion, Release), ReleaseRefusal> {
        self.entry.read_unverified()
    }

    fn release_address(&self) -> ContentAddress {
        Release::address_of(&self.entry.release)
    }
}

impl HeldState {
    pub(crate) fn load(directory: &StateDir) -> SystemResult<Self> {
        Ok(directory.read_record(STATE_FILE, MAX_STATE_BYTES)?.unwrap_or_default())
    }

    pub(crate) fn save(&self, directory: &StateDir) -> SystemResult<()> {
        directory.replace_record(STATE_FILE, self)
    }

    pub(crate) fn current(&self) -> Option<&HeldRelease> {
        self.held.first()
    }

    /// The release before.
    pub(crate) fn previous(&self) -> Option<&HeldRelease> {
        self.held.get(1)
    }

    /// The catalog of a release that the node has.
    pub(crate) fn find(&self, release: ContentAddress) -> Option<CatalogAddress> {
        let held = self.held.iter().find(|held| held.release_address() == release);
        held.map(|held| held.catalog)
    }

    /// Takes a release. The last two catalogs stay, with the releases that name them, for a way back.
    pub(crate) fn promote(&mut self, release: HeldRelease, issued_at: Millis) {
        let address = release.release_address();
        self.held.retain(|held| held.release_address() != address);
        self.held.insert(0, release);
        let mut kept = BTreeSet::new();
        self.held.retain(|held| {
            kept.contains(&held.catalog)
                || (kept.len() < KEPT_CATALOGS && kept.insert(held.catalog))
        });
        self.held.truncate(MAX_HELD);
        self.latest = issued_at;
    }

    /// The catalogs that stay on disk.
    pub(crate) fn catalogs(&self) -> BTreeSet<CatalogAddress> {
        self.held.iter().map(|held| held.catalog).collect()
    }
}

/// The list of a release's plugins, which was fetched.
pub(crate) fn read_plugins(
    contents: &Path,
    list: ContentAddress,
) -> Result<PluginList, ReleaseError> {
    let directory = StateDir::open(contents)?;
    let limit = u64::try_from(MAX_PLUGIN_LIST_BYTES).unwrap_or(u64::MAX);
    let bytes = directory.read_file(&list.to_string(), limit)?;
    Ok(PluginList::read(&bytes.ok_or(ReleaseError::NoPlugins(list))?)?)
}

pub(crate) fn store_catalog(
    directory: &StateDir,
    address: CatalogAddress,
    bytes: &[u8],
) -> SystemResult<()> {
    directory.replace_file(&format!("{CATALOG_PREFIX}{address}"), bytes)
}

/// A catalog that was verified when it was stored.
pub(crate) fn read_catalog(
    directory: &StateDir,
    address: CatalogAddress,
) -> SystemResult<Option<Vec<u8>>> {
    let limit = u64::try_from(MAX_CATALOG_BYTES).unwrap_or(u64::MAX);
    directory.read_file(&format!("{CATALOG_PREFIX}{address}"), limit)
}

/// Removes the catalogs that no held release names. Returns those that stay, as far as they can be read.
pub(crate) fn remove_catalogs(
    directory: &StateDir,
    keep: &BTreeSet<CatalogAddress>,
) -> SystemResult<Vec<Vec<u8>>> {
    let mut kept = Vec::new();
    for name in directory.list_names("")? {
        let Some(address) = name.strip_prefix(CATALOG_PREFIX) else { continue };
        match CatalogAddress::parse(address) {
            Ok(address) if keep.contains(&address) => {
                kept.extend(read_catalog(directory, address)?);
            }
            _ => directory.remove_file(&name)?,
        }
    }
    Ok(kept)
}
