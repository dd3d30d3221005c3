//! Limits a set of nodes to a count or percentage: the first by name, or a random selection by seed.
//!
//! ```
//! use muster_calls::{CountOrPercent, choose_nodes};
//!
//! let nodes = ["a", "b", "c", "d"].map(|name| name.parse().unwrap()).into();
//! let half: CountOrPercent = "50%".parse().unwrap();
//! assert_eq!(choose_nodes(&nodes, half, None).len(), 2);
//! ```

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use muster_wire::identity::Identity;

/// A number of nodes, or a percentage of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CountOrPercent {
    /// Number of nodes.
    Count(usize),
    /// Percentage of nodes; at most 100.
    Percent(u8),
}

/// A text that is not a number or percentage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected a number of nodes, such as `10`, or a percentage, such as `10%`")]
pub struct CountOrPercentError;

impl CountOrPercent {
    /// The number of nodes out of `total`, for a selection: a percentage is rounded up, so that it never selects zero nodes of a non-empty set.
    pub fn count_rounded_up(self, total: usize) -> usize {
        match self {
            Self::Count(count) => count.min(total),
            Self::Percent(percent) => percent_of(percent, total, 99),
        }
    }

    /// The number of nodes out of `total`, for a limit: a percentage is rounded down, so that the limit is never exceeded.
    pub fn count_rounded_down(self, total: usize) -> usize {
        match self {
            Self::Count(count) => count.min(total),
            Self::Percent(percent) => percent_of(percent, total, 0),
        }
    }

    /// Whether this is zero for any total.
    pub fn is_zero(self) -> bool {
        matches!(self, Self::Count(0) | Self::Percent(0))
    }
}

/// Computed in 128 bits, which cannot overflow; the result never exceeds `total`.
fn percent_of(percent: u8, total: usize, carry: u128) -> usize {
    let part = (total as u128 * u128::from(percent) + carry) / 100;
    usize::try_from(part).unwrap_or(total).min(total)
}

impl FromStr for CountOrPercent {
    type Err = CountOrPercentError;

    fn from_str(text: &str) -> Result<Self, CountOrPercentError> {
        let part = text.strip_suffix('%');
        let digits = part.unwrap_or(text);
        // Rust's integer parser also accepts a sign, so require digits.
        if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(CountOrPercentError);
        }
        if part.is_some() {
            let percent = digits.parse().map_err(|_| CountOrPercentError)?;
            return (percent <= 100).then_some(Self::Percent(percent)).ok_or(CountOrPercentError);
        }
        digits.parse().map(Self::Count).map_err(|_| CountOrPercentError)
    }
}

impl fmt::Display for CountOrPercent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => write!(f, "{count}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

/// Selects nodes: the first by name, or with a seed a pseudorandom selection. The same seed selects the same nodes on every machine and in every
/// version; adding or removing a node does not change the order of the others.
pub fn choose_nodes(
    nodes: &BTreeSet<Identity>,
    amount: CountOrPercent,
    seed: Option<u64>,
) -> BTreeSet<Identity> {
    let count = amount.count_rounded_up(nodes.len());
    let mut order: Vec<&Identity> = nodes.iter().collect();
    if let Some(seed) = seed {
        order.sort_by_cached_key(|node| seeded_hash(seed, node));
    }
    order.into_iter().take(count).cloned().collect()
}

/// Pseudorandom sort key of a node for a seed: FNV-1a of the seed and the name, mixed as splitmix64 does. Not for security.
pub(crate) fn seeded_hash(seed: u64, node: &Identity) -> u64 {
    let bytes = seed.to_le_bytes().into_iter().chain(node.as_str().bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use muster_wire::identity::Identity;
    use proptest::prelude::*;

    use super::{CountOrPercent, choose_nodes};

    fn nodes(count: usize) -> BTreeSet<Identity> {
        (0..count).map(|n| format!("n{n:03}").parse().unwrap()).collect()
    }

    #[test]
    fn amounts_are_counts_or_percentages() {
        assert_eq!("10".parse(), Ok(CountOrPercent::Count(10)));
        assert_eq!("10%".parse(), Ok(CountOrPercent::Percent(10)));
        for text in ["", "%", "-1", "+1", "1.5", "101%", "10 %", "a", "99999999999999999999999"] {
            assert!(text.parse::<CountOrPercent>().is_err(), "{text}");
        }
    }

    #[test]
    fn percentages_are_rounded_up_for_nodes_and_down_for_failures() {
        let five = CountOrPercent::Percent(5);
        assert_eq!((five.count_rounded_up(10), five.count_rounded_down(10)), (1, 0));
        assert_eq!((five.count_rounded_up(40), five.count_rounded_down(40)), (2, 2));
        assert_eq!(
            (
                CountOrPercent::Percent(100).count_rounded_up(7),
                CountOrPercent::Count(9).count_rounded_up(7)
            ),
            (7, 7)
        );
        assert_eq!((CountOrPercent::Percent(1).count_rounded_up(usize::MAX)), usize::MAX / 100 + 1);
    }

    #[test]
    fn first_nodes_are_chosen_without_a_seed() {
        assert_eq!(choose_nodes(&nodes(9), CountOrPercent::Count(3), None), nodes(3));
    }

    #[test]
    fn seed_chooses_the_same_nodes_in_every_version() {
        let drawn = choose_nodes(&nodes(100), CountOrPercent::Count(3), Some(7));
        let names: Vec<&str> = drawn.iter().map(Identity::as_str).collect();
        assert_eq!(names, ["n028", "n043", "n052"]);
        assert_ne!(drawn, choose_nodes(&nodes(100), CountOrPercent::Count(3), Some(8)));
    }

    proptest! {
        #[test]
        fn chosen_nodes_are_a_subset(total in 0_usize..60, count in 0_usize..80, seed: Option<u64>) {
            let all = nodes(total);
            let chosen = choose_nodes(&all, CountOrPercent::Count(count), seed);
            prop_assert_eq!(chosen.len(), count.min(total));
            prop_assert!(chosen.is_subset(&all));
        }

        #[test]
        fn removing_a_node_replaces_at_most_one_choice(seed: u64, gone in 0_usize..40) {
            let all = nodes(40);
            let mut fewer = all.clone();
            fewer.remove(&format!("n{gone:03}").parse::<Identity>().unwrap());
            let before = choose_nodes(&all, CountOrPercent::Count(10), Some(seed));
            let after = choose_nodes(&fewer, CountOrPercent::Count(10), Some(seed));
            prop_assert!(before.difference(&after).count() <= 1);
        }

        #[test]
        fn amounts_round_trip_through_text(count: usize, percent in 0_u8..=100) {
            for amount in [CountOrPercent::Count(count), CountOrPercent::Percent(percent)] {
                prop_assert_eq!(amount.to_string().parse(), Ok(amount));
            }
        }
    }
}
