//! Seats: which node has which offset in a turn. A node keeps its seat while others join and leave.

use std::collections::{BTreeSet, HashSet};

use muster_wire::Millis;
use muster_wire::identity::Identity;
use serde::{Deserialize, Serialize};

/// Most seats of one schedule.
pub const MAX_SEATS: usize = 100_000;

/// The nodes of a schedule by seat. Seats are dense: 0 to N-1.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<ScheduleSeat>", into = "Vec<ScheduleSeat>")]
pub struct SeatList {
    pub(crate) seats: Vec<ScheduleSeat>,
}

/// One seat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScheduleSeat {
    /// The node.
    pub node: Identity,
    /// When it joined the schedule.
    pub since: Millis,
    /// Since when it no longer matches the filter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absent_since: Option<Millis>,
}

/// A stored list that is not valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SeatListError {
    /// Too many seats.
    #[error("the list has {0} seats; at most {MAX_SEATS} are allowed")]
    TooMany(usize),
    /// A node twice.
    #[error("{0} has two seats")]
    Duplicate(Identity),
}

/// What [`SeatList::assign`] changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SeatChanges {
    /// New nodes, with their seats.
    pub joined: Vec<(Identity, u32)>,
    /// Nodes without a seat from now on.
    pub left: Vec<Identity>,
    /// Nodes that moved: from, to.
    pub moved: Vec<SeatMove>,
    /// Matching nodes without a seat, because [`MAX_SEATS`] are taken.
    pub refused: usize,
}

/// A node that moved to another seat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeatMove {
    /// The node.
    pub node: Identity,
    /// Its seat before.
    pub from: u32,
    /// Its seat now.
    pub to: u32,
}

impl SeatChanges {
    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.joined.is_empty() && self.left.is_empty() && self.moved.is_empty()
    }
}

impl TryFrom<Vec<ScheduleSeat>> for SeatList {
    type Error = SeatListError;

    fn try_from(seats: Vec<ScheduleSeat>) -> Result<Self, SeatListError> {
        if seats.len() > MAX_SEATS {
            return Err(SeatListError::TooMany(seats.len()));
        }
        let mut nodes = HashSet::new();
        for seat in &seats {
            if !nodes.insert(&seat.node) {
                return Err(SeatListError::Duplicate(seat.node.clone()));
            }
        }
        Ok(Self { seats })
    }
}

impl From<SeatList> for Vec<ScheduleSeat> {
    fn from(list: SeatList) -> Self {
        list.seats
    }
}

impl SeatList {
    /// How many seats are taken.
    pub fn len(&self) -> usize {
        self.seats.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.seats.is_empty()
    }

    /// Seats in order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &ScheduleSeat)> {
        (0..).zip(&self.seats)
    }

    /// The seat of a node. Examines all seats.
    pub fn seat_of(&self, node: &Identity) -> Option<u32> {
        self.iter().find(|(_, seat)| seat.node == *node).map(|(number, _)| number)
    }

    /// Brings the list in line with the nodes that match now. New nodes take the seats that others leave, then new ones. Where nodes leave, those with the highest seats
    /// move into theirs: at most one node moves per node that leaves. A node that no longer matches keeps its seat for `keep_absent`, so that one missed answer moves none.
    pub fn assign(
        &mut self,
        members: &BTreeSet<Identity>,
        now: Millis,
        keep_absent: Millis,
    ) -> SeatChanges {
        let (mut free, new) = self.mark_absent(members, now, keep_absent);
        // The lowest free seat is the last element.
        free.reverse();
        let mut changes = SeatChanges::default();
        for node in new {
            let seat = ScheduleSeat { node: node.clone(), since: now, absent_since: None };
            let number = match free.pop() {
                Some(number) => self.replace(number, seat, &mut changes.left),
                None if self.seats.len() < MAX_SEATS => {
                    self.seats.push(seat);
                    to_seat(self.seats.len() - 1)
                }
                None => {
                    changes.refused += 1;
                    continue;
                }
            };
            changes.joined.push((node, number));
        }
        self.close_gaps(free, &mut changes);
        changes
    }

    /// Notes which nodes are absent. Returns the seats to free, in order, and the nodes without a seat.
    fn mark_absent(
        &mut self,
        members: &BTreeSet<Identity>,
        now: Millis,
        keep_absent: Millis,
    ) -> (Vec<usize>, Vec<Identity>) {
        let mut free = Vec::new();
        for (number, seat) in self.seats.iter_mut().enumerate() {
            if members.contains(&seat.node) {
                seat.absent_since = None;
                continue;
            }
            let since = *seat.absent_since.get_or_insert(now);
            if now.saturating_sub(since) >= keep_absent {
                free.push(number);
            }
        }
        let seated: HashSet<&Identity> = self.seats.iter().map(|seat| &seat.node).collect();
        let new = members.iter().filter(|node| !seated.contains(node)).cloned().collect();
        (free, new)
    }

    fn replace(&mut self, number: usize, seat: ScheduleSeat, left: &mut Vec<Identity>) -> u32 {
        if let Some(before) = self.seats.get_mut(number) {
            left.push(std::mem::replace(before, seat).node);
        }
        to_seat(number)
    }

    /// Removes free seats, the lowest last in the list: the node with the highest seat moves into each one below it.
    fn close_gaps(&mut self, free: Vec<usize>, changes: &mut SeatChanges) {
        let removed: BTreeSet<usize> = free.iter().copied().collect();
        let mut highest_free = free.into_iter().peekable();
        for gap in removed {
            // Free seats at the end need no move. Those below this gap are filled already.
            let is_last = |free: &usize, length: usize| *free >= gap && *free + 1 == length;
            while highest_free.next_if(|free| is_last(free, self.seats.len())).is_some() {
                changes.left.extend(self.seats.pop().map(|seat| seat.node));
            }
            if gap >= self.seats.len() {
                break;
            }
            let from = to_seat(self.seats.len() - 1);
            let Some(last) = self.seats.pop() else { break };
            changes.moved.push(SeatMove { node: last.node.clone(), from, to: to_seat(gap) });
            self.replace(gap, last, &mut changes.left);
        }
    }
}

pub(crate) fn to_seat(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}
