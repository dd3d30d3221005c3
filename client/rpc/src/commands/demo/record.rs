//! What was started, in `demo.json`: written after every start, so that everything can be stopped again.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::DemoError;
use super::process::DemoProcess;
use crate::files;

/// Says that a directory is a demonstration's, and so may be emptied.
const MARKER_FILE: &str = ".muster-demo";
/// Largest record in bytes.
const MAX_RECORD_BYTES: u64 = 1024 * 1024;

/// The processes of a demonstration.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct DemoRecord {
    /// The broker.
    pub broker: Option<BrokerProcess>,
    /// The nodes.
    pub nodes: Vec<NodeProcess>,
}

/// The broker's process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BrokerProcess {
    /// Where it listens.
    pub url: String,
    /// The process.
    #[serde(flatten)]
    pub process: DemoProcess,
}

/// A node's process, or that of many.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NodeProcess {
    /// Its name, and that of its directory.
    pub name: String,
    /// How many nodes it runs, if they are virtual.
    #[serde(default, rename = "virtual", skip_serializing_if = "Option::is_none")]
    pub in_memory: Option<u32>,
    /// The process.
    #[serde(flatten)]
    pub process: DemoProcess,
}

impl DemoRecord {
    /// Every process, nodes before the broker.
    pub fn nodes_first(&self) -> Vec<DemoProcess> {
        let nodes = self.nodes.iter().map(|node| node.process);
        nodes
            .chain(self.broker.iter().map(|broker| broker.process))
            .collect()
    }

    /// Writes it.
    pub fn save(&self, directory: &Path) -> Result<(), DemoError> {
        let path = record_path(directory);
        let text = serde_json::to_vec_pretty(self).map_err(|source| DemoError::Record {
            path: path.clone(),
            source,
        })?;
        Ok(files::replace_public(&path, &text)?)
    }

    /// Reads it. A demonstration that failed early has none.
    pub fn load(directory: &Path) -> Result<Self, DemoError> {
        if !directory.join(MARKER_FILE).is_file() {
            return Err(DemoError::None(directory.to_owned()));
        }
        let path = record_path(directory);
        if !path.exists() {
            return Ok(Self::default());
        }
        let text = files::read_text(&path, MAX_RECORD_BYTES)?;
        serde_json::from_str(&text).map_err(|source| DemoError::Record { path, source })
    }
}

fn record_path(directory: &Path) -> PathBuf {
    directory.join("demo.json")
}

/// Takes an empty or new directory for a demonstration.
pub fn claim_directory(directory: &Path) -> Result<(), DemoError> {
    if directory.join(MARKER_FILE).exists() {
        return Err(DemoError::Already(directory.to_owned()));
    }
    files::create_private_directory(directory)?;
    let entries = fs::read_dir(directory).map_err(files::file_error("read", directory))?;
    if entries.count() > 0 {
        return Err(DemoError::Occupied(directory.to_owned()));
    }
    Ok(files::replace_public(
        &directory.join(MARKER_FILE),
        b"`rpc demo down` removes everything in here\n",
    )?)
}

/// Removes the directory of a demonstration. Links in it are removed, not followed.
pub fn remove_directory(directory: &Path) -> Result<(), DemoError> {
    if !directory.join(MARKER_FILE).is_file() {
        return Err(DemoError::None(directory.to_owned()));
    }
    Ok(fs::remove_dir_all(directory).map_err(files::file_error("remove", directory))?)
}

#[cfg(test)]
mod tests {
    use super::{DemoError, DemoRecord, claim_directory, remove_directory};

    #[test]
    fn only_a_demonstration_is_removed_and_only_an_empty_directory_taken() {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::write(scratch.path().join("mine"), "x").unwrap();
        assert!(matches!(
            claim_directory(scratch.path()),
            Err(DemoError::Occupied(_))
        ));
        assert!(matches!(
            remove_directory(scratch.path()),
            Err(DemoError::None(_))
        ));
        assert!(matches!(
            DemoRecord::load(scratch.path()),
            Err(DemoError::None(_))
        ));
        let directory = scratch.path().join("demo");
        claim_directory(&directory).unwrap();
        assert!(matches!(
            claim_directory(&directory),
            Err(DemoError::Already(_))
        ));
        assert!(
            DemoRecord::load(&directory)
                .unwrap()
                .nodes_first()
                .is_empty()
        );
        std::os::unix::fs::symlink(scratch.path(), directory.join("link")).unwrap();
        remove_directory(&directory).unwrap();
        assert!(!directory.exists() && scratch.path().join("mine").exists());
    }
}
