//! Order in which nodes run. A pure function of values.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_wire::identity::Identity;

use crate::limit::seeded_hash;

/// An order of nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum RunOrder {
    /// By name.
    #[default]
    Name,
    /// Pseudorandom order by seed; the same seed gives the same order on every machine.
    Random(u64),
    /// Longest last run first, so that no long run starts last and delays the end. Nodes with an unknown duration come first, because they may be
    /// long; ties are sorted by name.
    Longest(BTreeMap<Identity, Duration>),
}

impl RunOrder {
    /// Sorts the nodes.
    pub fn arrange(&self, nodes: &BTreeSet<Identity>) -> Vec<Identity> {
        let mut order: Vec<Identity> = nodes.iter().cloned().collect();
        match self {
            Self::Name => {}
            Self::Random(seed) => order.sort_by_cached_key(|node| seeded_hash(*seed, node)),
            Self::Longest(durations) => {
                order.sort_by_key(|node| {
                    Reverse(durations.get(node).copied().unwrap_or(Duration::MAX))
                });
            }
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use muster_wire::identity::Identity;
    use proptest::prelude::*;

    use super::RunOrder;

    fn nodes(names: &[&str]) -> BTreeSet<Identity> {
        names.iter().map(|name| name.parse().unwrap()).collect()
    }

    fn names(order: &[Identity]) -> Vec<&str> {
        order.iter().map(Identity::as_str).collect()
    }

    #[test]
    fn orders_by_name_at_random_and_by_duration() {
        let all = nodes(&["c", "a", "d", "b"]);
        assert_eq!(names(&RunOrder::Name.arrange(&all)), ["a", "b", "c", "d"]);
        assert_eq!(RunOrder::Random(1).arrange(&all), RunOrder::Random(1).arrange(&all));
        let drawn: BTreeSet<Vec<Identity>> =
            (0..20).map(|seed| RunOrder::Random(seed).arrange(&all)).collect();
        assert!(drawn.len() > 5, "{drawn:?}");
        let took = [("a", 3), ("b", 90), ("d", 3)]
            .map(|(name, seconds)| (name.parse().unwrap(), Duration::from_secs(seconds)));
        let longest = RunOrder::Longest(took.into());
        assert_eq!(names(&longest.arrange(&all)), ["c", "b", "a", "d"]);
    }

    proptest! {
        #[test]
        fn random_order_contains_every_node_once(count in 0_usize..60, seed: u64) {
            let all: BTreeSet<Identity> = (0..count).map(|n| format!("n{n}").parse().unwrap()).collect();
            let order = RunOrder::Random(seed).arrange(&all);
            prop_assert_eq!(order.len(), count);
            prop_assert_eq!(order.into_iter().collect::<BTreeSet<_>>(), all);
        }
    }
}
