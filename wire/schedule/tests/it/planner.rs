//! The planner: outages, limits, skips, windows, and nodes that are overdue.

use std::collections::BTreeMap;

use muster_schedule::{SkipReason, find_overdue};
use proptest::prelude::*;
use serde_json::json;

use crate::fleet::{Fleet, HOUR, MINUTE, MONDAY, SECOND, members, node, schedule};

const INTERVAL: u64 = 30 * MINUTE;

fn run_with_outage(nodes: usize, begin: u64, length: u64) -> Fleet {
    let mut fleet = Fleet::new(schedule(json!({"every": 1800})), nodes, MONDAY);
    fleet.run_until(MONDAY + INTERVAL + begin);
    fleet.outage_until(MONDAY + INTERVAL + begin + length);
    fleet.run_until(MONDAY + 5 * INTERVAL);
    fleet
}

/// The part of A3.2 that is the planner's: after an outage of up to half an interval no node runs twice in a turn, and no gap exceeds 1.5 intervals.
#[test]
fn a3_2_outage_of_half_an_interval_leaves_no_gap_above_one_and_a_half() {
    for nodes in [1, 2, 7, 100, 256] {
        for begin in [0, 1, 600 * SECOND, 1000 * SECOND] {
            let fleet = run_with_outage(nodes, begin, INTERVAL / 2);
            assert!(fleet.skips.is_empty(), "{:?}", fleet.skips.first());
            let limit = INTERVAL + INTERVAL / 2;
            let gap = fleet.longest_gap();
            assert!(gap <= limit, "{nodes} nodes, outage at {begin}: {gap} > {limit}");
        }
    }
}

/// What is late is made up within the length of the outage.
#[test]
fn outage_is_made_up_within_its_length() {
    let length = 10 * MINUTE;
    let fleet = run_with_outage(300, 5 * MINUTE, length);
    let resumed = MONDAY + INTERVAL + 5 * MINUTE + length;
    let usual: BTreeMap<_, _> = fleet
        .starts
        .iter()
        .filter(|start| start.at < MONDAY + INTERVAL)
        .map(|start| (start.node.clone(), start.at - start.slot))
        .collect();
    let late =
        fleet.starts.iter().filter(|start| start.at - start.slot > usual[&start.node] + SECOND);
    let last = late.map(|start| start.at).max().unwrap();
    assert!(last <= resumed + length, "made up {} ms after the outage", last - resumed);
    assert!(last > resumed, "the outage made some late");
}

/// After an outage of several intervals each node runs once, at once, and the turns that it missed are reported.
#[test]
fn long_outage_reports_missed_turns_and_queues_each_node_once() {
    let mut fleet = Fleet::new(schedule(json!({"every": 1800})), 50, MONDAY);
    fleet.run_until(MONDAY + INTERVAL);
    let before = fleet.starts.len();
    fleet.outage_until(MONDAY + 4 * INTERVAL + INTERVAL / 2);
    fleet.run_until(MONDAY + 6 * INTERVAL);
    let late = fleet.starts.iter().skip(before).filter(|start| start.slot <= MONDAY + 4 * INTERVAL);
    // The clock stands at half of a turn: 26 nodes are due in it, 24 since the turn before and later in it.
    assert_eq!(late.count(), 26 + 2 * 24);
    assert_eq!(fleet.skips.len(), 50);
    for (_, _, _, reason) in &fleet.skips {
        let SkipReason::Missed { turns } = reason else { panic!("{reason}") };
        assert!((2..=3).contains(turns), "{turns}");
    }
}

/// A3.3: a node that ran within the given time is skipped, with the reason.
#[test]
fn a3_3_node_that_ran_recently_is_skipped_with_its_reason() {
    let mut fleet =
        Fleet::new(schedule(json!({"every": 1800, "skip_if_ran_within": 600})), 2, MONDAY);
    // Seat 0 is due at the turn's begin, seat 1 at its half.
    fleet.last_run.insert(node(0), MONDAY - 599 * SECOND);
    fleet.last_run.insert(node(1), MONDAY);
    fleet.run_until(MONDAY + INTERVAL);
    let [(at, skipped, slot, reason)] = fleet.skips.as_slice() else { panic!("{:?}", fleet.skips) };
    assert_eq!((*at, skipped, *slot), (MONDAY, &node(0), MONDAY));
    assert_eq!(reason.to_string(), "ran 9 m 59 s ago");
    assert_eq!(fleet.starts.len(), 1);
    assert_eq!(fleet.starts[0].node, node(1));
}

