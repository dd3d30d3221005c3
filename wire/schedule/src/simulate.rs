//! The starts that a schedule will make, without making any: the planner's rules applied to expected durations.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use muster_wire::Millis;
use muster_wire::identity::Identity;

use crate::compile::CompiledSchedule;
use crate::seats::SeatList;
use crate::turns::ScheduleTurn;

/// Most starts that one simulation computes.
pub const MAX_SIMULATED_STARTS: usize = 200_000;

/// What is simulated.
pub struct SimulationInput<'a> {
    /// The schedule.
    pub schedule: &'a CompiledSchedule,
    /// The nodes.
    pub seats: &'a SeatList,
    /// How long a run on a node is expected to take.
    pub duration: &'a dyn Fn(&Identity) -> Millis,
    /// Begin of the simulated time. Nothing runs then.
    pub from: Millis,
    /// Its end.
    pub until: Millis,
}

impl std::fmt::Debug for SimulationInput<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SimulationInput")
            .field("from", &self.from)
            .field("until", &self.until)
            .finish_non_exhaustive()
    }
}

/// One simulated run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimulatedRun {
    /// Its start.
    pub at: Millis,
    /// Its expected end.
    pub ends: Millis,
    /// The node's seat.
    pub seat: u32,
    /// The turn.
    pub slot: Millis,
}

/// The result.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScheduleSimulation {
    /// In order of start.
    pub runs: Vec<SimulatedRun>,
    /// Turns of nodes that could not start in time.
    pub missed: usize,
    /// Turns of nodes that still ran.
    pub still_running: usize,
    /// Most runs at once.
    pub peak: usize,
    /// End of the simulated time: earlier than asked for if there are more than [`MAX_SIMULATED_STARTS`].
    pub until: Millis,
}

/// Simulates.
pub fn simulate_schedule(input: &SimulationInput<'_>) -> ScheduleSimulation {
    let mut simulator = Simulator {
        input,
        result: ScheduleSimulation { until: input.until, ..Default::default() },
        running: BinaryHeap::new(),
        busy_until: vec![0; input.seats.len()],
        last_start: None,
    };
    let mut turn = input.schedule.current_turn(input.from);
    if turn.is_none() {
        turn = input.schedule.next_turn_after(input.from);
    }
    while let Some(current) = turn.filter(|turn| turn.slot < input.until) {
        let next = input.schedule.next_turn_after(current.slot);
        if simulator.run_turn(&current, next.as_ref()).is_none() {
            simulator.result.until = current.slot;
            break;
        }
        turn = next;
    }
    simulator.result
}

struct Simulator<'a, 'i> {
    input: &'a SimulationInput<'i>,
    result: ScheduleSimulation,
    /// Ends of runs, the earliest first.
    running: BinaryHeap<Reverse<Millis>>,
    busy_until: Vec<Millis>,
    last_start: Option<Millis>,
}

impl Simulator<'_, '_> {
    /// Starts the nodes of a turn. `None` at the limit of starts.
    fn run_turn(&mut self, turn: &ScheduleTurn, next: Option<&ScheduleTurn>) -> Option<()> {
        let SimulationInput { seats, from, until, .. } = *self.input;
        let present = seats.iter().filter(|(_, seat)| seat.absent_since.is_none());
        let mut due: Vec<(Millis, u32)> =
            present.map(|(number, _)| (turn.due(number), number)).collect();
        due.retain(|(due, _)| (from..until).contains(due));
        if self.result.runs.len() + due.len() > MAX_SIMULATED_STARTS {
            return None;
        }
        due.sort_unstable();
        let pace = turn.pace(seats.len());
        for (due, seat) in due {
            let superseded = next.map_or(Millis::MAX, |next| next.due(seat));
            self.run_node(turn, due, seat, pace, superseded);
        }
        Some(())
    }

    fn run_node(
        &mut self,
        turn: &ScheduleTurn,
        due: Millis,
        seat: u32,
        pace: Millis,
        superseded: Millis,
    ) {
        let schedule = self.input.schedule;
        let mut at = self.last_start.map_or(due, |last| due.max(last.saturating_add(pace)));
        self.end_runs(at);
        if schedule.limit().is_some_and(|limit| self.running.len() >= limit)
            && let Some(Reverse(end)) = self.running.peek()
        {
            at = at.max(*end);
        }
        at = schedule.next_open(at).unwrap_or(Millis::MAX);
        if at > schedule.last_start(turn, due) || at >= superseded {
            self.result.missed += 1;
            return;
        }
        let index = usize::try_from(seat).unwrap_or(usize::MAX);
        let busy_until = self.busy_until.get(index).copied().unwrap_or(0);
        let Some(node) = self.input.seats.seats.get(index) else { return };
        if busy_until > at {
            self.result.still_running += 1;
            return;
        }
        // Only for a start: a node that is missed waits longer than those after it.
        self.end_runs(at);
        let ends = at.saturating_add((self.input.duration)(&node.node));
        if let Some(busy_until) = self.busy_until.get_mut(index) {
            *busy_until = ends;
        }
        self.last_start = Some(at);
        self.running.push(Reverse(ends));
        self.result.peak = self.result.peak.max(self.running.len());
        self.result.runs.push(SimulatedRun { at, ends, seat, slot: turn.slot });
    }

    fn end_runs(&mut self, at: Millis) {
        while self.running.peek().is_some_and(|Reverse(end)| *end <= at) {
            self.running.pop();
        }
    }
}
