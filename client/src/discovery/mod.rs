//! Node discovery: one file per method, and the types they share. Nothing here prints or starts processes.
//!
//! ```text
//! auto        the directory if one answers, otherwise broadcast   (the default)
//! directory   what nodes have published about themselves
//! broadcast   broadcast request, matching nodes reply
//! flat        a list of names: text, JSON, YAML, earlier answers
//! stdin       the same, from the standard input                  (read by the caller)
//! inventory   a document that describes every node; all filters are evaluated here
//! puppetdb    PuppetDB over HTTP
//! external    a program that implements Choria's protocol         (started by the caller)
//! ```
//!
//! A method declares which conditions it supports ([`DiscoveryMethod::supported_conditions`]). Other conditions are rejected
//! ([`UnsupportedCondition`]), never ignored: a filter without evaluation would send a request to more nodes than intended.

mod broadcast;
mod document;
pub mod external;
pub mod flat;
pub mod inventory;
mod method;
mod options;
pub mod puppetdb;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_filter::NodeFilter;
use muster_wire::identity::{Identity, SubjectName};

pub use document::DiscoveryDocumentError;
pub use method::{ConditionKind, DiscoveryMethod, DiscoveryMethodError, UnsupportedCondition};
pub use options::{DiscoveryOptionError, DiscoveryOptions, DiscoverySource};

/// Time limits of a broadcast with an unknown number of replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiscoveryWindow {
    /// Wait for the first reply, measured from the request.
    pub initial_wait: Duration,
    /// Wait after the last reply, once there is one.
    pub quiet_time: Duration,
    /// Total wait after the request, even if replies still arrive.
    pub max_wait: Duration,
}

impl Default for DiscoveryWindow {
    fn default() -> Self {
        Self {
            initial_wait: Duration::from_secs(2),
            quiet_time: Duration::from_millis(300),
            max_wait: Duration::from_secs(10),
        }
    }
}

/// Result of a discovery.
#[derive(Debug, Clone, Default)]
pub struct DiscoveryResult {
    /// The nodes.
    pub nodes: BTreeSet<Identity>,
    /// Nodes that replied and refused the request, with their messages: because of a clock, for example. They are not among the nodes.
    pub refusals: BTreeMap<Identity, String>,
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
        broadcast::exact_nodes(&self.filter)
    }
}
