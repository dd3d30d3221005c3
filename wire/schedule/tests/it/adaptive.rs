//! The limit that follows health: additive increase, multiplicative decrease.

use muster_schedule::{AdaptiveLimit, HealthSample, HealthTarget};
use proptest::prelude::*;

const TARGET: HealthTarget = HealthTarget { latency: 1000, errors: 2 };
const GOOD: HealthSample = HealthSample { latency: 500, errors: 0 };
const SLOW: HealthSample = HealthSample { latency: 1001, errors: 0 };

#[test]
fn limit_grows_by_one_while_all_is_well() {
    let mut limit = AdaptiveLimit::new(2, 5);
    assert_eq!(limit.current(), 2);
    let grown: Vec<u32> =
        (0..5).filter_map(|_| limit.observe(GOOD, TARGET)).map(|change| change.to).collect();
    assert_eq!(grown, [3, 4, 5], "and stops at its upper bound");
}

#[test]
fn limit_is_halved_and_grows_again_after_three_good_periods() {
    let mut limit = AdaptiveLimit::new(1, 20);
    for _ in 0..19 {
        limit.observe(GOOD, TARGET);
    }
    let change = limit.observe(SLOW, TARGET).unwrap();
    assert_eq!((change.from, change.to), (20, 10));
    assert_eq!(change.reason, "latency 1001 ms, above 1000 ms");
    let failing = HealthSample { latency: 1, errors: 3 };
    assert_eq!(limit.observe(failing, TARGET).unwrap().reason, "3 errors, more than 2");
    assert_eq!(limit.current(), 5);
    let changes: Vec<_> = (0..3).map(|_| limit.observe(GOOD, TARGET).is_some()).collect();
    assert_eq!(changes, [false, false, true]);
}

#[test]
fn limit_stays_between_good_and_bad() {
    let mut limit = AdaptiveLimit::new(3, 9);
    limit.observe(GOOD, TARGET);
    for latency in [801, 900, 1000] {
        assert_eq!(limit.observe(HealthSample { latency, errors: 2 }, TARGET), None);
    }
    assert_eq!(limit.current(), 4);
}

proptest! {
    #[test]
    fn limit_stays_within_its_bounds(
        bounds: (u32, u32),
        samples in prop::collection::vec((0_u64..2000, 0_u32..5), 0..200),
    ) {
        let mut limit = AdaptiveLimit::new(bounds.0, bounds.1);
        let (low, high) = (bounds.0.min(bounds.1).max(1), bounds.0.max(bounds.1).max(1));
        for (latency, errors) in samples {
            let before = limit.current();
            let change = limit.observe(HealthSample { latency, errors }, TARGET);
            let after = limit.current();
            prop_assert!((low..=high).contains(&after));
            prop_assert_eq!(change.is_some(), before != after);
            prop_assert!(after <= before.saturating_add(1));
        }
    }
}
