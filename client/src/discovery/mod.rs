//! Finding nodes: one file for each method, and what all of them have in common. Nothing here prints or starts processes.
//!
//! ```text
//! broadcast   everybody is asked, who matches answers            (the default)
//! flat        a list of names: text, JSON, YAML, earlier answers
//! stdin       the same, from the standard input                  (read by whoever owns it)
//! inventory   a document that describes every node; all filters are evaluated here
//! puppetdb    PuppetDB over HTTP
//! external    a program of yours speaks Choria's protocol         (started by whoever may start processes)
//! ```
//!
//! A method declares what it can answer ([`DiscoveryMethod::supported_conditions`]). What it cannot is refused ([`UnsupportedCondition`]), never
//! ignored: a filter that is not evaluated would aim a request at more nodes than was said.

mod broadcast;
mod document;
pub mod external;
pub mod flat;
pub mod inventory;
mod method;
mod options;
pub mod puppetdb;

use std::collections::BTreeSet;
use std::time::Duration;

use muster_wire::filter::NodeFilter;
use muster_wire::identity::{Identity, SubjectName};

pub use method::{ConditionKind, DiscoveryMethod, DiscoveryMethodError, UnsupportedCondition};
pub use options::{DiscoveryOptionError, DiscoveryOptions, DiscoverySource};

/// When a broadcast that nobody knows the size of is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiscoveryWindow {
    /// This long after the question, if nobody answers.
    pub first: Duration,
    /// This long after the last answer, once there is one.
    pub quiet: Duration,
    /// At most this long after the question, although answers still come.
    pub most: Duration,
}

impl Default for DiscoveryWindow {
    fn default() -> Self {
        Self {
            first: Duration::from_secs(2),
            quiet: Duration::from_millis(300),
            most: Duration::from_secs(10),
        }
    }
}

/// What discovery found.
#[derive(Debug, Clone, Default)]
pub struct DiscoveryResult {
    /// The nodes.
    pub nodes: BTreeSet<Identity>,
    /// How long it took.
    pub took: Duration,
    /// Answers may have been lost: there may be more nodes.
    pub incomplete: bool,
    /// Whether everybody was asked; false when the filter named the nodes.
    pub broadcast: bool,
}

/// Which nodes are looked for, by whatever method.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DiscoveryQuery {
    /// What they must satisfy.
    pub filter: NodeFilter,
    /// Groups of an inventory (`-I group:web`), alternatives to one another and to the filter's identities.
    pub groups: Vec<String>,
    /// Queries for `PuppetDB` (`-I 'pql:nodes[certname] { ... }'`), alternatives in the same way.
    pub pql: Vec<String>,
    /// The collective they must be in, as far as the method knows; any when absent.
    pub collective: Option<SubjectName>,
}

impl DiscoveryQuery {
    /// What kinds of conditions there are.
    pub fn condition_kinds(&self) -> impl Iterator<Item = ConditionKind> {
        let filter = &self.filter;
        [
            (ConditionKind::Facts, filter.facts().is_empty()),
            (ConditionKind::Classes, filter.classes().is_empty()),
            (ConditionKind::Agents, filter.agents().is_empty()),
            (ConditionKind::Identities, filter.identities().is_empty()),
            (ConditionKind::Select, filter.select().is_none()),
            (ConditionKind::Groups, self.groups.is_empty()),
            (ConditionKind::Pql, self.pql.is_empty()),
        ]
        .into_iter()
        .filter_map(|(kind, absent)| (!absent).then_some(kind))
    }

    /// The nodes that are named exactly, if nothing else is said: nobody needs to look for them.
    pub fn exact_nodes(&self) -> Option<BTreeSet<Identity>> {
        if !self.groups.is_empty() || !self.pql.is_empty() {
            return None;
        }
        broadcast::exact_nodes(&self.filter)
    }
}
