//! Decides which nodes start now. A function of the schedule, the seats and what is known of each node; the caller acts and calls again at the next wake-up.

use std::collections::BTreeMap;

use muster_base::format_millis;
use muster_wire::Millis;
use muster_wire::identity::Identity;

use crate::compile::CompiledSchedule;
use crate::seats::{ScheduleSeat, SeatList};
use crate::turns::ScheduleTurn;

/// Shortest time until the next wake-up, in milliseconds. What is due in between starts then.
pub const MIN_WAKE_MILLIS: Millis = 100;
/// Longest time until the next wake-up, in milliseconds: one day.
pub const MAX_WAKE_MILLIS: Millis = 24 * 60 * 60 * 1000;

/// What a plan is computed from.
pub struct PlanInput<'a> {
    /// The schedule.
    pub schedule: &'a CompiledSchedule,
    /// The nodes.
    pub seats: &'a SeatList,
    /// The last slot of a node that was started or skipped. Called once per seat: a hash table is fast enough for 50,000 nodes.
    pub handled: &'a dyn Fn(&Identity) -> Option<Millis>,
    /// When a node last ran, by whatever cause.
    pub last_run: &'a dyn Fn(&Identity) -> Option<Millis>,
    /// Whether a node runs now.
    pub running: &'a dyn Fn(&Identity) -> bool,
    /// How many runs of this schedule are in progress.
    pub in_flight: usize,
    /// When this schedule last started a run.
    pub last_start: Option<Millis>,
    /// When the schedule was added or resumed. Nothing that was due before is started.
    pub active_since: Millis,
    /// Now.
    pub now: Millis,
}

/// What to do now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchedulePlan {
    /// In this order.
    pub decisions: Vec<PlanDecision>,
    /// How many nodes are due and wait for their distance, for the limit, or for a window.
    pub waiting: usize,
    /// When to plan next. While nodes wait for the limit, also as soon as a run ends.
    pub next_wake: Millis,
}

/// One decision about one turn of a node. The caller records the slot as handled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlanDecision {
    /// Send the request.
    Start {
        /// The node.
        node: Identity,
        /// The turn.
        slot: Millis,
    },
    /// Record why not.
    Skip {
        /// The node.
        node: Identity,
        /// The turn.
        slot: Millis,
        /// Why.
        reason: SkipReason,
    },
}

/// Why a node does not run in a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkipReason {
    /// It ran within the time given by `skip_if_ran_within`.
    RanRecently {
        /// How long ago.
        ago: Millis,
    },
    /// It runs now.
    AlreadyRunning,
    /// It could not start in time: the scheduler did not run, or the limit was reached.
    Missed {
        /// How many turns in a row, up to this one; at most 100.
        turns: u32,
    },
    /// No start is permitted until the turn's last start.
    Closed,
}

impl std::fmt::Display for SkipReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::RanRecently { ago } => write!(f, "ran {} ago", format_millis(*ago)),
            Self::AlreadyRunning => f.write_str("already running"),
            Self::Missed { turns: 1 } => f.write_str("missed its last start"),
            Self::Missed { turns } => write!(f, "missed its last start in {turns} turns"),
            Self::Closed => f.write_str("outside the windows until its last start"),
        }
    }
}

/// A node that is due.
struct DueNode<'a> {
    due: Millis,
    seat: u32,
    node: &'a Identity,
    slot: Millis,
    /// The last instant at which it may start.
    last_start: Millis,
}

/// Plans. Costs one look-up per seat, and nothing that grows with time since the last call.
pub fn plan_starts(input: &PlanInput<'_>) -> SchedulePlan {
    let mut planner = Planner::new(input);
    for (number, seat) in input.seats.iter() {
        // A node that no longer matches is not started, even while it keeps its seat.
        if seat.absent_since.is_none() {
            planner.examine(number, seat);
        }
    }
    planner.finish()
}

struct Planner<'a, 'i> {
    input: &'a PlanInput<'i>,
    /// The last two turns that have begun, latest first.
    turns: Vec<ScheduleTurn>,
    due: Vec<DueNode<'i>>,
    decisions: Vec<PlanDecision>,
    next_wake: Millis,
    /// Missed turns by the slot that was handled last: the same for most nodes.
    missed: BTreeMap<(Millis, Millis), u32>,
}

impl<'a, 'i> Planner<'a, 'i> {
    fn new(input: &'a PlanInput<'i>) -> Self {
        let PlanInput { schedule, now, .. } = *input;
        let next_turn = schedule.next_turn_after(now).map(|turn| turn.begin());
        let latest = now.saturating_add(MAX_WAKE_MILLIS);
        Self {
            input,
            turns: schedule.turns_until(now, 2),
            due: Vec::new(),
            decisions: Vec::new(),
            next_wake: next_turn.unwrap_or(latest).min(latest),
            missed: BTreeMap::new(),
        }
    }

    fn wake_at(&mut self, instant: Millis) {
        self.next_wake = self.next_wake.min(instant);
    }

    /// Finds the turn of a node that is due, and skips it if it can no longer start.
    fn examine(&mut self, number: u32, seat: &'i ScheduleSeat) {
        let now = self.input.now;
        let handled = (self.input.handled)(&seat.node);
        let begin = self.input.active_since.max(seat.since);
        let mut current = None;
        for turn in &self.turns {
            if handled.is_some_and(|handled| handled >= turn.slot) {
                break;
            }
            let due = turn.due(number);
            if due > now {
                self.next_wake = self.next_wake.min(due);
            } else if due >= begin {
                let last_start = self.input.schedule.last_start(turn, due);
                current = Some(DueNode {
                    due,
                    seat: number,
                    node: &seat.node,
                    slot: turn.slot,
                    last_start,
                });
                break;
            }
        }
        let Some(due) = current else { return };
        self.report_missed_before(seat, handled, due.slot);
        match self.can_wait(&due) {
            Ok(()) => self.due.push(due),
            Err(reason) => self.skip(&seat.node, due.slot, reason),
        }
    }

