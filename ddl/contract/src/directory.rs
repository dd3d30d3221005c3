//! The agent `directory`: queries over what all nodes publish about themselves.

mod node;

use muster_ddl::{Action, ActionList, ActionProperties, AgentContract, EmptyInput};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use node::{
    DirectoryForget, DirectoryForgetInput, DirectoryForgetOutput, DirectoryNodeDocument,
    DirectoryNodeRow, DirectoryShow, DirectoryShowInput, DirectoryShowOutput,
};

/// Most nodes in one answer. Further ones are on the next page.
pub const MAX_PAGE_NODES: usize = 20_000;

/// Any text.
const TEXT_PATTERN: &str = ".";

/// What all nodes publish about themselves: find, list and count nodes, also those that are down.
#[derive(Debug, JsonSchema)]
pub struct DirectoryAgent;

impl AgentContract for DirectoryAgent {
    const NAME: &'static str = "directory";
    const TIMEOUT: u64 = 30;
    const DEFAULT_ACTION: Option<&'static str> = Some("status");

    fn list_actions(list: &mut impl ActionList) {
        list.add::<DirectoryFind>()
            .add::<DirectoryList>()
            .add::<DirectoryShow>()
            .add::<DirectoryFacets>()
            .add::<DirectoryChanges>()
            .add::<DirectoryForget>()
            .add::<DirectoryStatus>();
    }
}

/// Find the names of nodes.
#[derive(Debug, JsonSchema)]
pub struct DirectoryFind;

impl Action for DirectoryFind {
    type Agent = DirectoryAgent;
    const NAME: &'static str = "find";
    type Input = DirectoryQueryInput;
    type Output = DirectoryFindOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read().examples(include_str!("directory/find.json"))
    }
}

/// Inputs of `find`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DirectoryQueryInput {
    /// The filter as JSON, as in a request.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 65_536), regex(pattern = TEXT_PATTERN))]
    pub filter: Option<String>,
    /// Paths of facts, or of states as state.puppet.disabled, whose values are returned with each node, at most 32.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<String>,
    /// Only nodes with names after this one: the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253), regex(pattern = TEXT_PATTERN))]
    pub after: Option<String>,
    /// At most this many nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// Return nodes that were not seen for stale_seconds, too.
    #[expect(clippy::doc_markdown, reason = "callers see this text without markup")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stale: Option<bool>,
    /// Nodes that were not seen for this many seconds are stale.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(title = "Stale after")]
    pub stale_seconds: Option<u64>,
}

/// Outputs of `find`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DirectoryFindOutput {
    /// Names of the nodes that match, sorted.
    pub nodes: Vec<String>,
    /// Those of them that have sent no heartbeat for two intervals.
    pub missing: Vec<String>,
    /// Those of them under whose name two daemons with the same key run.
    pub cloned: Vec<String>,
    /// Number of matching nodes on all pages.
    pub total: usize,
    /// Number of matching nodes that are left out because they are stale.
    pub stale: usize,
    /// The name after which the next page begins; absent on the last one.
    pub next: Option<String>,
    /// How current the answer is: whether the instance has read all records, is connected, and for how many seconds it has received heartbeats.
    pub freshness: DirectoryFreshness,
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

/// List nodes with some of their facts.
#[derive(Debug, JsonSchema)]
pub struct DirectoryList;

impl Action for DirectoryList {
    type Agent = DirectoryAgent;
    const NAME: &'static str = "list";
    type Input = DirectoryListInput;
    type Output = DirectoryListOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read().examples(include_str!("directory/list.json"))
    }
}

/// Inputs of `list`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DirectoryListInput {
    /// The filter as JSON, as in a request.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 65_536), regex(pattern = TEXT_PATTERN))]
    pub filter: Option<String>,
    /// Paths of facts, or of states as state.puppet.disabled, whose values are returned with each node, at most 32.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<String>,
    /// Return the classes and all facts of each node, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub documents: Option<bool>,
    /// Only nodes with names after this one: the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253), regex(pattern = TEXT_PATTERN))]
    pub after: Option<String>,
    /// At most this many nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// Return nodes that were not seen for stale_seconds, too.
    #[expect(clippy::doc_markdown, reason = "callers see this text without markup")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stale: Option<bool>,
    /// Nodes that were not seen for this many seconds are stale.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(title = "Stale after")]
    pub stale_seconds: Option<u64>,
}

impl DirectoryListInput {
    /// Which nodes, as `find` gets them, and whether with their documents.
    pub fn into_query(self) -> (DirectoryQueryInput, bool) {
        let Self { filter, fields, documents, after, limit, stale, stale_seconds } = self;
        let query = DirectoryQueryInput { filter, fields, after, limit, stale, stale_seconds };
        (query, documents == Some(true))
    }
}

