//! What was started, in `demo.json`: written after every start, so that everything can be stopped again.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::DemoError;
use super::process::Process;
use crate::files;

/// Says that a directory is a demonstration's, and so may be emptied.
const MARKER: &str = ".muster-demo";
/// Largest record in bytes.
const RECORD_BYTES: u64 = 1024 * 1024;

/// The processes of a demonstration.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Record {
    /// The broker.
    pub broker: Option<Broker>,
    /// The nodes.
    pub nodes: Vec<Node>,
}

/// The broker's process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Broker {
    /// Where it listens.
    pub url: String,
    /// The process.
    #[serde(flatten)]
    pub process: Process,
}

/// A node's process, or that of many.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Node {
    /// Its name, and that of its directory.
    pub name: String,
    /// How many nodes it runs, if they are virtual.
    #[serde(default, rename = "virtual", skip_serializing_if = "Option::is_none")]
    pub in_memory: Option<u32>,
    /// The process.
    #[serde(flatten)]
    pub process: Process,
}

impl Record {
    /// Every process, nodes before the broker.
    pub fn nodes_first(&self) -> Vec<Process> {
        let nodes = self.nodes.iter().map(|node| node.process);
        nodes
            .chain(self.broker.iter().map(|broker| broker.process))
            .collect()
    }

    /// Writes it.
    pub fn save(&self, directory: &Path) -> Result<(), DemoError> {
        let path = file(directory);
        let text = serde_json::to_vec_pretty(self).map_err(|source| DemoError::Record {
            path: path.clone(),
            source,
        })?;
        Ok(files::replace(&path, &text)?)
    }

    /// Reads it. A demonstration that failed early has none.
    pub fn load(directory: &Path) -> Result<Self, DemoError> {
        if !directory.join(MARKER).is_file() {
            return Err(DemoError::None(directory.to_owned()));
        }
        let path = file(directory);
        if !path.exists() {
            return Ok(Self::default());
        }
        let text = files::read(&path, RECORD_BYTES)?;
        serde_json::from_str(&text).map_err(|source| DemoError::Record { path, source })
    }
}

fn file(directory: &Path) -> PathBuf {
    directory.join("demo.json")
}

/// Takes an empty or new directory for a demonstration.
pub fn claim(directory: &Path) -> Result<(), DemoError> {
    if directory.join(MARKER).exists() {
        return Err(DemoError::Already(directory.to_owned()));
    }
    files::private_directory(directory)?;
    let entries = fs::read_dir(directory).map_err(files::failed("read", directory))?;
    if entries.count() > 0 {
        return Err(DemoError::Occupied(directory.to_owned()));
    }
    Ok(files::replace(
        &directory.join(MARKER),
        b"`rpc demo down` removes everything in here\n",
    )?)
}

/// Removes the directory of a demonstration. Links in it are removed, not followed.
pub fn remove(directory: &Path) -> Result<(), DemoError> {
    if !directory.join(MARKER).is_file() {
        return Err(DemoError::None(directory.to_owned()));
    }
    Ok(fs::remove_dir_all(directory).map_err(files::failed("remove", directory))?)
}

#[cfg(test)]
mod tests {
    use super::{DemoError, Record, claim, remove};

    #[test]
    fn only_a_demonstration_is_removed_and_only_an_empty_directory_taken() {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::write(scratch.path().join("mine"), "x").unwrap();
        assert!(matches!(claim(scratch.path()), Err(DemoError::Occupied(_))));
        assert!(matches!(remove(scratch.path()), Err(DemoError::None(_))));
        assert!(matches!(
            Record::load(scratch.path()),
            Err(DemoError::None(_))
        ));
        let directory = scratch.path().join("demo");
        claim(&directory).unwrap();
        assert!(matches!(claim(&directory), Err(DemoError::Already(_))));
        assert!(Record::load(&directory).unwrap().nodes_first().is_empty());
        std::os::unix::fs::symlink(scratch.path(), directory.join("link")).unwrap();
        remove(&directory).unwrap();
        assert!(!directory.exists() && scratch.path().join("mine").exists());
    }
}
