//! Expected load: how many runs are in progress over time, and seats that keep it even.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use muster_wire::Millis;
use muster_wire::identity::Identity;

use crate::seats::{SeatList, SeatMove, to_seat};
use crate::simulate::SimulatedRun;
use crate::turns::seat_offset;

/// Parts into which an interval is divided to compare loads.
const INTERVAL_PARTS: usize = 512;
/// Most seats that are compared for one node.
const MAX_COMPARED_SEATS: usize = 64;
/// Most bins of a load curve.
pub const MAX_LOAD_BINS: usize = 1000;

/// The load in one part of the time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoadBin {
    /// Its begin.
    pub from: Millis,
    /// The average number of runs in progress.
    pub running: f64,
}

/// The load of runs in each of `bins` equal parts of a time.
pub fn load_curve(runs: &[SimulatedRun], from: Millis, until: Millis, bins: usize) -> Vec<LoadBin> {
    let bins = bins.clamp(1, MAX_LOAD_BINS);
    let count = Millis::try_from(bins).unwrap_or(1);
    let width = (until.saturating_sub(from) / count).max(1);
    let mut totals = vec![Duration::ZERO; bins];
    for run in runs {
        let first = run.at.saturating_sub(from) / width;
        let last = run.ends.saturating_sub(from) / width;
        for bin in first..=last.min(count - 1) {
            let begin = from.saturating_add(bin.saturating_mul(width));
            let overlap =
                run.ends.min(begin.saturating_add(width)).saturating_sub(run.at.max(begin));
            let index = usize::try_from(bin).unwrap_or(usize::MAX);
            if let Some(total) = totals.get_mut(index) {
                *total += Duration::from_millis(overlap);
            }
        }
    }
    let width_time = Duration::from_millis(width);
    let begins = (0..count).map(|bin| from.saturating_add(bin.saturating_mul(width)));
    let running = totals.into_iter().map(|total| total.div_duration_f64(width_time));
    begins.zip(running).map(|(from, running)| LoadBin { from, running }).collect()
}

/// The runs in progress in each part of an interval, in which everything repeats.
struct IntervalLoad {
    span: Millis,
    parts: Vec<u32>,
}

impl IntervalLoad {
    fn new(span: Millis) -> Self {
        Self { span: span.max(1), parts: vec![0; INTERVAL_PARTS] }
    }

    /// The parts that a run on a seat covers.
    fn covered(&self, seat: u32, duration: Millis) -> impl Iterator<Item = usize> + use<> {
        let parts = INTERVAL_PARTS as u64;
        let part = |instant: Millis| {
            let part = u128::from(instant) * u128::from(parts) / u128::from(self.span);
            usize::try_from(part).unwrap_or(usize::MAX)
        };
        let offset = seat_offset(self.span, seat);
        let first = part(offset);
        let last = part(offset.saturating_add(duration.min(self.span).saturating_sub(1)));
        (first..=last).take(INTERVAL_PARTS).map(|part| part % INTERVAL_PARTS)
    }

    fn add(&mut self, seat: u32, duration: Millis) {
        for part in self.covered(seat, duration) {
            if let Some(load) = self.parts.get_mut(part) {
                *load += 1;
            }
        }
    }

    /// The highest load that a run on that seat would meet, and the sum.
    fn cost(&self, seat: u32, duration: Millis) -> (u32, u64) {
        let loads = self.covered(seat, duration).filter_map(|part| self.parts.get(part));
        loads.fold((0, 0), |(peak, sum), load| (peak.max(*load), sum + u64::from(*load)))
    }

    fn peak(&self) -> u32 {
        self.parts.iter().copied().max().unwrap_or(0)
    }
}

