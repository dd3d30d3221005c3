//! Stores the started processes in `demo.json`. The file is written after every start, so that every process can be stopped.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use muster_files::files;

use crate::commands::demo::error::DemoError;
use crate::commands::demo::process::DemoProcess;

/// Marks a directory as one of a demonstration, which may be deleted.
const MARKER_FILE: &str = ".muster-demo";
const MAX_RECORD_BYTES: u64 = 1024 * 1024;

#[derive(Debug, Default, Serialize, Deserialize)]
pub struct DemoRecord {
    /// Whether everything was started.
    #[serde(default)]
    pub is_complete: bool,
    pub broker: Option<BrokerProcess>,
    pub nodes: Vec<NodeProcess>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BrokerProcess {
    pub url: String,
    #[serde(flatten)]
    pub process: DemoProcess,
}

/// The process of one node, or of many virtual nodes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NodeProcess {
    /// Its name, and that of its directory.
    pub name: String,
    /// Number of virtual nodes that it runs.
    #[serde(default, rename = "virtual", skip_serializing_if = "Option::is_none")]
    pub virtual_count: Option<u32>,
    #[serde(flatten)]
    pub process: DemoProcess,
}

impl BrokerProcess {
    /// The port of the URL.
    pub fn port(&self) -> Option<u16> {
        self.url.rsplit_once(':').and_then(|(_, port)| port.parse().ok())
    }
}

impl DemoRecord {
    /// Every process, nodes before the broker.
    pub fn nodes_first(&self) -> Vec<DemoProcess> {
        let nodes = self.nodes.iter().map(|node| node.process);
        nodes.chain(self.broker.iter().map(|broker| broker.process)).collect()
    }

    /// Whether everything was started and still runs.
    pub fn is_running(&self) -> bool {
        self.is_complete && self.nodes_first().iter().all(DemoProcess::is_alive)
    }

    /// The number of nodes, and whether they are virtual.
    pub fn count_nodes(&self) -> (usize, bool) {
        let in_memory = self.nodes.iter().find_map(|node| node.virtual_count);
        match in_memory {
            Some(count) => (usize::try_from(count).unwrap_or(usize::MAX), true),
            None => (self.nodes.len(), false),
        }
    }

    pub fn save(&self, directory: &Path) -> Result<(), DemoError> {
        let path = record_path(directory);
        let text = serde_json::to_vec_pretty(self)
            .map_err(|source| DemoError::Record { path: path.clone(), source })?;
        Ok(files::replace_public(&path, &text)?)
    }

    /// A demonstration that failed early has no record; the result is empty.
    pub fn load(directory: &Path) -> Result<Self, DemoError> {
        if !directory.join(MARKER_FILE).is_file() {
            return Err(DemoError::NotFound(directory.to_owned()));
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

/// Marks an empty or new directory as a demonstration.
pub fn claim_directory(directory: &Path) -> Result<(), DemoError> {
    if directory.join(MARKER_FILE).exists() {
        return Err(DemoError::AlreadyExists(directory.to_owned()));
    }
    files::create_private_directory(directory)?;
    let entries = fs::read_dir(directory).map_err(files::file_error("read", directory))?;
    if entries.count() > 0 {
        return Err(DemoError::NotEmpty(directory.to_owned()));
    }
    Ok(files::replace_public(
        &directory.join(MARKER_FILE),
        b"`rpc demo down` removes this directory with all its files\n",
    )?)
}

pub fn scratch_roots(directory: &Path) -> Vec<PathBuf> {
    let nodes = fs::read_dir(directory.join("nodes")).into_iter().flatten().flatten();
    nodes.map(|node| node.path().join("root")).collect()
}

/// Symbolic links in it are removed, not followed.
pub fn remove_directory(directory: &Path) -> Result<(), DemoError> {
    if !directory.join(MARKER_FILE).is_file() {
        return Err(DemoError::NotFound(directory.to_owned()));
    }
    Ok(fs::remove_dir_all(directory).map_err(files::file_error("remove", directory))?)
}

#[cfg(test)]
mod tests {
    use super::{DemoError, DemoRecord, claim_directory, remove_directory};

    #[test]
    fn removes_only_demonstrations_and_uses_only_empty_directories() {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::write(scratch.path().join("mine"), "x").unwrap();
        assert!(matches!(claim_directory(scratch.path()), Err(DemoError::NotEmpty(_))));
        assert!(matches!(remove_directory(scratch.path()), Err(DemoError::NotFound(_))));
        assert!(matches!(DemoRecord::load(scratch.path()), Err(DemoError::NotFound(_))));
        let directory = scratch.path().join("demo");
        claim_directory(&directory).unwrap();
        assert!(matches!(claim_directory(&directory), Err(DemoError::AlreadyExists(_))));
        assert!(DemoRecord::load(&directory).unwrap().nodes_first().is_empty());
        std::os::unix::fs::symlink(scratch.path(), directory.join("link")).unwrap();
        remove_directory(&directory).unwrap();
        assert!(!directory.exists() && scratch.path().join("mine").exists());
    }
}
