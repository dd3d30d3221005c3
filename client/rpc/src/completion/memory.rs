//! Caches recently seen node and fact names in a small file in the user's cache directory. Used only for completion; an unreadable file counts as
//! empty.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use muster_request::{read_cache_file, replace_cache_file};
use serde::{Deserialize, Serialize};

use crate::environment::ProcessEnvironment;

/// Maximum number of names of each kind.
const MAX_NAMES: usize = 5000;
/// Maximum length of a name, in bytes.
const MAX_NAME_BYTES: usize = 256;
/// Maximum size of the file, in bytes.
const MAX_FILE_BYTES: usize = 4 * 1024 * 1024;
/// Maximum age of names since they were last seen.
const MAX_AGE: Duration = Duration::from_hours(24);

/// The cached names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenNamesCache {
    /// Nodes.
    #[serde(default)]
    pub nodes: BTreeSet<String>,
    /// Facts.
    #[serde(default)]
    pub facts: BTreeSet<String>,
}

impl SeenNamesCache {
    /// Loads the cache; empty if it is too old or unreadable.
    pub fn load(environment: &ProcessEnvironment) -> Self {
        cache_path(environment).and_then(|path| Self::read_file(&path)).unwrap_or_default()
    }

    fn read_file(path: &Path) -> Option<Self> {
        let written = path.metadata().and_then(|file| file.modified()).ok()?;
        let age = SystemTime::now().duration_since(written).unwrap_or_default();
        if age > MAX_AGE {
            return None;
        }
        serde_json::from_slice(&read_cache_file(path, MAX_FILE_BYTES)?).ok()
    }

    /// Adds names. Write errors are ignored, because the file is only a cache.
    pub fn add_names(environment: &ProcessEnvironment, new_names: Self) {
        let Some(path) = cache_path(environment) else {
            return;
        };
        let mut cache = Self::load(environment);
        let before = cache.clone();
        extend_names(&mut cache.nodes, new_names.nodes);
        extend_names(&mut cache.facts, new_names.facts);
        if cache == before {
            return;
        }
        if let Ok(bytes) = serde_json::to_vec(&cache) {
            let _ = replace_cache_file(&path, &bytes);
        }
    }
}

fn extend_names(names: &mut BTreeSet<String>, new_names: BTreeSet<String>) {
    let capacity = MAX_NAMES.saturating_sub(names.len());
    let is_valid = |name: &String| {
        name.len() <= MAX_NAME_BYTES
            && !name.contains(|c: char| c.is_control() || c.is_whitespace())
    };
    names.extend(new_names.into_iter().filter(is_valid).take(capacity));
}

fn cache_path(environment: &ProcessEnvironment) -> Option<PathBuf> {
    Some(environment.cache_directory()?.join("seen.json"))
}

#[cfg(test)]
mod tests {
    use super::{MAX_NAMES, SeenNamesCache};
    use crate::environment::ProcessEnvironment;

    #[test]
    fn caches_seen_names_up_to_a_limit() {
        let scratch = tempfile::tempdir().unwrap();
        let environment = ProcessEnvironment {
            cache_home: Some(scratch.path().to_owned()),
            ..ProcessEnvironment::default()
        };
        assert_eq!(SeenNamesCache::load(&environment), SeenNamesCache::default());
        let nodes = |names: &[&str]| SeenNamesCache {
            nodes: names.iter().map(|name| (*name).to_owned()).collect(),
            ..SeenNamesCache::default()
        };
        SeenNamesCache::add_names(&environment, nodes(&["a", "b"]));
        SeenNamesCache::add_names(&environment, nodes(&["b", "c", "no name"]));
        assert_eq!(SeenNamesCache::load(&environment), nodes(&["a", "b", "c"]));
        let many: Vec<String> = (0..2 * MAX_NAMES).map(|n| format!("n{n}")).collect();
        SeenNamesCache::add_names(
            &environment,
            nodes(&many.iter().map(String::as_str).collect::<Vec<_>>()),
        );
        assert_eq!(SeenNamesCache::load(&environment).nodes.len(), MAX_NAMES);
        std::fs::write(scratch.path().join("muster/seen.json"), "{").unwrap();
        assert_eq!(SeenNamesCache::load(&environment), SeenNamesCache::default());
        SeenNamesCache::add_names(&ProcessEnvironment::default(), nodes(&["a"]));
    }
}
