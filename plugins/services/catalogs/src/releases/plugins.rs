//! Stores the plugins of an environment, which an unmodified Puppet needs on the node besides its catalog.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::PathBuf;
use std::sync::Arc;

use muster_wire::catalog::content::ContentAddress;
use muster_wire::catalog::plugins::{MAX_PLUGIN_LIST_BYTES, PluginList, PluginListError};
use tokio::fs::File;

use super::{ReleaseStore, ReleaseStoreError};
use crate::code::CodeVersion;
use crate::inputs::CodeError;

/// Why the plugins of an environment cannot be stored.
#[derive(Debug, thiserror::Error)]
pub enum PluginStoreError {
    #[error(transparent)]
    Code(#[from] CodeError),
    #[error("cannot read {}", path.display())]
    File {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error(transparent)]
    List(#[from] PluginListError),
    #[error("the list of plugins has {0} bytes, more than the limit of {MAX_PLUGIN_LIST_BYTES}")]
    TooLong(usize),
    #[error("the work ended unexpectedly")]
    Panicked(#[from] tokio::task::JoinError),
}

impl ReleaseStore {
    /// Stores the plugins of all modules, and returns the address of their list; `None` if there are none. Of two files with the same path, that of the module
    /// that Puppet finds first counts.
    pub async fn store_plugins(
        &self,
        version: &Arc<CodeVersion>,
    ) -> Result<Option<ContentAddress>, ReleaseStoreError> {
        let code = Arc::clone(version);
        let found = tokio::task::spawn_blocking(move || code.directory.find_plugins());
        let found = found.await.map_err(PluginStoreError::from)?.map_err(PluginStoreError::from)?;
        let mut files = BTreeMap::new();
        for (name, path) in found {
            let failed = |source| PluginStoreError::File { path: path.clone(), source };
            let file = File::open(&path).await.map_err(failed)?;
            files.insert(name, self.content.put_file(file, None).await?);
        }
        let list = PluginList::new(files).map_err(PluginStoreError::from)?;
        if list.is_empty() {
            return Ok(None);
        }
        let bytes = list.to_bytes().map_err(ReleaseStoreError::Write)?;
        if bytes.len() > MAX_PLUGIN_LIST_BYTES {
            return Err(PluginStoreError::TooLong(bytes.len()).into());
        }
        Ok(Some(self.content.put_file(Cursor::new(bytes), None).await?))
    }
}
