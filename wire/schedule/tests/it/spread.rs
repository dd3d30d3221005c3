//! Acceptance point A3.1: starts are spread evenly, and churn moves almost nothing. The real planner on a simulated clock.

use muster_schedule::seat_offset;
use proptest::prelude::*;
use serde_json::json;

use crate::fleet::{Fleet, MINUTE, MONDAY, members, schedule};

const INTERVAL: u64 = 30 * MINUTE;

/// A3.1 as worded: N nodes, interval I, at most 5 starts in any window of 3 I/N; adding a node moves at most 2 others. 1,000 nodes, 30 minutes, four intervals.
#[test]
fn a3_1_thousand_nodes_start_at_most_five_in_three_average_distances() {
    let nodes = 1000;
    let mut fleet = Fleet::new(schedule(json!({"every": 1800})), nodes, MONDAY);
    fleet.run_until(MONDAY + 4 * INTERVAL);
    assert_eq!(fleet.starts.len(), 4 * nodes, "each node once in each interval");
    assert!(fleet.skips.is_empty(), "{:?}", fleet.skips.first());
    let most = fleet.most_starts_within(3 * INTERVAL / nodes as u64);
    assert!(most <= 5, "{most} starts");
    assert_eq!(fleet.longest_gap(), INTERVAL, "each node keeps its time");

    let changes = fleet.seats.assign(&members(0..=nodes), fleet.now, 0);
    assert_eq!((changes.joined.len(), changes.moved.len()), (1, 0), "adding 1 moves none");
    let changes = fleet.seats.assign(&members(1..=nodes), fleet.now, 0);
    assert_eq!((changes.left.len(), changes.moved.len()), (1, 1), "removing 1 moves 1");
}

/// A3.1 while five nodes leave and five others join in each interval.
#[test]
fn a3_1_holds_while_nodes_join_and_leave() {
    let nodes = 1000;
    let mut fleet = Fleet::new(schedule(json!({"every": 1800})), nodes, MONDAY);
    for interval in 1..=6 {
        fleet.run_until(MONDAY + interval * INTERVAL + 7 * MINUTE);
        let first = usize::try_from(interval).unwrap() * 5;
        let changes = fleet.seats.assign(&members(first..first + nodes), fleet.now, 0);
        assert_eq!((changes.joined.len(), changes.left.len(), changes.moved.len()), (5, 5, 0));
    }
    let most = fleet.most_starts_within(3 * INTERVAL / nodes as u64);
    assert!(most <= 5, "{most} starts");
    assert_eq!(fleet.longest_gap(), INTERVAL);
}

/// Weaker than A3.1, which states no number for a fleet that shrinks: ten nodes leave at once in each interval, and as many move. Those that move may be late, which
/// gives six starts instead of five in a window. Each node that leaves moves at most one other.
#[test]
fn a3_1_shrinking_fleet_starts_at_most_six_in_three_average_distances() {
    let nodes = 1000;
    let mut fleet = Fleet::new(schedule(json!({"every": 1800})), nodes, MONDAY);
    for interval in 1..=6 {
        fleet.run_until(MONDAY + interval * INTERVAL + 7 * MINUTE);
        let gone = usize::try_from(interval).unwrap() * 10;
        let changes = fleet.seats.assign(&members(gone..nodes), fleet.now, 0);
        assert_eq!(changes.left.len(), 10);
        assert!(changes.moved.len() <= 10);
    }
    let window = 3 * INTERVAL / nodes as u64;
    let most = fleet.most_starts_within(window);
    assert!(most <= 6, "{most} starts");
    assert!(fleet.longest_gap() < INTERVAL * 2, "{}", fleet.longest_gap());
    // Without further moves it is five again.
    fleet.starts.clear();
    fleet.run_until(MONDAY + 9 * INTERVAL);
    assert!(fleet.most_starts_within(window) <= 5);
}

/// The offsets alone, for every number of nodes up to 3,000 in steps.
#[test]
fn offsets_are_even_for_every_number_of_nodes() {
    for nodes in (4_u32..200).chain((200..3000).step_by(97)) {
        let mut offsets: Vec<u64> = (0..nodes).map(|seat| seat_offset(INTERVAL, seat)).collect();
        offsets.sort_unstable();
        let again: Vec<u64> = offsets.iter().map(|offset| offset + INTERVAL).collect();
        offsets.extend(again);
        let window = 3 * INTERVAL / u64::from(nodes);
        let most = (0..offsets.len())
            .map(|first| {
                let from = offsets[first];
                offsets[first..].iter().take_while(|offset| **offset - from < window).count()
            })
            .max();
        assert!(most <= Some(4), "{nodes} nodes: {most:?}");
    }
}

proptest! {
    #[test]
    fn an_offset_is_within_its_length(length in 0_u64..1 << 40, seat: u32) {
        let offset = seat_offset(length, seat);
        prop_assert!(offset < length.max(1));
    }
}
