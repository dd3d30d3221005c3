//! Turns of a schedule. A turn is identified by its slot: the nominal time at which it begins. Each node has one start per turn, at an offset that its seat determines.

use muster_wire::Millis;

use crate::compile::{CompiledSchedule, ScheduleTiming};
use crate::interval::IntervalTimes;

/// One turn: its slot, and the permitted times over which its starts are spread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleTurn {
    /// The nominal time.
    pub slot: Millis,
    /// Permitted times, in order. Never empty.
    open: Vec<(Millis, Millis)>,
    /// The sum of their lengths over which starts are spread. Zero: all start at once.
    length: Millis,
    /// The last instant at which a late start is made up for, if the turn has one of its own.
    last_start: Option<Millis>,
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

    /// When its permitted times end.
    pub fn end(&self) -> Millis {
        self.open.last().map_or(self.slot, |(_, until)| *until)
    }

    /// The last instant at which a late start is made up for, if the turn has one of its own: the end of its last window. In a later window the node has its next turn.
    pub(crate) fn last_start(&self) -> Option<Millis> {
        self.last_start
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
            ScheduleTiming::Every(interval) => interval.next_after(after),
            ScheduleTiming::Cron(times) => times.next_after(after),
        }
    }

    /// The last slot at or before an instant.
    pub fn last_slot_at(&self, instant: Millis) -> Option<Millis> {
        match &self.timing {
            ScheduleTiming::Every(interval) => interval.last_at(instant),
            ScheduleTiming::Cron(times) => times.last_at(instant),
        }
    }

    /// Whether the instant is a slot.
    pub fn is_slot(&self, instant: Millis) -> bool {
        match &self.timing {
            ScheduleTiming::Every(interval) => interval.is_begin(instant),
            ScheduleTiming::Cron(times) => times.is_occurrence(instant),
        }
    }

    /// The turn of a slot. `None` if no start is permitted during it, because of windows and blackouts.
    pub fn turn_at(&self, slot: Millis) -> Option<ScheduleTurn> {
        match &self.timing {
            ScheduleTiming::Every(interval) => {
                let (begin, end) = self.permitted_range(interval, slot)?;
                let (open, total) = self.open_between(begin, end)?;
                let window_end = self.open_times.last_window_end(begin, end);
                let last_start = window_end.map(|end| end.saturating_sub(1));
                Some(ScheduleTurn { slot, open, length: total, last_start })
            }
            ScheduleTiming::Cron(times) => {
                let spread = self.spread();
                // A start outside the permitted times may be made up later.
                let end = slot.saturating_add(spread).saturating_add(self.catch_up().max(1));
                // A turn ends where the next one begins.
                let end = times.next_after(slot).map_or(end, |next| next.min(end));
                let (open, total) = self.open_between(slot, end)?;
                Some(ScheduleTurn { slot, open, length: total.min(spread), last_start: None })
            }
        }
    }

    /// The range in which the starts of a period are: the period, without a window that began before it, and with the whole window that begins in it and ends after it.
    /// So a window that passes midnight belongs to one day.
    fn permitted_range(&self, interval: &IntervalTimes, slot: Millis) -> Option<(Millis, Millis)> {
        let next = interval.next_after(slot)?;
        let before = slot.checked_sub(1).and_then(|last| interval.last_at(last));
        let carried = before.and_then(|before| self.open_times.window_over(slot, before, next));
        let second_end = interval.next_after(next).unwrap_or(Millis::MAX);
        let carrying = self.open_times.window_over(next, slot, second_end);
        let begin = carried.map_or(slot, |(_, window_end)| window_end);
        Some((begin, carrying.map_or(next, |(_, window_end)| window_end)))
    }

    /// The permitted times of a range, and the sum of their lengths. `None` if there are none.
    fn open_between(&self, begin: Millis, end: Millis) -> Option<(Vec<(Millis, Millis)>, Millis)> {
        let open = if self.open_times.is_unrestricted() {
            vec![(begin, end)]
        } else {
            self.open_times.between(begin, end)
        };
        let total = open.iter().map(|(from, until)| until.saturating_sub(*from)).sum();
        (!open.is_empty()).then_some((open, total))
    }

    /// The turn that goes on or comes next: of the turns that have begun, the earliest whose permitted times are not over, otherwise the latest one.
    /// A turn may still have a window open when the next turn begins.
    pub fn current_turn(&self, instant: Millis) -> Option<ScheduleTurn> {
        let mut turns = self.turns_until(instant, 2);
        if let [_, earlier] = turns.as_slice()
            && earlier.end() <= instant
        {
            turns.pop();
        }
        turns.pop()
    }

    /// The slot of the turn that goes on at an instant, or of the one that comes next in the same period.
    pub fn current_slot(&self, instant: Millis) -> Option<Millis> {
        let turn = self.current_turn(instant).filter(|turn| turn.end() > instant);
        turn.map(|turn| turn.slot).or_else(|| self.last_slot_at(instant))
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
