//! The agent `filecopy`: files that are copied to and from a node in parts.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum size of a part that is written, in bytes: as base64, and with its envelope, it fits into a request.
pub const MAX_CHUNK_BYTES: u64 = 512 * 1024;
/// Maximum size of a part that is read, in bytes: as base64 it fits into the reply of a node with the default limits.
pub const MAX_READ_BYTES: u64 = 256 * 1024;
/// Maximum number of ranges of missing parts in a reply; the rest is one range.
pub const MAX_MISSING_RANGES: usize = 256;

/// Encodes the bytes of a part as text.
pub fn encode_chunk(bytes: &[u8]) -> String {
    BASE64_STANDARD.encode(bytes)
}

/// Decodes the text of a part; `None` if it is not base64.
pub fn decode_chunk(text: &str) -> Option<Vec<u8>> {
    BASE64_STANDARD.decode(text).ok()
}

/// Inputs of `begin`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct FilecopyBeginInput {
    /// The target: an absolute path.
    pub path: String,
    /// Size of the file in bytes.
    pub size: u64,
    /// SHA-256 of the file, in hexadecimal digits.
    pub sha256: String,
    /// Size of each part but the last, in bytes.
    pub chunk_bytes: u64,
    /// Mode of the target, in octal. If absent, an existing target keeps its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Mode of a target that does not exist yet, in octal, if `mode` is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_mode: Option<String>,
    /// Owner of the target, a name or a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Group of the target, a name or a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
}

/// Outputs of `begin`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FilecopyBeginOutput {
    /// `unchanged`, `attributes` if only mode, owner or group were changed, or `ready` for the parts.
    pub state: String,
    /// The target, with links resolved.
    pub path: String,
    /// The handle of the copy, for the other actions; empty unless `ready`.
    pub transfer: String,
    /// Number of parts that are missing.
    pub missing_chunks: u64,
    /// The missing parts as ranges of numbers, first and last.
    pub missing: Vec<(u64, u64)>,
}

/// The states of [`FilecopyBeginOutput`].
pub mod begin_state {
    /// The target has this content and these attributes.
    pub const UNCHANGED: &str = "unchanged";
    /// The target had this content; its attributes were set.
    pub const ATTRIBUTES: &str = "attributes";
    /// The node waits for the parts.
    pub const READY: &str = "ready";
}

/// Inputs of `write`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct FilecopyWriteInput {
    /// The handle of the copy.
    pub transfer: String,
    /// Number of the part, from 0.
    pub index: u64,
    /// The bytes of the part, in base64.
    pub content: String,
}

/// Outputs of `write`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FilecopyWriteOutput {
    /// The number of the part.
    pub index: u64,
}

/// Inputs of `finish` and `abort`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct FilecopyTransferInput {
    /// The handle of the copy.
    pub transfer: String,
}

/// Outputs of `finish`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FilecopyFinishOutput {
    /// The target, with links resolved.
    pub path: String,
    /// Size of the target in bytes.
    pub size: u64,
    /// SHA-256 of the target, in hexadecimal digits.
    pub sha256: String,
}

/// Outputs of `abort`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FilecopyAbortOutput {
    /// Whether there was such a copy.
    pub removed: bool,
}

/// Inputs of `inspect`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct FilecopyInspectInput {
    /// The file: an absolute path.
    pub path: String,
}

/// Outputs of `inspect`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FilecopyInspectOutput {
    /// The file, with links resolved.
    pub path: String,
    /// Size in bytes.
    pub size: u64,
    /// SHA-256, in hexadecimal digits.
    pub sha256: String,
    /// Permissions, in octal.
    pub mode: String,
    /// Identifies the content: it changes when the file is written or replaced.
    pub version: String,
}

/// Inputs of `read`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct FilecopyReadInput {
    /// The file: an absolute path.
    pub path: String,
    /// The version of `inspect`; the read fails if the file has another one.
    pub version: String,
    /// Start in bytes.
    pub offset: u64,
    /// Number of bytes; the node sends at most [`MAX_READ_BYTES`].
    pub bytes: u64,
}

/// Outputs of `read`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FilecopyReadOutput {
    /// The bytes, in base64.
    pub content: String,
    /// Number of bytes.
    pub bytes: u64,
}
