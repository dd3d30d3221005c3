//! Cache of DDLs fetched from nodes: one file per agent, in a directory per fleet and collective. Sends no requests; agreement between nodes
//! is checked in `ddl_fetch.rs`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use muster_base::{format_rfc3339, unix_millis_now};
use muster_ddl::{AgentDdl, MAX_DDL_BYTES};
use muster_files::files;
use serde::{Deserialize, Serialize};

use crate::cache_file::{read_cache_file, replace_cache_file};
use crate::ddl_fetch::{DdlFetchError, FetchedDdl};
use crate::settings::RpcSettings;

/// Schema identifier of the files.
const CACHE_ENTRY_SCHEMA: &str = "muster.kept-ddl.v1";

/// The cache directory.
#[derive(Debug, Clone)]
pub struct DdlCache {
    directory: Option<PathBuf>,
}

#[derive(Debug, Serialize, Deserialize)]
struct DdlCacheEntry {
    schema: String,
    agent: String,
    version: String,
    sha256: String,
    fetched_at: String,
    ddl: String,
}

impl DdlCache {
    /// The cache for the settings' fleet and collective; disabled without a cache directory.
    pub fn for_settings(settings: &RpcSettings) -> Self {
        let directory = settings.fleet_cache_directory();
        Self { directory: directory.map(|directory| directory.join("ddl")) }
    }

    /// Loads all valid DDLs with the time of their fetch, by file name. Damaged files are skipped: they can be fetched again.
    pub fn load_all(&self) -> Vec<(AgentDdl, String)> {
        let entries = self.directory.as_deref().map(fs::read_dir);
        let Some(Ok(entries)) = entries else {
            return Vec::new();
        };
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        paths.iter().filter_map(|path| read_cached_ddl(path)).collect()
    }

    /// Stores a DDL, replacing an older one atomically. Returns the path.
    pub fn store_ddl(&self, fetched: &FetchedDdl) -> Result<PathBuf, DdlFetchError> {
        let directory = self.directory.as_ref().ok_or(DdlFetchError::NoCacheDirectory)?;
        let path = directory.join(format!("{}.json", fetched.ddl.name()));
        let entry = DdlCacheEntry {
            schema: CACHE_ENTRY_SCHEMA.to_owned(),
            agent: fetched.ddl.name().to_owned(),
            version: fetched.ddl.version().to_owned(),
            sha256: fetched.sha256.clone(),
            fetched_at: format_rfc3339(unix_millis_now()),
            ddl: fetched.text.clone(),
        };
        let bytes = serde_json::to_vec(&entry).map_err(io::Error::from);
        let bytes = bytes.map_err(files::file_error("write", &path))?;
        replace_cache_file(&path, &bytes)?;
        Ok(path)
    }
}

fn read_cached_ddl(path: &Path) -> Option<(AgentDdl, String)> {
    let entry: DdlCacheEntry =
        serde_json::from_slice(&read_cache_file(path, 2 * MAX_DDL_BYTES)?).ok()?;
    let ddl = FetchedDdl::from_text(&entry.agent, &entry.sha256, entry.ddl).ok()?.ddl;
    (entry.schema == CACHE_ENTRY_SCHEMA).then_some((ddl, entry.fetched_at))
}

#[cfg(test)]
mod tests {
    use super::DdlCache;
    use crate::ddl_fetch::FetchedDdl;

    #[test]
    fn cached_ddls_are_loaded_and_damaged_files_are_ignored() {
        let home = tempfile::tempdir().unwrap();
        let kept = DdlCache { directory: Some(home.path().join("a/b")) };
        assert!(kept.load_all().is_empty());
        let text = r#"{"metadata":{"name":"disk","version":"1.2.3"},"actions":[]}"#;
        let fetched = FetchedDdl::of("disk", text.to_owned()).unwrap();
        let path = kept.store_ddl(&fetched).unwrap();
        let all = kept.load_all();
        assert_eq!((all.len(), all[0].0.version()), (1, "1.2.3"));
        let damaged = std::fs::read_to_string(&path).unwrap().replace("1.2.3", "6.6.6");
        std::fs::write(&path, damaged).unwrap();
        assert!(kept.load_all().is_empty());
    }
}
