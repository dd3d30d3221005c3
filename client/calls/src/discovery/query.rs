//! What a method is asked for, and what it finds.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_base::NodeText;
use muster_filter::NodeFilter;
use muster_wire::identity::{Identity, SubjectName};

use super::method::ConditionKind;

/// Result of a discovery.
#[derive(Debug, Clone, Default)]
pub struct DiscoveryResult {
    /// The nodes.
    pub nodes: BTreeSet<Identity>,
    /// Nodes that replied and refused the request, with their messages: because of a clock, for example. They are not among the nodes.
    pub refusals: BTreeMap<Identity, NodeText>,
    /// How long it took.
    pub took: Duration,
    /// Replies may have been lost: there may be more nodes.
    pub incomplete: bool,
    /// Whether a broadcast was sent; false when the filter named the nodes.
    pub broadcast: bool,
}

/// A method-independent discovery query.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DiscoveryQuery {
    /// The filter that nodes must match.
    pub filter: NodeFilter,
    /// Groups of an inventory (`-I group:web`); alternatives to each other and to the filter's identities.
    pub groups: Vec<String>,
    /// Queries for `PuppetDB` (`-I 'pql:nodes[certname] { ... }'`); alternatives in the same way.
    pub pql: Vec<String>,
    /// The required collective, if the method has that information; any when absent.
    pub collective: Option<SubjectName>,
}

impl DiscoveryQuery {
    /// The kinds of conditions in the query.
    pub fn condition_kinds(&self) -> impl Iterator<Item = ConditionKind> {
        let filter = &self.filter;
        [
            (ConditionKind::Facts, filter.facts().is_empty()),
            (ConditionKind::Classes, filter.classes().is_empty()),
            (ConditionKind::Agents, filter.agents().is_empty()),
            (ConditionKind::Identities, filter.identities().is_empty()),
            (ConditionKind::Select, filter.select().is_none()),
            (ConditionKind::Query, filter.query().is_none()),
            (ConditionKind::Groups, self.groups.is_empty()),
            (ConditionKind::Pql, self.pql.is_empty()),
        ]
        .into_iter()
        .filter_map(|(kind, absent)| (!absent).then_some(kind))
    }

    /// The nodes of a query that consists only of exact names; these need no discovery.
    pub fn exact_nodes(&self) -> Option<BTreeSet<Identity>> {
        if !self.groups.is_empty() || !self.pql.is_empty() {
            return None;
        }
        exact_nodes(&self.filter)
    }
}

/// The nodes of a filter that consists only of exact identities.
pub(super) fn exact_nodes(filter: &NodeFilter) -> Option<BTreeSet<Identity>> {
    filter.identities_exact()?.into_iter().map(|name| Identity::parse(name).ok()).collect()
}