#[test]
fn running_node_is_skipped() {
    let mut fleet = Fleet::new(schedule(json!({"every": 1800})), 1, MONDAY);
    fleet.running.insert(node(0), MONDAY + MINUTE);
    fleet.run_until(MONDAY + INTERVAL);
    assert_eq!(fleet.skips[0].3, SkipReason::AlreadyRunning);
    assert!(fleet.starts.is_empty());
}

/// A3.4: at the limit a node waits, and starts in the moment when a run ends; none waits for its next turn.
#[test]
fn a3_4_node_at_the_limit_starts_as_soon_as_there_is_room() {
    let mut fleet = Fleet::new(schedule(json!({"cron": "0 3 * * *", "limit": 4})), 20, MONDAY);
    fleet.duration = 7 * MINUTE;
    fleet.run_until(MONDAY + 6 * HOUR);
    assert_eq!(fleet.most_running, 4);
    assert_eq!(fleet.starts.len(), 20);
    let begin = MONDAY + 3 * HOUR;
    for (group, starts) in fleet.starts.chunks(4).enumerate() {
        let expected = begin + group as u64 * 7 * MINUTE;
        assert!(starts.iter().all(|start| start.at == expected), "{group}: {starts:?}");
    }
}

/// What cannot start before its last start is skipped and reported.
#[test]
fn node_without_room_until_its_last_start_is_missed() {
    let fields = json!({"cron": "0 3 * * *", "limit": 1, "catch_up": 600});
    let mut fleet = Fleet::new(schedule(fields), 3, MONDAY);
    fleet.duration = 8 * MINUTE;
    fleet.run_until(MONDAY + 6 * HOUR);
    assert_eq!(fleet.starts.len(), 2);
    let [(at, _, slot, reason)] = fleet.skips.as_slice() else { panic!("{:?}", fleet.skips) };
    assert_eq!(*slot, MONDAY + 3 * HOUR);
    assert_eq!(*at, slot + 600 * SECOND + 1, "at once when it is known");
    assert_eq!(reason.to_string(), "missed its last start");
}

/// A3.6: nothing starts outside the window, each node still has its turn, and groups have intervals of their own.
#[test]
fn a3_6_starts_are_spread_over_the_open_part_of_the_interval() {
    let windowed = json!({"every": 86400, "windows": ["22:00-04:00"]});
    let mut fleet = Fleet::new(schedule(windowed), 100, MONDAY);
    fleet.run_until(MONDAY + 48 * HOUR);
    assert_eq!(fleet.starts.len(), 200, "each node once a day");
    for start in &fleet.starts {
        let hour = (start.at - MONDAY) % (24 * HOUR) / HOUR;
        assert!(!(4..22).contains(&hour), "{start:?}");
    }
    // Six open hours a day: at most 5 in any three average distances of those.
    assert!(fleet.most_starts_within(3 * 6 * HOUR / 100) <= 5);

    let mut frequent = Fleet::new(schedule(json!({"every": 900})), 10, MONDAY);
    frequent.run_until(MONDAY + HOUR);
    assert_eq!(frequent.starts.len(), 40);
}

#[test]
fn nothing_starts_in_a_blackout() {
    let blackout = json!({"from": "2026-03-02T01:00:00Z", "until": "2026-03-02T03:00:00Z"});
    let fields = json!({"every": 1800, "blackouts": [blackout]});
    let mut fleet = Fleet::new(schedule(fields), 40, MONDAY);
    fleet.run_until(MONDAY + 4 * HOUR);
    let closed = MONDAY + HOUR..MONDAY + 3 * HOUR;
    assert!(fleet.starts.iter().all(|start| !closed.contains(&start.at)));
    assert_eq!(fleet.starts.len(), 4 * 40, "once in each of the four open turns");
    assert!(fleet.plans < 200, "{} plans", fleet.plans);
}

