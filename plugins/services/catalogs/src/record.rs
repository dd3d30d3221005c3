//! The last compile of a node, with what it read: stored under `newest.NODE`, the only mutable result of a compile.

use muster_wire::Millis;
use muster_wire::catalog::CatalogAddress;
use muster_wire::compressed::{CompressedJsonError, compress_json, decompress_json};
use muster_wire::identity::Identity;
use serde::{Deserialize, Serialize};

use crate::compiler::protocol::{CompileFailure, CompileLog};
use crate::inputs::{CompileInputs, InputDigest, InputName};

/// Most bytes of inputs after decompression.
const MAX_INPUT_BYTES: usize = 16 * 1024 * 1024;
/// Most warnings that are kept.
pub(crate) const MAX_WARNINGS: usize = 50;
pub(crate) const NEWEST_PREFIX: &str = "newest.";

/// A stored catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CatalogName {
    pub address: CatalogAddress,
    /// Equal for catalogs with which a node would do the same.
    pub effect: CatalogAddress,
}

/// What was compiled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompiledState {
    /// The revision of the node's record.
    pub record_revision: u64,
    pub environment: String,
    /// The commit, or the digest of a directory.
    pub code: String,
    /// The public key of the node, for which the secrets are encrypted.
    pub node_key: String,
}

/// The last compile of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompileRecord {
    #[serde(flatten)]
    pub state: CompiledState,
    pub compiled_at: Millis,
    pub milliseconds: u64,
    /// Why it was compiled.
    pub cause: String,
    /// Why there is no new catalog; absent if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<CompileFailure>,
    /// The newest catalog; after a failure, that of the last compile that succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catalog: Option<CatalogName>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<CompileLog>,
    /// What was read that cannot be compared, and where: the catalog is not reproducible.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub externals: Vec<(String, String)>,
    /// Of which values everything was read, and where.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wholes: Vec<(String, String)>,
    /// Compressed.
    inputs: String,
}

impl CompileRecord {
    /// A record without result, of a compile that read this.
    pub fn new(state: CompiledState, inputs: &CompileInputs) -> Result<Self, CompressedJsonError> {
        let inputs: Vec<(&InputName, &InputDigest)> = inputs.iter().collect();
        Ok(Self {
            state,
            compiled_at: 0,
            milliseconds: 0,
            cause: String::new(),
            failure: None,
            catalog: None,
            warnings: Vec::new(),
            externals: Vec::new(),
            wholes: Vec::new(),
            inputs: compress_json(&inputs)?,
        })
    }

    /// What the compile read.
    pub fn inputs(&self) -> Result<CompileInputs, CompressedJsonError> {
        let inputs: Vec<(InputName, InputDigest)> = decompress_json(&self.inputs, MAX_INPUT_BYTES)?;
        Ok(inputs.into_iter().collect())
    }
}

/// The key of a node's last compile.
pub(crate) fn newest_key(node: &Identity) -> String {
    format!("{NEWEST_PREFIX}{node}")
}