impl SeatList {
    /// Exchanges seats among nodes that just joined, so that the expected load over `span`, the interval or the spread, is even. No other node moves.
    /// `joined` is that of [`crate::SeatChanges`] and is updated.
    pub fn balance_joined(
        &mut self,
        joined: &mut [(Identity, u32)],
        span: Millis,
        duration: &dyn Fn(&Identity) -> Option<Millis>,
    ) {
        let joined_seats: HashSet<u32> = joined.iter().map(|(_, seat)| *seat).collect();
        let mut load = IntervalLoad::new(span);
        for (number, seat) in self.iter().filter(|(number, _)| !joined_seats.contains(number)) {
            load.add(number, duration(&seat.node).unwrap_or(0));
        }
        let mut nodes: Vec<(Millis, Identity)> =
            joined.iter().map(|(node, _)| (duration(node).unwrap_or(0), node.clone())).collect();
        // The longest runs choose first.
        nodes.sort_by(|one, other| other.0.cmp(&one.0).then_with(|| one.1.cmp(&other.1)));
        let mut free: Vec<u32> = joined.iter().map(|(_, seat)| *seat).collect();
        free.sort_unstable();
        let since: Vec<_> = joined.iter().filter_map(|(_, seat)| self.take(*seat)).collect();
        for (((duration, node), entry), place) in
            nodes.into_iter().zip(since).zip(joined.iter_mut())
        {
            let seat = choose_seat(&mut free, &load, duration);
            load.add(seat, duration);
            if let Some(target) = self.seats.get_mut(usize::try_from(seat).unwrap_or(usize::MAX)) {
                target.node.clone_from(&node);
                target.since = entry;
                target.absent_since = None;
            }
            *place = (node, seat);
        }
    }

    /// When the node on a seat joined.
    fn take(&self, seat: u32) -> Option<Millis> {
        self.seats.get(usize::try_from(seat).ok()?).map(|seat| seat.since)
    }

    /// The expected peak over `span`, in which everything repeats.
    pub fn expected_peak(
        &self,
        span: Millis,
        duration: &dyn Fn(&Identity) -> Option<Millis>,
    ) -> u32 {
        let mut load = IntervalLoad::new(span);
        for (number, seat) in self.iter() {
            load.add(number, duration(&seat.node).unwrap_or(0));
        }
        load.peak()
    }

    /// Assigns all seats by expected load, if that lowers the peak. Returns the moves. A node that moves has one interval that is longer or shorter.
    pub fn rebalance(
        &mut self,
        span: Millis,
        duration: &dyn Fn(&Identity) -> Option<Millis>,
    ) -> Vec<SeatMove> {
        let mut balanced = self.clone();
        let mut all: Vec<(Identity, u32)> =
            self.iter().map(|(number, seat)| (seat.node.clone(), number)).collect();
        balanced.balance_joined(&mut all, span, duration);
        if balanced.expected_peak(span, duration) >= self.expected_peak(span, duration) {
            return Vec::new();
        }
        let mut before: HashMap<&Identity, (usize, &crate::seats::ScheduleSeat)> = self
            .seats
            .iter()
            .enumerate()
            .map(|(number, seat)| (&seat.node, (number, seat)))
            .collect();
        let mut moves = Vec::new();
        for (to, seat) in balanced.seats.iter_mut().enumerate() {
            let Some((from, old)) = before.remove(&seat.node) else { continue };
            *seat = old.clone();
            if from != to {
                moves.push(SeatMove {
                    node: seat.node.clone(),
                    from: to_seat(from),
                    to: to_seat(to),
                });
            }
        }
        *self = balanced;
        moves
    }
}

/// Takes the free seat with the lowest load for a run of that duration; the first of equal ones.
fn choose_seat(free: &mut Vec<u32>, load: &IntervalLoad, duration: Millis) -> u32 {
    let step = free.len().div_ceil(MAX_COMPARED_SEATS).max(1);
    let compared = free.iter().enumerate().step_by(step);
    let best = compared.min_by_key(|(_, seat)| load.cost(**seat, duration)).map(|(index, _)| index);
    best.map_or(0, |index| free.remove(index))
}