/// Outputs of `list`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DirectoryListOutput {
    /// The nodes: name, state, seconds since they were seen, version, collectives, number of classes, the requested fields, and the document if it was requested.
    pub nodes: Vec<DirectoryNodeRow>,
    /// Number of matching nodes on all pages.
    pub total: usize,
    /// Number of matching nodes that are left out because they are stale.
    pub stale: usize,
    /// The name after which the next page begins; absent on the last one.
    pub next: Option<String>,
    /// How current the answer is: whether the instance has read all records, is connected, and for how many seconds it has received heartbeats.
    pub freshness: DirectoryFreshness,
}

/// Count the values of a fact.
#[derive(Debug, JsonSchema)]
pub struct DirectoryFacets;

impl Action for DirectoryFacets {
    type Agent = DirectoryAgent;
    const NAME: &'static str = "facets";
    type Input = DirectoryFacetsInput;
    type Output = DirectoryFacetsOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read().examples(include_str!("directory/facets.json"))
    }
}

/// Inputs of `facets`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DirectoryFacetsInput {
    /// Path of the fact, or of a state as state.puppet.disabled.
    #[schemars(length(max = 1024), regex(pattern = TEXT_PATTERN))]
    pub path: String,
    /// The filter as JSON, as in a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 65_536), regex(pattern = TEXT_PATTERN))]
    pub filter: Option<String>,
    /// Only nodes with names after this one: the next page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253), regex(pattern = TEXT_PATTERN))]
    pub after: Option<String>,
    /// At most this many nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// Return nodes that were not seen for stale_seconds, too.
    #[expect(clippy::doc_markdown, reason = "callers see this text without markup")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stale: Option<bool>,
    /// Nodes that were not seen for this many seconds are stale.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(title = "Stale after")]
    pub stale_seconds: Option<u64>,
}

impl DirectoryFacetsInput {
    /// The path, and which nodes, as `find` gets them.
    pub fn into_query(self) -> (String, DirectoryQueryInput) {
        let Self { path, filter, after, limit, stale, stale_seconds } = self;
        let fields = Vec::new();
        (path, DirectoryQueryInput { filter, fields, after, limit, stale, stale_seconds })
    }
}

/// Outputs of `facets`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DirectoryFacetsOutput {
    /// The values with their number of nodes, the most frequent first; at most 1,000.
    pub values: Vec<DirectoryFacet>,
    /// Number of nodes without a value at the path.
    pub absent: u64,
    /// Number of distinct values.
    pub distinct: usize,
    /// Number of matching nodes on all pages.
    pub total: usize,
    /// How current the answer is: whether the instance has read all records, is connected, and for how many seconds it has received heartbeats.
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

/// Wait for changes of the nodes that match.
#[derive(Debug, JsonSchema)]
pub struct DirectoryChanges;

impl Action for DirectoryChanges {
    type Agent = DirectoryAgent;
    const NAME: &'static str = "changes";
    type Input = DirectoryChangesInput;
    type Output = DirectoryChangesOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read().examples(include_str!("directory/changes.json"))
    }
}

/// Inputs of `changes`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DirectoryChangesInput {
    /// Where an earlier answer of the same instance ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), regex(pattern = TEXT_PATTERN))]
    pub cursor: Option<String>,
    /// Wait at most this many seconds for a change, up to 20.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<u64>,
    /// The filter as JSON, as in a request.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 65_536), regex(pattern = TEXT_PATTERN))]
    pub filter: Option<String>,
    /// Paths of facts, or of states as state.puppet.disabled, whose values are returned with each node, at most 32.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<String>,
}

/// Outputs of `changes`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DirectoryChangesOutput {
    /// Nodes that have changed and match.
    pub nodes: Vec<DirectoryNodeRow>,
    /// Nodes that have changed and do not match.
    pub gone: Vec<String>,
    /// Where the next request continues.
    pub cursor: String,
    /// Whether the changes are unknown, because the cursor was absent, too old, or of another run of the instance: list the nodes, and continue with the new cursor.
    pub reset: bool,
    /// How current the answer is: whether the instance has read all records, is connected, and for how many seconds it has received heartbeats.
    pub freshness: DirectoryFreshness,
}

/// Show how many nodes an instance knows, and how current it is.
#[derive(Debug, JsonSchema)]
pub struct DirectoryStatus;

impl Action for DirectoryStatus {
    type Agent = DirectoryAgent;
    const NAME: &'static str = "status";
    type Input = EmptyInput;
    type Output = DirectoryStatusOutput;

    fn properties() -> ActionProperties {
        ActionProperties::read().examples(include_str!("directory/status.json"))
    }
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
    #[schemars(title = "Value bytes")]
    pub value_bytes: usize,
    /// Records that were refused since the start.
    pub refused: u64,
    /// How current the answer is: whether the instance has read all records, is connected, and for how many seconds it has received heartbeats.
    pub freshness: DirectoryFreshness,
}
