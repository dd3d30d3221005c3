//! The agent `directory`: queries over what all nodes publish about themselves.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Most nodes in one answer. Further ones are on the next page.
pub const MAX_PAGE_NODES: usize = 20_000;

/// Inputs of `find`, and the part of `list`, `facets` and `changes` that selects nodes.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DirectoryQueryInput {
    /// The filter as JSON, as in a request; all nodes if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// Paths of facts whose values are returned with each node.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<String>,
    /// Only nodes with names after this one: the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// At most this many nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// Whether to return nodes that were not seen for `stale_seconds`, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stale: Option<bool>,
    /// Nodes that were not seen for this time are stale.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stale_seconds: Option<u64>,
}

/// How current an answer is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DirectoryFreshness {
    /// Whether the instance has read all records once.
    pub ready: bool,
    /// Whether the instance is connected to the records, so that it sees changes at once.
    pub current: bool,
    /// Seconds for which the instance has received all heartbeats. Nodes are reported as missing only after some minutes.
    pub listening_seconds: u64,
}

/// Outputs of `find`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DirectoryFindOutput {
    /// Names of the nodes that match, sorted.
    pub nodes: Vec<String>,
    /// Those of them that are missing.
    pub missing: Vec<String>,
    /// Those of them under whose name two daemons run.
    pub cloned: Vec<String>,
    /// Number of matching nodes on all pages.
    pub total: usize,
    /// Number of matching nodes that are left out because they are stale.
    pub stale: usize,
    /// The name after which the next page begins; absent on the last one.
    pub next: Option<String>,
    /// How current the answer is.
    pub freshness: DirectoryFreshness,
}

/// Outputs of `list`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DirectoryListOutput {
    /// The nodes that match, sorted by name.
    pub nodes: Vec<DirectoryNodeRow>,
    /// Number of matching nodes on all pages.
    pub total: usize,
    /// Number of matching nodes that are left out because they are stale.
    pub stale: usize,
    /// The name after which the next page begins; absent on the last one.
    pub next: Option<String>,
    /// How current the answer is.
    pub freshness: DirectoryFreshness,
}

/// One node in a list.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DirectoryNodeRow {
    /// The name.
    pub node: String,
    /// `present`, `missing`, or `unknown` for some minutes after the start of the instance.
    pub state: String,
    /// Seconds since the instance saw it; absent if it has not yet.
    pub seen: Option<u64>,
    /// When the instance saw it last, by its own clock, in milliseconds since the epoch.
    pub last_seen: Option<u64>,
    /// Version of the daemon.
    pub version: String,
    /// Collectives, the main one first.
    pub collectives: Vec<String>,
    /// Number of classes.
    pub classes: usize,
    /// The values of the requested fields; those that the node does not have are absent.
    pub fields: BTreeMap<String, Value>,
    /// Classes and all facts, if documents were requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub document: Option<DirectoryNodeDocument>,
    /// Why the answer does not have what the node says now: its newest record is refused, or the values do not fit into an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// What queries see of one node besides its name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DirectoryNodeDocument {
    /// Classes, sorted; absent if the node does not know them.
    pub classes: Option<Vec<String>>,
    /// All facts.
    pub facts: Map<String, Value>,
}

/// Inputs of `list`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DirectoryListInput {
    /// Whether to return the classes and all facts of each node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub documents: Option<bool>,
    /// Which nodes.
    #[serde(flatten)]
    pub query: DirectoryQueryInput,
}

/// Inputs of `show`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct DirectoryShowInput {
    /// The node.
    pub node: String,
    /// Whether to return the record as the node signed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<bool>,
}

/// Outputs of `show`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DirectoryShowOutput {
    /// The node, as in a list.
    pub node: DirectoryNodeRow,
    /// Classes, sorted; absent if the node does not know them.
    pub classes: Option<Vec<String>>,
    /// Versions of agents, by name.
    pub agents: BTreeMap<String, String>,
    /// All facts.
    pub facts: Map<String, Value>,
    /// State of subsystems.
    pub state: Map<String, Value>,
    /// Host keys of sshd.
    pub ssh_host_keys: Vec<String>,
    /// When the node made its record, by its own clock, in milliseconds since the epoch.
    pub record_time: u64,
    /// Revision of the record in the bucket.
    pub revision: u64,
    /// The record as the node signed it, if it was requested.
    pub record: Option<String>,
    /// How current the answer is.
    pub freshness: DirectoryFreshness,
}

/// Inputs of `forget`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct DirectoryForgetInput {
    /// The node.
    pub node: String,
}

/// Outputs of `forget`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DirectoryForgetOutput {
    /// The node.
    pub node: String,
    /// Revision of the record that is left out from now on.
    pub revision: u64,
}

/// Outputs of `facets`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DirectoryFacetsOutput {
    /// The values, the most frequent first.
    pub values: Vec<DirectoryFacet>,
    /// Number of nodes without a value at the path.
    pub absent: u64,
    /// Number of distinct values; `values` has at most 1,000.
    pub distinct: usize,
    /// Number of nodes.
    pub total: usize,
    /// How current the answer is.
    pub freshness: DirectoryFreshness,
}

/// A value and how many nodes have it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DirectoryFacet {
    /// The value.
    pub value: Value,
    /// Number of nodes.
    pub nodes: u64,
}

/// Outputs of `changes`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DirectoryChangesOutput {
    /// Nodes that have changed and match.
    pub nodes: Vec<DirectoryNodeRow>,
    /// Nodes that have changed and do not match, whether they did before or not.
    pub gone: Vec<String>,
    /// Where the next request continues.
    pub cursor: String,
    /// The cursor was absent, too old, or of another run of the instance: changes are unknown. List the nodes, and continue with the new cursor.
    pub reset: bool,
    /// How current the answer is.
    pub freshness: DirectoryFreshness,
}

/// Outputs of `status`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DirectoryStatusOutput {
    /// Number of nodes.
    pub nodes: usize,
    /// Number of missing nodes.
    pub missing: usize,
    /// Number of distinct values of facts.
    pub values: usize,
    /// Bytes of these values.
    pub value_bytes: usize,
    /// Records that were refused since the start.
    pub refused: u64,
    /// How current the instance is.
    pub freshness: DirectoryFreshness,
}
