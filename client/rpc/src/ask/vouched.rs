//! Which nodes' tokens this caller has verified, kept from one command to the next, so that ten thousand answers cost ten thousand signatures
//! and not twice as many. The file is among the user's caches, and signed with the caller's key: what it says is nobody else's word.

use std::path::PathBuf;

use muster_client::Client;
use muster_wire::token::verified_cache::MAX_FILE_BYTES;

use crate::caches;
use crate::settings::RpcSettings;

/// A client that remembers whose tokens it has verified. What is new is written when it is dropped; that it cannot be is no reason to trouble
/// anybody.
#[derive(Debug)]
pub(super) struct PersistentTokenCache {
    client: Client,
    path: Option<PathBuf>,
}

impl PersistentTokenCache {
    /// Tells the client what earlier commands have verified.
    pub(super) fn load_for_client(client: Client, settings: &RpcSettings) -> Self {
        let name = client.key().to_string();
        let path = settings
            .caches
            .as_ref()
            .map(|caches| caches.join("vouched").join(name));
        if let Some(bytes) = path
            .as_deref()
            .and_then(|path| caches::read_cache_file(path, MAX_FILE_BYTES))
        {
            client.import_verified_tokens(&bytes);
        }
        Self { client, path }
    }
}

impl Drop for PersistentTokenCache {
    fn drop(&mut self) {
        if let Some(path) = &self.path
            && let Some(bytes) = self.client.export_verified_tokens()
        {
            let _ = caches::replace_cache_file(path, &bytes);
        }
    }
}