/// A3.7: a node whose last run is older than two intervals is reported.
#[test]
fn a3_7_node_without_a_run_for_two_intervals_is_overdue() {
    let every = schedule(json!({"every": 1800}));
    let mut fleet = Fleet::new(every, 3, MONDAY);
    let now = MONDAY + 10 * INTERVAL;
    let last = BTreeMap::from([(node(0), now - 2 * INTERVAL - 1), (node(1), now - 2 * INTERVAL)]);
    fleet.seats.assign(&members(0..4), now - INTERVAL, 0);
    let overdue = |since| {
        let last_run = |node: &_| last.get(node).copied();
        let found = find_overdue(&fleet.schedule, &fleet.seats, &last_run, since, now);
        found.into_iter().map(|overdue| overdue.node).collect::<Vec<_>>()
    };
    // Node 2 never ran; node 3 joined an interval ago.
    assert_eq!(overdue(MONDAY), [node(0), node(2)]);
    assert!(overdue(now - INTERVAL).is_empty(), "a schedule that was resumed an interval ago");
}

#[test]
fn closed_weekend_makes_no_node_overdue() {
    let weekdays = schedule(json!({"every": 3600, "windows": ["mon-fri 00:00-24:00"]}));
    let fleet = Fleet::new(weekdays, 2, MONDAY);
    let next_monday = MONDAY + 7 * 24 * HOUR;
    let last = BTreeMap::from([
        (node(0), next_monday - 48 * HOUR - HOUR / 2),
        (node(1), next_monday - 52 * HOUR),
    ]);
    let last_run = |node: &_| last.get(node).copied();
    let now = next_monday + HOUR / 2;
    let found = find_overdue(&fleet.schedule, &fleet.seats, &last_run, MONDAY, now);
    assert_eq!(found.iter().map(|found| &found.node).collect::<Vec<_>>(), [&node(1)]);
}

/// A node that joins waits for its own time; no herd starts.
#[test]
fn nodes_that_join_together_do_not_start_together() {
    let mut fleet = Fleet::new(schedule(json!({"every": 1800})), 10, MONDAY);
    fleet.run_until(MONDAY + 29 * MINUTE);
    fleet.seats.assign(&members(0..500), fleet.now, 0);
    fleet.run_until(MONDAY + 2 * INTERVAL);
    let most = fleet.most_starts_within(3 * INTERVAL / 500);
    assert!(most <= 5, "{most}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// A3.2 for any outage of at most half an interval, any fleet and any time.
    #[test]
    fn a3_2_gaps_after_any_short_outage(
        nodes in 1_usize..120,
        begin in 0..INTERVAL,
        length in 0..INTERVAL / 2,
    ) {
        let fleet = run_with_outage(nodes, begin, length);
        prop_assert!(fleet.skips.is_empty());
        let limit = INTERVAL + INTERVAL / 2;
        prop_assert!(fleet.longest_gap() <= limit, "{} > {}", fleet.longest_gap(), limit);
    }

    /// The limit holds for any durations, and each node runs at most once in a turn (which the fleet asserts).
    #[test]
    fn limit_holds(nodes in 1_usize..60, limit in 1_usize..8, minutes in 1_u64..40) {
        let mut fleet = Fleet::new(schedule(json!({"every": 1800, "limit": limit})), nodes, MONDAY);
        fleet.duration = minutes * MINUTE;
        fleet.run_until(MONDAY + 4 * INTERVAL);
        prop_assert!(fleet.most_running <= limit);
        // No room is left unused: each moment that a node was skipped as missed, the limit was reached.
        let missed = fleet.skips.iter().filter(|skip| matches!(skip.3, SkipReason::Missed { .. }));
        prop_assert!(missed.count() == 0 || fleet.most_running == limit);
    }
}
