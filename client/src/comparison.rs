//! Compares what the directory says of the fleet with what the nodes themselves answer. The comparison is pure.

use std::collections::{BTreeMap, BTreeSet};

use muster_filter::NodeFilter;
use muster_wire::identity::Identity;

use crate::directory::{NodeListOptions, list_registered};
use crate::error::FleetRequestError;
use crate::fleet::FleetConnection;
use crate::observer::RequestObserver;
use crate::ping::list_answering;
use crate::target::TargetSelection;

/// The state of nodes that have sent no heartbeat for two intervals.
const MISSING_STATE: &str = "missing";

/// The directory's answer and that of the nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DiscoveryAnswers {
    /// The nodes that match according to the directory, and whether it regards them as missing.
    pub registered: BTreeMap<Identity, bool>,
    /// All nodes that the directory knows.
    pub known: BTreeSet<Identity>,
    /// The nodes that answered that they match.
    pub matching: BTreeSet<Identity>,
    /// The nodes that answered a request to all.
    pub answering: BTreeSet<Identity>,
}

/// The differences.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DiscoveryDifferences {
    /// Registered as present, and did not answer.
    pub silent: BTreeSet<Identity>,
    /// Answered, and the directory does not know them.
    pub unregistered: BTreeSet<Identity>,
    /// Answered, and the directory regards them as missing.
    pub not_missing: BTreeSet<Identity>,
    /// Match according to the directory, and answered that they do not.
    pub directory_only: BTreeSet<Identity>,
    /// Answered that they match, and do not according to the directory.
    pub nodes_only: BTreeSet<Identity>,
}

impl DiscoveryAnswers {
    /// What differs. A node that is missing and silent is no difference.
    pub fn differences(&self) -> DiscoveryDifferences {
        let registered = |is_missing: bool| {
            let nodes = self.registered.iter().filter(move |(_, missing)| **missing == is_missing);
            nodes.map(|(node, _)| node.clone())
        };
        let is_answering = |node: &Identity| self.answering.contains(node);
        let answered = self.registered.keys().filter(|node| is_answering(node));
        DiscoveryDifferences {
            silent: registered(false).filter(|node| !is_answering(node)).collect(),
            unregistered: self.matching.difference(&self.known).cloned().collect(),
            not_missing: registered(true).filter(is_answering).collect(),
            directory_only: answered
                .filter(|node| !self.matching.contains(*node))
                .cloned()
                .collect(),
            nodes_only: self
                .matching
                .iter()
                .filter(|node| self.known.contains(*node) && !self.registered.contains_key(*node))
                .cloned()
                .collect(),
        }
    }
}

impl DiscoveryDifferences {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Asks the directory and, by broadcast, all nodes.
pub async fn ask_both(
    fleet: &FleetConnection,
    target: &TargetSelection,
    observer: &dyn RequestObserver,
) -> Result<DiscoveryAnswers, FleetRequestError> {
    let options = NodeListOptions { fields: &[], with_stale: true, with_documents: false };
    let mut all = target.clone();
    all.filter = NodeFilter::default();
    let list = list_registered(fleet, target, options).await?.into_ready()?;
    let registered = list
        .nodes
        .into_iter()
        .filter_map(|row| Some((Identity::parse(&row.node).ok()?, row.state == MISSING_STATE)));
    let registered: BTreeMap<Identity, bool> = registered.collect();
    let matching = list_answering(fleet, target, observer).await?.nodes;
    let (known, answering) = if target.filter.is_empty() {
        (registered.keys().cloned().collect(), matching.clone())
    } else {
        let list = list_registered(fleet, &all, options).await?;
        let known = list.nodes.into_iter().filter_map(|row| Identity::parse(&row.node).ok());
        (known.collect(), list_answering(fleet, &all, observer).await?.nodes)
    };
    Ok(DiscoveryAnswers { registered, known, matching, answering })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> BTreeSet<Identity> {
        names.iter().map(|name| Identity::parse(name).unwrap()).collect()
    }

    #[test]
    fn each_difference_has_its_kind() {
        let registered =
            [("both", false), ("silent", false), ("down", true), ("up", true), ("old", false)];
        let answers = DiscoveryAnswers {
            registered: registered
                .map(|(name, missing)| (Identity::parse(name).unwrap(), missing))
                .into(),
            known: names(&["both", "silent", "down", "up", "old", "changed"]),
            matching: names(&["both", "up", "changed", "new"]),
            answering: names(&["both", "up", "changed", "new", "old", "other"]),
        };
        let expected = DiscoveryDifferences {
            silent: names(&["silent"]),
            unregistered: names(&["new"]),
            not_missing: names(&["up"]),
            directory_only: names(&["old"]),
            nodes_only: names(&["changed"]),
        };
        assert_eq!(answers.differences(), expected);
        let equal = DiscoveryAnswers {
            registered: [(Identity::parse("both").unwrap(), false)].into(),
            ..DiscoveryAnswers {
                known: names(&["both"]),
                matching: names(&["both"]),
                answering: names(&["both"]),
                ..DiscoveryAnswers::default()
            }
        };
        assert!(equal.differences().is_empty());
    }
}
