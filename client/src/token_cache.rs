//! Persists the verified node tokens of a caller between commands, so that ten thousand replies cost ten thousand signature checks and not twice as
//! many. The file is in the user's cache directory, signed with the caller's key, so other users cannot forge it.

use std::path::PathBuf;

use muster_calls::Client;
use muster_wire::token::verified_cache::MAX_FILE_BYTES;

use crate::cache_file::{read_cache_file, replace_cache_file};
use crate::settings::RpcSettings;

/// A client whose verified tokens are saved on drop, if there are new ones. Write errors are ignored, because the file is only a cache.
#[derive(Debug)]
pub(crate) struct PersistentTokenCache {
    client: Client,
    path: Option<PathBuf>,
}

impl PersistentTokenCache {
    /// Loads the tokens that earlier commands have verified.
    pub(crate) fn load_for_client(client: Client, settings: &RpcSettings) -> Self {
        let name = client.key().to_string();
        let path = settings.caches.as_ref().map(|caches| caches.join("vouched").join(name));
        if let Some(bytes) = path.as_deref().and_then(|path| read_cache_file(path, MAX_FILE_BYTES))
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
            let _ = replace_cache_file(path, &bytes);
        }
    }
}
