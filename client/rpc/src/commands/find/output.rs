//! Renders the names of discovered nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_base::format_duration;
use muster_calls::DiscoveryMethod;
use muster_display::node_count_text;
use muster_wire::identity::Identity;
use serde::Serialize;

/// The sentence that `--verbose` adds.
pub fn discovery_sentence(count: usize, took: Duration, method: DiscoveryMethod) -> String {
    let nodes = node_count_text(count);
    let took = format_duration(took);
    format!("Discovered {nodes} in {took} using the {method} discovery method")
}

/// The document for programs.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct FoundNodesDocument<'a> {
    pub schema: &'static str,
    pub nodes: &'a BTreeSet<Identity>,
    pub incomplete: bool,
    pub method: &'static str,
    /// The nodes that could not evaluate an expression with data sources, and the reasons.
    pub unanswered: &'a BTreeMap<Identity, Vec<String>>,
}

pub const TEMPLATE_NAMES: [&str; 1] = ["node"];
