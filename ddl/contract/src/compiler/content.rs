//! The files that catalogs and releases name, as the broker stores them.

use muster_base::NodeText;
use muster_ddl::{Action, ActionProperties, EmptyInput};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::CompilerAgent;

/// Most files in one answer.
pub const MAX_LISTED_FILES: usize = 2000;
/// An address.
const ADDRESS_PATTERN: &str = "^[0-9a-f]{64}$";

/// List the stored files that catalogs and releases name.
#[derive(Debug, JsonSchema)]
pub struct CompilerContent;

impl Action for CompilerContent {
    type Agent = CompilerAgent;
    const NAME: &'static str = "content";
    type Input = CompilerContentInput;
    type Output = CompilerContentOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read().timeout(120).examples(include_str!("content.json"))
    }
}

/// Inputs of `content`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct CompilerContentInput {
    /// Files after this address; all if absent.
    #[schemars(length(max = 64), regex(pattern = ADDRESS_PATTERN))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// Outputs of `content`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CompilerContentOutput {
    /// The files in the order of their addresses; at most 2000.
    pub files: Vec<CompilerFileRow>,
    /// The last address of this answer, if there are more.
    pub next: Option<String>,
}

/// A stored file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CompilerFileRow {
    /// Its address, the SHA-256.
    pub file: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// Number of its chunks; 0 for a small file.
    pub chunks: usize,
    /// When it was stored, in milliseconds since the epoch.
    pub stored_at: u64,
}

/// Read all stored files, and compare each byte with the addresses.
#[derive(Debug, JsonSchema)]
pub struct CompilerVerify;

impl Action for CompilerVerify {
    type Agent = CompilerAgent;
    const NAME: &'static str = "verify";
    type Input = EmptyInput;
    type Output = CompilerVerifyOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read().timeout(1800).examples(include_str!("verify.json"))
    }
}

/// Outputs of `verify`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CompilerVerifyOutput {
    /// Number of files that were read.
    pub files: usize,
    /// Number of chunks that were read.
    pub chunks: usize,
    /// Bytes that were read.
    pub bytes: u64,
    /// What is missing or altered; at most 100.
    pub defects: Vec<NodeText>,
    /// Number of defects.
    #[schemars(title = "Defects")]
    pub defects_total: usize,
}

/// Delete releases, catalogs and files that nothing names. Whatever is younger than a day stays.
#[derive(Debug, JsonSchema)]
pub struct CompilerCollect;

impl Action for CompilerCollect {
    type Agent = CompilerAgent;
    const NAME: &'static str = "collect";
    type Input = EmptyInput;
    type Output = CompilerCollectOutput;

    fn properties() -> ActionProperties {
        ActionProperties::change().idempotent().timeout(600).examples(include_str!("collect.json"))
    }
}

/// Outputs of `collect`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CompilerCollectOutput {
    /// Number of deleted releases.
    pub deleted_releases: usize,
    /// Number of deleted catalogs.
    pub deleted_catalogs: usize,
    /// Number of deleted files.
    pub deleted_files: usize,
    /// Deleted bytes of files.
    pub deleted_bytes: u64,
    /// Number of catalogs that stay.
    pub kept_catalogs: usize,
    /// Number of files that stay.
    pub kept_files: usize,
    /// Bytes of files that stay.
    pub kept_bytes: u64,
    /// Files that something names and that are missing or invalid; at most 100. While there are any, no chunk is deleted.
    pub broken: Vec<String>,
}
