//! The plugins of an environment: types, providers, functions and facts of its modules, which an unmodified Puppet needs on the node.
//!
//! A release names their list, which is content like each of the files. Paths begin with `lib/` or `facts.d/`, as in a module.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::content::ContentAddress;

/// Largest list, in bytes.
pub const MAX_PLUGIN_LIST_BYTES: usize = 4 * 1024 * 1024;
/// The directories of a module that have plugins.
pub const PLUGIN_DIRECTORIES: [&str; 2] = ["lib", "facts.d"];
/// Longest path, in bytes.
const MAX_PATH_BYTES: usize = 1024;

/// The files by path. Equal plugins have equal bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PluginList(BTreeMap<String, ContentAddress>);

/// The bytes are no list of plugins.
#[derive(Debug, thiserror::Error)]
pub enum PluginListError {
    /// They are not the expected JSON.
    #[error("the list of plugins has an invalid format")]
    Json(#[from] serde_json::Error),
    /// A path would be outside of its directory.
    #[error("the list of plugins has the path `{}`, which is not below lib or facts.d", .0.escape_debug())]
    Path(String),
}

impl PluginList {
    /// The list of these files.
    pub fn new(files: BTreeMap<String, ContentAddress>) -> Result<Self, PluginListError> {
        match files.keys().find(|path| !is_plugin_path(path)) {
            Some(path) => Err(PluginListError::Path(path.clone())),
            None => Ok(Self(files)),
        }
    }

    /// Reads a list whose hash was compared.
    pub fn read(bytes: &[u8]) -> Result<Self, PluginListError> {
        Self::new(serde_json::from_slice(bytes)?)
    }

    /// The bytes that are stored.
    pub fn to_bytes(&self) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec(self)
    }

    /// The files by path.
    pub fn files(&self) -> impl Iterator<Item = (&str, ContentAddress)> {
        self.0.iter().map(|(path, file)| (path.as_str(), *file))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn is_plugin_path(path: &str) -> bool {
    let mut segments = path.split('/');
    let directory = segments.next().unwrap_or_default();
    let is_name = |segment: &str| !matches!(segment, "" | "." | "..");
    let below: Vec<&str> = segments.collect();
    path.len() <= MAX_PATH_BYTES
        && !path.contains('\0')
        && PLUGIN_DIRECTORIES.contains(&directory)
        && !below.is_empty()
        && below.into_iter().all(is_name)
}

#[cfg(test)]
mod tests {
    use super::{PluginList, PluginListError};

    #[test]
    fn path_outside_of_the_plugins_is_refused() {
        let address = "0".repeat(64);
        let list = |path: &str| {
            PluginList::read(serde_json::json!({path: address}).to_string().as_bytes())
        };
        for path in ["lib/puppet/type/x.rb", "facts.d/a b.yaml", "lib/..x"] {
            let files: Vec<String> =
                list(path).unwrap().files().map(|(path, _)| path.to_owned()).collect();
            assert_eq!(files, [path]);
        }
        for path in [
            "lib",
            "lib/",
            "lib/../x",
            "/lib/x",
            "lib//x",
            "etc/x",
            "lib/a/./b",
            "../lib/x",
            "lib/a\0b",
        ] {
            assert!(matches!(list(path), Err(PluginListError::Path(_))), "{path}");
        }
    }
}
