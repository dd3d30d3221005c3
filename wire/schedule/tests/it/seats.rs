//! Seats are dense and stable.

use std::collections::{BTreeMap, BTreeSet};

use muster_schedule::{SeatList, SeatMove};
use muster_wire::identity::Identity;
use proptest::prelude::*;

use crate::fleet::{HOUR, MONDAY, members, node};

fn by_node(seats: &SeatList) -> BTreeMap<Identity, u32> {
    seats.iter().map(|(number, seat)| (seat.node.clone(), number)).collect()
}

#[test]
fn new_nodes_take_the_seats_of_those_that_left() {
    let mut seats = SeatList::default();
    seats.assign(&members(0..4), MONDAY, 0);
    let changes = seats.assign(&members([0, 2, 3, 7]), MONDAY, 0);
    assert_eq!(changes.joined, [(node(7), 1)]);
    assert_eq!(changes.left, [node(1)]);
    assert!(changes.moved.is_empty());
}

#[test]
fn the_highest_seat_moves_into_a_gap() {
    let mut seats = SeatList::default();
    seats.assign(&members(0..5), MONDAY, 0);
    let changes = seats.assign(&members([0, 2, 3, 4]), MONDAY, 0);
    assert_eq!(changes.moved, [SeatMove { node: node(4), from: 4, to: 1 }]);
    assert_eq!(seats.seat_of(&node(4)), Some(1));
    let since: BTreeSet<u64> = seats.iter().map(|(_, seat)| seat.since).collect();
    assert_eq!(since, BTreeSet::from([MONDAY]), "a move does not change when a node joined");
}

#[test]
fn an_absent_node_keeps_its_seat_for_a_while() {
    let mut seats = SeatList::default();
    seats.assign(&members(0..3), MONDAY, HOUR);
    let before = by_node(&seats);
    assert!(seats.assign(&members([0, 2]), MONDAY + 1, HOUR).is_empty());
    assert!(seats.iter().any(|(_, seat)| seat.absent_since == Some(MONDAY + 1)));
    assert!(seats.assign(&members(0..3), MONDAY + HOUR, HOUR).is_empty());
    assert_eq!(by_node(&seats), before);
    assert!(seats.iter().all(|(_, seat)| seat.absent_since.is_none()));

    seats.assign(&members([0, 2]), MONDAY + HOUR, HOUR);
    let changes = seats.assign(&members([0, 2]), MONDAY + 2 * HOUR, HOUR);
    assert_eq!(changes.left, [node(1)]);
}

#[test]
fn stored_seats_are_checked() {
    let mut seats = SeatList::default();
    seats.assign(&members(0..3), MONDAY, 0);
    let json = serde_json::to_string(&seats).unwrap();
    assert_eq!(serde_json::from_str::<SeatList>(&json).unwrap(), seats);
    let double = json.replace("node1", "node2");
    let error = serde_json::from_str::<SeatList>(&double).unwrap_err().to_string();
    assert_eq!(error, "node2.example.net has two seats");
}

proptest! {
    #[test]
    fn churn_moves_at_most_one_node_per_node_that_leaves(
        before in prop::collection::btree_set(0_usize..60, 0..60),
        after in prop::collection::btree_set(0_usize..60, 0..60),
    ) {
        let mut seats = SeatList::default();
        seats.assign(&members(before.iter().copied()), MONDAY, 0);
        let old = by_node(&seats);
        let changes = seats.assign(&members(after.iter().copied()), MONDAY, 0);
        let new = by_node(&seats);
        let joined = after.difference(&before).count();
        let left = before.difference(&after).count();
        prop_assert_eq!(changes.joined.len(), joined);
        prop_assert_eq!(changes.left.len(), left);
        prop_assert!(changes.moved.len() <= left.saturating_sub(joined));
        // Dense, complete, and only the reported nodes moved.
        prop_assert_eq!(new.keys().cloned().collect::<BTreeSet<_>>(), members(after.iter().copied()));
        prop_assert_eq!(new.values().copied().collect::<BTreeSet<_>>().len(), after.len());
        prop_assert!(new.values().all(|seat| usize::try_from(*seat).unwrap() < after.len()));
        let stayed = new.iter().filter(|(node, _)| old.contains_key(*node));
        for (node, seat) in stayed {
            let moved = changes.moved.iter().find(|moved| moved.node == *node);
            if let Some(moved) = moved {
                prop_assert_eq!((moved.from, moved.to), (old[node], *seat));
            } else {
                prop_assert_eq!(old[node], *seat);
            }
        }
    }
}
