//! The rows of answers about compiles.

use muster_base::NodeText;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The last compile of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CompilerNodeRow {
    /// The node.
    pub node: String,
    /// `compiled`, `failed`, or `never` compiled.
    pub state: NodeText,
    /// Whether it waits for a compile (`waiting`), or is compiled now (`compiling`); absent otherwise.
    pub queued: Option<NodeText>,
    /// The environment.
    pub environment: Option<NodeText>,
    /// The code of the last compile: a commit, or the digest of a directory.
    pub code: Option<NodeText>,
    /// The address of the newest catalog. After a failure, that of the last compile that succeeded.
    pub catalog: Option<String>,
    /// When it was compiled last, in milliseconds since the epoch.
    pub compiled_at: Option<u64>,
    /// Why the last compile failed.
    pub failure: Option<CompilerMessageRow>,
}

/// A message of Puppet, with its place.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CompilerMessageRow {
    /// `warning`, `err` and so on; absent if a compile failed.
    pub level: Option<NodeText>,
    /// The text.
    pub message: NodeText,
    /// The file, in the environment.
    pub file: Option<NodeText>,
    /// The line.
    pub line: Option<u64>,
}

/// One thing that a compile read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CompilerInputRow {
    /// `fact`, `trusted`, `server_fact`, `file`, `data` or `query`.
    pub kind: NodeText,
    /// The path of a value or a file, the key of data, or the query.
    pub name: NodeText,
    /// Whether it differs from what was read.
    pub changed: bool,
}

/// What was read, and where.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CompilerReadRow {
    /// What.
    pub what: NodeText,
    /// File and line.
    pub place: NodeText,
}

/// One environment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CompilerEnvironmentRow {
    /// The name.
    pub name: NodeText,
    /// The code that is compiled: a commit, or the digest of a directory; absent until it was read once.
    pub code: Option<NodeText>,
    /// Whether a person chose the commit, so that newer ones of the branch change nothing.
    pub pinned: bool,
    /// Number of its nodes.
    pub nodes: usize,
    /// How many are compiled.
    pub compiled: usize,
    /// How many failed to compile.
    pub failed: usize,
    /// How many were never compiled.
    pub never: usize,
    /// How many wait for a compile.
    pub waiting: usize,
    /// Why the code cannot be read.
    pub problem: Option<NodeText>,
}
