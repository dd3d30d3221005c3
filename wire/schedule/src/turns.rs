//! Turns of a schedule. A turn is identified by its slot: the nominal time at which it begins. Each node has one start per turn, at an offset that its seat determines.

use muster_wire::Millis;

use crate::compile::{CompiledSchedule, ScheduleTiming};

/// One turn: its slot, and the permitted times over which its starts are spread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleTurn {
    /// The nominal time.
    pub slot: Millis,
    /// Permitted times, in order. Never empty.
    open: Vec<(Millis, Millis)>,
    /// The sum of their lengths over which starts are spread. Zero: all start at once.
    length: Millis,
}

/// The offset of a seat within a length: the van der Corput sequence in base 2 times the length. The first N seats are spread evenly for every N.
pub fn seat_offset(length: Millis, seat: u32) -> Millis {
    let product = u128::from(length) * u128::from(seat.reverse_bits());
    Millis::try_from(product >> 32).unwrap_or(length)
}

impl ScheduleTurn {
    /// When the node on that seat is due.
    pub fn due(&self, seat: u32) -> Millis {
        let mut offset = seat_offset(self.length, seat);
        for (from, until) in &self.open {
            let length = until.saturating_sub(*from);
            if offset < length {
                return from.saturating_add(offset);
            }
            offset -= length;
        }
        self.open.last().map_or(self.slot, |(_, until)| until.saturating_sub(1))
    }

    /// When the first node is due.
    pub fn begin(&self) -> Millis {
        self.open.first().map_or(self.slot, |(from, _)| *from)
    }

    /// The least distance between two starts for this many seats. It is half of the average, so that what is late is made up.
    pub fn pace(&self, seats: usize) -> Millis {
        let seats = Millis::try_from(seats).unwrap_or(Millis::MAX).max(1);
        self.length / seats.saturating_mul(2)
    }
}

impl CompiledSchedule {
    /// The first slot after an instant, whether or not its turn has permitted times.
    pub fn next_slot_after(&self, after: Millis) -> Option<Millis> {
        match &self.timing {
            ScheduleTiming::Every(interval) => {
                (after / interval).checked_add(1)?.checked_mul(*interval)
            }
            ScheduleTiming::Cron(times) => times.next_after(after),
        }
    }

    /// The last slot at or before an instant.
    pub fn last_slot_at(&self, instant: Millis) -> Option<Millis> {
        match &self.timing {
            ScheduleTiming::Every(interval) => Some(instant - instant % interval),
            ScheduleTiming::Cron(times) => times.last_at(instant),
        }
    }

    /// Whether the instant is a slot.
    pub fn is_slot(&self, instant: Millis) -> bool {
        match &self.timing {
            ScheduleTiming::Every(interval) => instant.is_multiple_of(*interval),
            ScheduleTiming::Cron(times) => times.is_occurrence(instant),
        }
    }

    /// The turn of a slot. `None` if no start is permitted during it, because of windows and blackouts.
    pub fn turn_at(&self, slot: Millis) -> Option<ScheduleTurn> {
        let spread = self.spread();
        // With `cron`, a start outside the permitted times may be made up later.
        let extra = if self.interval().is_some() { 0 } else { self.catch_up().max(1) };
        let mut end = slot.saturating_add(spread).saturating_add(extra);
        // A turn ends where the next one begins.
        if let ScheduleTiming::Cron(times) = &self.timing {
            end = times.next_after(slot).map_or(end, |next| next.min(end));
        }
        let open = if self.open_times.is_unrestricted() {
            vec![(slot, end)]
        } else {
            self.open_times.between(slot, end)
        };
        if open.is_empty() {
            return None;
        }
        let total: Millis = open.iter().map(|(from, until)| until.saturating_sub(*from)).sum();
        Some(ScheduleTurn { slot, open, length: total.min(spread) })
    }

    /// Turns that began at or before an instant, latest first, at most `count`. Slots without permitted times are left out; at most 100 are examined.
    pub fn turns_until(&self, instant: Millis, count: usize) -> Vec<ScheduleTurn> {
        let mut turns = Vec::new();
        let mut next = self.last_slot_at(instant);
        for _ in 0..MAX_EXAMINED_SLOTS {
            let Some(slot) = next.filter(|_| turns.len() < count) else { break };
            turns.extend(self.turn_at(slot));
            next = slot.checked_sub(1).and_then(|before| self.last_slot_at(before));
        }
        turns
    }

    /// The first turn whose slot is after an instant. `None` if none of the next 1000 slots has permitted times.
    pub fn next_turn_after(&self, after: Millis) -> Option<ScheduleTurn> {
        let mut slot = self.next_slot_after(after)?;
        for _ in 0..MAX_EXAMINED_AHEAD {
            if let Some(turn) = self.turn_at(slot) {
                return Some(turn);
            }
            // Skips ahead: no turn ends before the next permitted time.
            let reach = self.spread().saturating_add(self.catch_up());
            let open = self.next_open(slot)?.saturating_sub(reach);
            slot = self.next_slot_after(slot.max(open.saturating_sub(1)))?;
        }
        None
    }

    /// How many turns have slots strictly between two instants; at most 100.
    pub fn count_turns_between(&self, after: Millis, before: Millis) -> u32 {
        let mut count = 0;
        let mut next = self.next_slot_after(after);
        for _ in 0..MAX_EXAMINED_SLOTS {
            let Some(slot) = next.filter(|slot| *slot < before) else { break };
            count += u32::from(self.turn_at(slot).is_some());
            next = self.next_slot_after(slot);
        }
        count
    }
}

const MAX_EXAMINED_SLOTS: usize = 100;
const MAX_EXAMINED_AHEAD: usize = 1000;
