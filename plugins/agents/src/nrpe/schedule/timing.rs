//! When checks run: intervals, and their spread over the nodes. Pure.

use muster_api::wire::Millis;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckTiming {
    /// Time between two runs; at least 1 ms.
    pub interval_millis: Millis,
    /// Time between two runs while the state is soft.
    pub retry_millis: Millis,
    /// Time of a run within the interval: the splay of node and check.
    pub phase_millis: Millis,
    /// Whether the first run waits for this time.
    pub is_splayed: bool,
}

/// The time of the runs of a check within its interval: different on each node and for each check, and the same after every start. FNV-1a, because it must
/// be the same in all versions.
pub fn splay_millis(node: &str, check: &str, interval: Millis) -> Millis {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    let bytes = node.bytes().chain([0]).chain(check.bytes());
    let hash = bytes.fold(OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME));
    // The low bits of FNV depend on few input bits; mix the high ones in.
    let mixed = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)) % interval.max(1)
}

/// The first time after `now` that is `phase` after a multiple of the interval.
pub fn next_slot(now: Millis, interval: Millis, phase: Millis) -> Millis {
    let interval = interval.max(1);
    let phase = phase % interval;
    let since = (now % interval + interval - phase) % interval;
    now.saturating_add(interval - since)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{next_slot, splay_millis};

    #[test]
    fn thousand_nodes_are_spread_evenly() {
        let interval = 60_000;
        let mut seconds = [0_u32; 60];
        for node in 0..1000 {
            let phase = splay_millis(&format!("web{node}.example.net"), "load", interval);
            seconds[usize::try_from(phase / 1000).unwrap()] += 1;
        }
        let (most, least) = (seconds.iter().max().unwrap(), seconds.iter().min().unwrap());
        // 16.7 on average.
        assert!(*most <= 35 && *least >= 4, "{seconds:?}");
        // Checks of one node are spread, too, and the values are stable.
        let phases: std::collections::BTreeSet<_> =
            ["load", "disk", "procs"].map(|check| splay_millis("web1", check, interval)).into();
        assert_eq!(phases.len(), 3);
    }

    proptest! {
        #[test]
        fn slots_are_one_interval_apart(now in 0_u64..1 << 45, interval in 1_u64..1 << 30, phase in 0_u64..1 << 45) {
            let next = next_slot(now, interval, phase);
            prop_assert!(next > now && next - now <= interval);
            prop_assert_eq!(next % interval, phase % interval);
            prop_assert_eq!(next_slot(next, interval, phase), next + interval);
        }

        #[test]
        fn splay_is_within_the_interval(node in ".{0,20}", check in ".{0,20}", interval in 0_u64..1 << 40) {
            prop_assert!(splay_millis(&node, &check, interval) < interval.max(1));
        }
    }
}
