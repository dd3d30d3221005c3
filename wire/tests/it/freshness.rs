//! The age of requests between two clocks, and the cache of seen requests compared with a simple model.

use std::collections::HashMap;

use muster_wire::fresh::{
    CLOCK_SKEW_MILLIS, DualClockInstant, InsertionOutcome, SeenCache, SeenRecord, StaleRequest,
    check_freshness, remember_until,
};
use proptest::prelude::*;
use uuid::Uuid;

#[test]
fn request_is_fresh_from_issue_to_ttl_with_skew_on_both_sides() {
    let (issued, ttl) = (1_000_000, 60_000);
    let fresh = |now| check_freshness(issued, ttl, now, CLOCK_SKEW_MILLIS);
    assert_eq!(fresh(issued - CLOCK_SKEW_MILLIS), Ok(()));
    assert_eq!(fresh(issued + ttl + CLOCK_SKEW_MILLIS), Ok(()));
    assert_eq!(
        fresh(issued - CLOCK_SKEW_MILLIS - 1),
        Err(StaleRequest { age_ms: -30_001, ttl, skew: CLOCK_SKEW_MILLIS })
    );
    assert_eq!(
        fresh(issued + ttl + CLOCK_SKEW_MILLIS + 1),
        Err(StaleRequest { age_ms: 90_001, ttl, skew: CLOCK_SKEW_MILLIS })
    );
    assert_eq!(check_freshness(issued, ttl, issued + ttl + 1, 0).unwrap_err().age_ms, 60_001);
}

const DAY: u64 = 86_400_000;

/// Wall clock and steady clock agree.
fn at(now: u64) -> DualClockInstant {
    DualClockInstant { wall: now, steady: now }
}

#[test]
fn full_cache_refuses_new_requests_and_keeps_live_ones() {
    let mut cache = SeenCache::new(2);
    let [a, b, c] = [1, 2, 3].map(Uuid::from_u128);
    assert_eq!(cache.insert(&[0; 32], a, 100, at(0)), InsertionOutcome::New);
    assert_eq!(cache.insert(&[0; 32], b, 200, at(0)), InsertionOutcome::New);
    assert_eq!(
        cache.insert(&[0; 32], c, 300, at(100)),
        InsertionOutcome::Full { retry_after_ms: 1 }
    );
    assert_eq!(cache.insert(&[0; 32], a, 100, at(100)), InsertionOutcome::Seen);
    assert_eq!(cache.insert(&[0; 32], c, 300, at(101)), InsertionOutcome::New);
    assert_eq!(cache.insert(&[0; 32], b, 200, at(101)), InsertionOutcome::Seen);
}

#[test]
fn request_ids_are_separate_for_each_caller() {
    let mut cache = SeenCache::default();
    assert_eq!(cache.insert(&[1; 32], Uuid::nil(), 100, at(0)), InsertionOutcome::New);
    assert_eq!(cache.insert(&[2; 32], Uuid::nil(), 100, at(0)), InsertionOutcome::New);
    assert_eq!(cache.insert(&[1; 32], Uuid::nil(), 100, at(0)), InsertionOutcome::Seen);
}

#[test]
fn restart_keeps_live_requests_beyond_the_capacity() {
    let record =
        |n: u128, expires| SeenRecord { caller: [0; 32], request: Uuid::from_u128(n), expires };
    // A request that is in the journal several times is kept until its latest expiry.
    let journal = [
        record(1, 50),
        record(2, DAY + 100),
        record(3, DAY + 200),
        record(2, DAY + 150),
        record(2, 20),
    ];
    let mut cache = SeenCache::restore(journal, 1, at(DAY + 100));
    assert_eq!(cache.len(), 2);
    let id = Uuid::from_u128;
    assert_eq!(cache.insert(&[0; 32], id(2), DAY + 150, at(DAY + 150)), InsertionOutcome::Seen);
    assert!(matches!(
        cache.insert(&[0; 32], id(4), DAY + 300, at(DAY + 150)),
        InsertionOutcome::Full { .. }
    ));
    assert_eq!(cache.insert(&[0; 32], id(4), DAY + 300, at(DAY + 201)), InsertionOutcome::New);
}

#[test]
fn clock_jump_forward_and_back_forgets_no_request() {
    let mut cache = SeenCache::default();
    let [a, b] = [1, 2].map(Uuid::from_u128);
    let now = |wall, steady| DualClockInstant { wall, steady };
    let hour = 3_600_000;
    let mut insert = |id, expires, now| cache.insert(&[0; 32], id, expires, now);
    assert_eq!(insert(a, DAY + 1000, now(DAY, 0)), InsertionOutcome::New);
    assert_eq!(insert(b, DAY + hour + 1000, now(DAY + hour, 10)), InsertionOutcome::New);
    assert_eq!(insert(a, DAY + 1000, now(DAY + hour, 20)), InsertionOutcome::Seen);
    assert_eq!(insert(a, DAY + 1000, now(DAY + 1000, 1000)), InsertionOutcome::Seen);
    // An expiry that only the wrong clock reached does not count until the right clock reaches it.
    assert_eq!(insert(b, DAY + hour + 1000, now(DAY + hour, hour)), InsertionOutcome::Seen);
    assert_eq!(cache.len(), 1);
}

