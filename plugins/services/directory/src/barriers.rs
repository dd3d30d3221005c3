//! Evaluates the conditions of nodes that wait for runs of others: "each other node that matches has finished a run after T". Pure.
//!
//! Only times that nodes state are compared: T of the node that waits, and the end of the last run in the record of each other node.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use muster_contract::again::MAX_MISSING_NAMES;
use muster_filter::NodeFilter;
use muster_wire::Millis;
use muster_wire::identity::Identity;
use tokio::time::Instant;

use crate::liveness::Presence;
use crate::node_barrier::NodeBarrier;
use crate::query::find_nodes;
use crate::selection::DEFAULT_STALE_SECONDS;
use crate::state::DirectoryState;

/// A condition, and the node that waits for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WaitingNode {
    pub(crate) node: Identity,
    /// The collectives of the node, the main one first.
    pub(crate) collectives: Arc<[String]>,
    pub(crate) barrier: NodeBarrier,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum BarrierVerdict {
    /// Each other node that matches has finished a run.
    Holds,
    /// Some have not.
    Missing {
        count: u64,
        /// Names of those whose last run ended first, up to a bound.
        names: Vec<String>,
    },
}

/// The nodes that match a filter, with the ends of their last runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LastRuns(Vec<(Millis, Identity)>);

impl LastRuns {
    /// These nodes; 0 is the end of the last run of one that never ran.
    pub fn new(mut runs: Vec<(Millis, Identity)>) -> Self {
        runs.sort_unstable();
        Self(runs)
    }

    /// Whether each node but `waiting` has finished a run after `after`.
    pub fn evaluate(&self, waiting: &Identity, after: Millis) -> BarrierVerdict {
        let end = self.0.partition_point(|(ended, _)| *ended <= after);
        let earlier = self.0.get(..end).unwrap_or_default();
        let mut others = earlier.iter().map(|(_, node)| node).filter(|node| *node != waiting);
        let names: Vec<String> =
            others.by_ref().take(MAX_MISSING_NAMES).map(Identity::to_string).collect();
        let count = names.len() + others.count();
        if count == 0 {
            return BarrierVerdict::Holds;
        }
        BarrierVerdict::Missing { count: u64::try_from(count).unwrap_or(u64::MAX), names }
    }
}

impl DirectoryState {
    /// Whether all records were read and changes are received, so that no node is left out.
    pub(crate) fn can_evaluate(&self) -> bool {
        self.is_ready && self.listening.is_some()
    }

    /// The conditions of all nodes that are not missing, by their filter.
    pub(crate) fn waiting_nodes(&self, now: Instant) -> BTreeMap<Arc<str>, Vec<WaitingNode>> {
        let mut waiting: BTreeMap<Arc<str>, Vec<WaitingNode>> = BTreeMap::new();
        let nodes = self.table.iter().filter(|node| !node.barriers.is_empty());
        for node in nodes.filter(|node| self.presence(node, now) != Presence::Missing) {
            for barrier in &node.barriers {
                waiting.entry(Arc::clone(&barrier.filter)).or_default().push(WaitingNode {
                    node: node.identity.clone(),
                    collectives: Arc::clone(&node.collectives),
                    barrier: barrier.clone(),
                });
            }
        }
        waiting
    }

    /// The nodes that match a filter; `None` if it is not valid. Nodes that queries leave out, because they were not seen for an hour, do not count.
    pub(crate) fn last_runs(&self, filter: &str, now: Instant) -> Option<LastRuns> {
        let filter: NodeFilter = serde_json::from_str(filter).ok()?;
        let limit = Duration::from_secs(DEFAULT_STALE_SECONDS);
        let nodes = find_nodes(&self.table, &filter).ok()?.into_iter();
        let nodes = nodes.filter(|node| !self.is_stale(node, limit, now));
        Some(LastRuns::new(nodes.map(|node| (node.run_end, node.identity.clone())).collect()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn node(number: u64) -> Identity {
        Identity::parse(&format!("n{number:03}.example.net")).unwrap()
    }

    fn runs(ends: &[(u64, Millis)]) -> LastRuns {
        LastRuns::new(ends.iter().map(|(number, ended)| (*ended, node(*number))).collect())
    }

    fn missing(count: u64, numbers: &[u64]) -> BarrierVerdict {
        let names = numbers.iter().map(|number| node(*number).to_string()).collect();
        BarrierVerdict::Missing { count, names }
    }

    #[test]
    fn condition_holds_when_each_other_node_has_finished_a_run_after_the_time() {
        let fleet = runs(&[(1, 100), (2, 150), (3, 50), (4, 0)]);
        assert_eq!(fleet.evaluate(&node(1), 100), missing(2, &[4, 3]));
        assert_eq!(fleet.evaluate(&node(4), 49), BarrierVerdict::Holds, "not the node itself");
        // A run that ended at the same time did not end after it.
        assert_eq!(runs(&[(1, 100), (2, 100)]).evaluate(&node(1), 100), missing(1, &[2]));
        assert_eq!(runs(&[(1, 100), (2, 101)]).evaluate(&node(1), 100), BarrierVerdict::Holds);
        assert_eq!(runs(&[(1, 100)]).evaluate(&node(1), 100), BarrierVerdict::Holds);
        assert_eq!(runs(&[]).evaluate(&node(1), 100), BarrierVerdict::Holds, "no other node");
    }

    #[test]
    fn names_of_missing_nodes_are_bounded() {
        let ends: Vec<(u64, Millis)> = (0..500).map(|number| (number, number)).collect();
        let first: Vec<u64> = (0..10).collect();
        assert_eq!(runs(&ends).evaluate(&node(499), 1000), missing(499, &first));
        assert_eq!(runs(&ends).evaluate(&node(900), 1000), missing(500, &first));
    }

    proptest! {
        /// The evaluator agrees with the definition, node by node.
        #[test]
        fn verdict_is_the_definition(
            ends in prop::collection::vec(0_u64..50, 0..30),
            waiting in 0_u64..35,
            after in 0_u64..50,
        ) {
            let ends: Vec<(u64, Millis)> = ends.into_iter().enumerate()
                .map(|(number, ended)| (u64::try_from(number).unwrap(), ended)).collect();
            let late: Vec<String> = ends.iter()
                .filter(|(number, ended)| *number != waiting && *ended <= after)
                .map(|(number, _)| node(*number).to_string()).collect();
            match runs(&ends).evaluate(&node(waiting), after) {
                BarrierVerdict::Holds => prop_assert!(late.is_empty()),
                BarrierVerdict::Missing { count, names } => {
                    prop_assert_eq!(count, u64::try_from(late.len()).unwrap());
                    prop_assert_eq!(names.len(), late.len().min(MAX_MISSING_NAMES));
                    prop_assert!(names.iter().all(|name| late.contains(name)));
                }
            }
        }

        /// A later run of another node never makes a condition that holds one that does not.
        #[test]
        fn later_runs_never_take_a_release_back(
            ends in prop::collection::vec(0_u64..50, 1..20),
            which in 0_usize..20,
            later in 0_u64..50,
            after in 0_u64..50,
        ) {
            let mut ends: Vec<(u64, Millis)> = ends.into_iter().enumerate()
                .map(|(number, ended)| (u64::try_from(number).unwrap(), ended)).collect();
            let before = runs(&ends).evaluate(&node(0), after);
            let which = which % ends.len();
            ends[which].1 += later;
            if before == BarrierVerdict::Holds {
                prop_assert_eq!(runs(&ends).evaluate(&node(0), after), BarrierVerdict::Holds);
            }
        }
    }
}
