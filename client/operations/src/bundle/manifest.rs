//! The content of a bundle: its manifest, and the files that it lists.

use std::collections::BTreeMap;

use muster_wire::identity::{Identity, SubjectName};
use muster_wire::{Millis, limits};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::error::BundleError;

/// The content of a bundle. Unknown fields are refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BundleManifest {
    /// The agent.
    pub name: SubjectName,
    /// Its semantic version.
    pub version: semver::Version,
    /// The signer, as named in its token.
    pub signer: Identity,
    /// Signing time, by the signer's clock.
    pub packed_at: Millis,
    /// Its files by path.
    pub files: BTreeMap<String, ManifestEntry>,
}

/// A file in a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManifestEntry {
    /// Size in bytes.
    pub bytes: u64,
    /// SHA-256 of the content, in lower-case hexadecimal.
    pub sha256: String,
    /// The file mode.
    pub mode: BundleFileMode,
}

/// The two file modes in bundles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum BundleFileMode {
    /// Readable by all.
    #[serde(rename = "0644")]
    Data,
    /// Executable by all.
    #[serde(rename = "0755")]
    Program,
}

impl BundleFileMode {
    /// The Unix permission bits.
    pub fn permission_bits(self) -> u32 {
        match self {
            Self::Data => 0o644,
            Self::Program => 0o755,
        }
    }
}

/// A file's mode and content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BundleFile<'a> {
    /// Its mode.
    pub mode: BundleFileMode,
    /// Its bytes.
    pub bytes: &'a [u8],
}

impl BundleFile<'_> {
    /// The manifest entry of this file.
    pub fn manifest_entry(&self) -> ManifestEntry {
        ManifestEntry {
            bytes: self.bytes.len() as u64,
            sha256: data_encoding::HEXLOWER.encode(&Sha256::digest(self.bytes)),
            mode: self.mode,
        }
    }
}

impl BundleManifest {
    /// Checks that every path is valid for this agent, and that the DDL is present.
    pub fn check_files(&self) -> Result<(), BundleError> {
        if self.files.is_empty() || self.files.len() > limits::MAX_BUNDLE_FILES {
            return Err(BundleError::Files(self.files.len()));
        }
        for path in self.files.keys() {
            check_path(&self.name, path)?;
            let mut ancestor = path.as_str();
            while let Some((directory, _)) = ancestor.rsplit_once('/') {
                if self.files.contains_key(directory) {
                    return Err(path_error(path, "its parent directory is also a file"));
                }
                ancestor = directory;
            }
        }
        if !self.files.contains_key(&self.ddl_path()) {
            return Err(BundleError::Shape("the agent's DDL is missing"));
        }
        Ok(())
    }

    /// The path of the agent's DDL.
    pub fn ddl_path(&self) -> String {
        format!("{}.json", self.name)
    }
}

fn path_error(path: &str, reason: &'static str) -> BundleError {
    let path = path.chars().take(120).collect();
    BundleError::Path { path, reason }
}

/// Checks that a path is below the agent's own directory, so that no file can belong to another agent.
pub fn check_path(agent: &SubjectName, path: &str) -> Result<(), BundleError> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-+/".contains(&byte);
    let mut components = path.split('/');
    let reason = if path.len() > limits::MAX_BUNDLE_PATH_BYTES {
        "the path is too long"
    } else if components.clone().count() > 3 {
        "it has more than two directories"
    } else if components.any(|component| component.is_empty() || component.starts_with('.')) {
        "a component is empty or begins with a dot"
    } else if !path.bytes().all(is_allowed) {
        "only letters, digits and ._-+ are allowed"
    } else if path.strip_suffix(".json").is_some_and(|name| name != agent.as_str()) {
        "a node would read it as the DDL of another agent"
    } else {
        return Ok(());
    };
    Err(path_error(path, reason))
}