    /// A newer turn replaces older ones that did not start.
    fn report_missed_before(&mut self, seat: &ScheduleSeat, handled: Option<Millis>, slot: Millis) {
        let begin = self.input.active_since.max(seat.since).saturating_sub(1);
        let after = handled.map_or(begin, |handled| handled.max(begin));
        let schedule = self.input.schedule;
        let turns = *self
            .missed
            .entry((after, slot))
            .or_insert_with(|| schedule.count_turns_between(after, slot));
        if turns > 0
            && let Some(before) = slot.checked_sub(1).and_then(|last| schedule.last_slot_at(last))
        {
            self.skip(&seat.node, before, SkipReason::Missed { turns });
        }
    }

    /// Whether a node that is due can still start, now or later.
    fn can_wait(&self, due: &DueNode<'_>) -> Result<(), SkipReason> {
        let PlanInput { schedule, now, .. } = *self.input;
        if now > due.last_start {
            return Err(if schedule.is_open(due.due) {
                SkipReason::Missed { turns: 1 }
            } else {
                SkipReason::Closed
            });
        }
        Ok(())
    }

    fn skip(&mut self, node: &Identity, slot: Millis, reason: SkipReason) {
        self.decisions.push(PlanDecision::Skip { node: node.clone(), slot, reason });
    }

    /// Starts what is due, in order, as far as distance, limit and windows permit.
    fn finish(mut self) -> SchedulePlan {
        let mut due = std::mem::take(&mut self.due);
        due.sort_unstable_by_key(|due| (due.due, due.seat));
        let mut waiting = 0;
        if !due.is_empty() {
            let allowed = self.allowed_starts();
            let mut started = 0;
            for candidate in due {
                if let Some(reason) = self.skip_reason(candidate.node) {
                    self.skip(candidate.node, candidate.slot, reason);
                } else if started < allowed {
                    started += 1;
                    let DueNode { node, slot, .. } = candidate;
                    self.decisions.push(PlanDecision::Start { node: node.clone(), slot });
                } else {
                    waiting += 1;
                    self.wake_at(candidate.last_start.saturating_add(1));
                }
            }
            self.wake_for_waiting(waiting, started);
        }
        let now = self.input.now;
        let next_wake = self.next_wake.max(now.saturating_add(MIN_WAKE_MILLIS));
        SchedulePlan { decisions: self.decisions, waiting, next_wake }
    }

    fn skip_reason(&self, node: &Identity) -> Option<SkipReason> {
        if (self.input.running)(node) {
            return Some(SkipReason::AlreadyRunning);
        }
        let within = self.input.schedule.skip_if_ran_within()?;
        let ago = self.input.now.saturating_sub((self.input.last_run)(node)?);
        (ago < within).then_some(SkipReason::RanRecently { ago })
    }

    /// How many nodes may start in this call.
    fn allowed_starts(&self) -> usize {
        let PlanInput { schedule, in_flight, now, last_start, .. } = *self.input;
        if !schedule.is_open(now) {
            return 0;
        }
        let room = match schedule.limit() {
            Some(limit) => limit.saturating_sub(in_flight),
            None => usize::MAX,
        };
        let pace = self.pace();
        if pace == 0 {
            return room;
        }
        // Several per call where the distance is shorter than the time between calls.
        let most = (MIN_WAKE_MILLIS.saturating_mul(2) / pace).max(1);
        let elapsed = last_start.map_or(most, |last| now.saturating_sub(last) / pace);
        room.min(usize::try_from(elapsed.min(most)).unwrap_or(usize::MAX))
    }

    fn pace(&self) -> Millis {
        let seats = self.input.seats.len();
        self.turns.iter().map(|turn| turn.pace(seats)).min().unwrap_or(0)
    }

    fn wake_for_waiting(&mut self, waiting: usize, started: usize) {
        let PlanInput { schedule, now, last_start, .. } = *self.input;
        if waiting == 0 {
            return;
        }
        if !schedule.is_open(now) {
            self.wake_at(schedule.next_open(now).unwrap_or(Millis::MAX));
            return;
        }
        let last = if started > 0 { now } else { last_start.unwrap_or(now) };
        let next = last.saturating_add(self.pace());
        // At a full limit the next wake-up is the end of a run.
        if next > now {
            self.wake_at(next);
        }
    }
}

impl CompiledSchedule {
    /// The last instant at which a node that is due at `due` may start.
    pub(crate) fn last_start(&self, turn: &ScheduleTurn, due: Millis) -> Millis {
        let last = due.saturating_add(self.catch_up()).min(self.last_admission(turn.slot));
        turn.last_start().map_or(last, |turn_last| turn_last.min(last))
    }

    /// How many nodes may run at once.
    pub fn limit(&self) -> Option<usize> {
        self.spec.limit.map(|limit| usize::try_from(limit.get()).unwrap_or(usize::MAX))
    }

    /// Nodes that ran within this time are skipped.
    pub fn skip_if_ran_within(&self) -> Option<Millis> {
        self.spec.skip_if_ran_within.map(crate::compile::millis)
    }
}

impl std::fmt::Debug for PlanInput<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PlanInput")
            .field("seats", &self.seats.len())
            .field("in_flight", &self.in_flight)
            .field("last_start", &self.last_start)
            .field("active_since", &self.active_since)
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}