#[test]
fn restart_with_a_wrong_clock_forgets_no_live_request() {
    let request = Uuid::from_u128(1);
    let record = |expires| SeenRecord { caller: [0; 32], request, expires };
    let (hour, minute) = (3_600_000, 60_000);
    let start = DualClockInstant { wall: DAY + hour, steady: 0 };
    let mut cache = SeenCache::restore([record(DAY)], 9, start);
    let right = |steady| DualClockInstant { wall: DAY - minute + steady, steady };
    assert_eq!(cache.insert(&[0; 32], request, DAY, right(minute)), InsertionOutcome::Seen);
    let later = DualClockInstant { wall: DAY + hour + 6 * minute, steady: 6 * minute };
    let other = Uuid::from_u128(2);
    assert_eq!(cache.insert(&[0; 32], other, later.wall, later), InsertionOutcome::New);
    assert_eq!(cache.len(), 1);
    assert!(SeenCache::restore([record(1)], 9, start).is_empty());
}

#[test]
fn one_caller_cannot_exhaust_the_cache() {
    let mut cache = SeenCache::new(1024);
    let ids = || (0_u128..).map(Uuid::from_u128);
    let day = 24 * 60 * 60 * 1000;
    let insert_until_full = |cache: &mut SeenCache, caller: u8, most: usize| {
        let fresh =
            |id: &Uuid| cache.insert(&[caller; 32], *id, day, at(0)) == InsertionOutcome::New;
        ids().take(most).take_while(fresh).count()
    };
    // One caller can use seven eighths of the capacity.
    assert_eq!(insert_until_full(&mut cache, 1, 5000), 896);
    let more = cache.insert(&[1; 32], Uuid::from_u128(9999), day, at(0));
    assert!(matches!(more, InsertionOutcome::Full { .. }));
    // Every other caller can still use its minimum of capacity/64.
    for caller in 2..10 {
        assert_eq!(insert_until_full(&mut cache, caller, 5000), 16, "{caller}");
    }
    assert_eq!(cache.len(), 1024);
    // No entry is forgotten before its expiry, and expiry frees the capacity.
    assert_eq!(cache.insert(&[1; 32], Uuid::from_u128(7), day, at(day)), InsertionOutcome::Seen);
    assert_eq!(insert_until_full(&mut cache, 1, 1), 0);
    assert_eq!(
        cache.insert(&[1; 32], Uuid::from_u128(9999), 3 * day, at(day + 1)),
        InsertionOutcome::New
    );
    assert_eq!(cache.len(), 1);
}

/// The capacity for a caller: one eighth is reserved for callers with few entries.
fn capacity_for_caller(model: &HashMap<(u8, u128), u64>, caller: u8, capacity: usize) -> usize {
    let held = model.keys().filter(|(owner, _)| *owner == caller).count();
    let little = (capacity / 64).max(1);
    if held < little { capacity } else { capacity - capacity / 8 }
}

proptest! {
    #[test]
    fn fresh_request_is_still_remembered(
        issued in 0..u64::MAX, ttl in 1..86_400_000_u64, now: u64, skew in 0..100_000_u64,
    ) {
        if check_freshness(issued, ttl, now, skew).is_ok() {
            prop_assert!(now <= remember_until(issued, ttl, skew));
        }
    }

    #[test]
    fn cache_behaves_like_its_model(
        steps in prop::collection::vec((0..3_u8, 0..8_u128, 0..50_u64, 0..10_u64, any::<bool>()), 0..200),
        capacity in 0..20_usize,
    ) {
        let mut cache = SeenCache::new(capacity);
        let mut model: HashMap<(u8, u128), u64> = HashMap::new();
        let mut now = 0;
        for (caller, id, life, pass, restart) in steps {
            now += pass;
            let expires = now + life;
            model.retain(|_, end| *end >= now);
            let outcome = cache.insert(&[caller; 32], Uuid::from_u128(id), expires, at(now));
            if model.contains_key(&(caller, id)) {
                prop_assert_eq!(outcome, InsertionOutcome::Seen);
            } else if model.len() >= capacity_for_caller(&model, caller, capacity) {
                let next = model.values().min().map_or(1, |end| end - now + 1);
                prop_assert_eq!(outcome, InsertionOutcome::Full { retry_after_ms: next });
            } else {
                prop_assert_eq!(outcome, InsertionOutcome::New);
                model.insert((caller, id), expires);
            }
            if restart {
                let journal: Vec<u8> = cache.records().flat_map(|record| record.encode()).collect();
                let read = SeenRecord::decode_all(&journal);
                prop_assert_eq!(read.valid_len, journal.len());
                cache = SeenCache::restore(read.records, capacity, at(now));
            }
            prop_assert_eq!(cache.len(), model.len());
        }
    }
}
