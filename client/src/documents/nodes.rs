//! Documents of what the directory knows.

use muster_contract::directory::{DirectoryFacetsOutput, DirectoryNodeRow};
use schemars::JsonSchema;
use serde::Serialize;

use crate::directory::RegisteredNodeList;

/// The document of `rpc nodes -j`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RegisteredNodesDocument<'a> {
    schema: &'static str,
    nodes: &'a [DirectoryNodeRow],
    stale: usize,
    current: bool,
}

impl<'a> RegisteredNodesDocument<'a> {
    /// The document of a list.
    pub fn new(list: &'a RegisteredNodeList) -> Self {
        Self {
            schema: "muster.registered-nodes.v1",
            nodes: &list.nodes,
            stale: list.stale,
            current: list.freshness.current,
        }
    }
}

/// The document of `rpc nodes --facets -j`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RegisteredFacetsDocument<'a> {
    schema: &'static str,
    fact: &'a str,
    #[serde(flatten)]
    output: &'a DirectoryFacetsOutput,
}

impl<'a> RegisteredFacetsDocument<'a> {
    /// The document of the values of a fact.
    pub fn new(fact: &'a str, output: &'a DirectoryFacetsOutput) -> Self {
        Self { schema: "muster.registered-facets.v1", fact, output }
    }
}
