//! A simulated fleet: the real planner, a clock that jumps from wake-up to wake-up, and nodes that run for a given time.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use muster_schedule::{
    CompiledSchedule, PlanDecision, PlanInput, ScheduleSpec, SeatList, SkipReason, plan_starts,
};
use muster_wire::Millis;
use muster_wire::identity::Identity;
use serde_json::{Value, json};

/// 2026-03-02 00:00 UTC, a Monday and a multiple of each tested interval.
pub(crate) const MONDAY: Millis = 1_772_409_600_000;
pub(crate) const SECOND: Millis = 1000;
pub(crate) const MINUTE: Millis = 60 * SECOND;
pub(crate) const HOUR: Millis = 60 * MINUTE;

/// The schedule of `puppet runonce` with these fields.
#[expect(clippy::needless_pass_by_value, reason = "callers pass literals of `json!`")]
pub(crate) fn spec(fields: Value) -> ScheduleSpec {
    let mut spec = json!({"agent": "puppet", "action": "runonce"});
    spec.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    ScheduleSpec::from_json(spec.to_string().as_bytes()).unwrap()
}

pub(crate) fn schedule(fields: Value) -> CompiledSchedule {
    spec(fields).compile().unwrap()
}

pub(crate) fn node(number: usize) -> Identity {
    Identity::parse(&format!("node{number}.example.net")).unwrap()
}

pub(crate) fn members(numbers: impl IntoIterator<Item = usize>) -> BTreeSet<Identity> {
    numbers.into_iter().map(node).collect()
}

/// An instant as RFC 3339.
pub(crate) fn at(text: &str) -> Millis {
    text.parse::<jiff::Timestamp>().unwrap().as_millisecond().try_into().unwrap()
}

/// One start.
#[derive(Debug, Clone)]
pub(crate) struct Start {
    pub(crate) at: Millis,
    pub(crate) node: Identity,
    pub(crate) slot: Millis,
}

pub(crate) struct Fleet {
    pub(crate) schedule: CompiledSchedule,
    pub(crate) seats: SeatList,
    pub(crate) now: Millis,
    pub(crate) active_since: Millis,
    pub(crate) duration: Millis,
    pub(crate) starts: Vec<Start>,
    pub(crate) skips: Vec<(Millis, Identity, Millis, SkipReason)>,
    pub(crate) handled: HashMap<Identity, Millis>,
    pub(crate) last_run: HashMap<Identity, Millis>,
    pub(crate) running: HashMap<Identity, Millis>,
    pub(crate) most_running: usize,
    pub(crate) plans: usize,
    last_start: Option<Millis>,
}

impl Fleet {
    pub(crate) fn new(schedule: CompiledSchedule, nodes: usize, now: Millis) -> Self {
        let mut seats = SeatList::default();
        seats.assign(&members(0..nodes), now, 0);
        Self {
            schedule,
            seats,
            now,
            active_since: now,
            duration: 0,
            starts: Vec::new(),
            skips: Vec::new(),
            handled: HashMap::new(),
            last_run: HashMap::new(),
            running: HashMap::new(),
            most_running: 0,
            plans: 0,
            last_start: None,
        }
    }

    /// Plans until that time.
    pub(crate) fn run_until(&mut self, until: Millis) {
        while self.now < until {
            let next = self.plan();
            let next_end = self.running.values().min().copied().unwrap_or(Millis::MAX);
            assert!(next > self.now, "the clock must advance");
            self.now = next.min(next_end.max(self.now + 1)).min(until);
        }
    }

    /// The scheduler does not run until that time. Its state survives.
    pub(crate) fn outage_until(&mut self, until: Millis) {
        self.now = until;
    }

    fn plan(&mut self) -> Millis {
        self.plans += 1;
        let now = self.now;
        self.running.retain(|_, end| *end > now);
        let plan = plan_starts(&PlanInput {
            schedule: &self.schedule,
            seats: &self.seats,
            handled: &|node| self.handled.get(node).copied(),
            last_run: &|node| self.last_run.get(node).copied(),
            running: &|node| self.running.contains_key(node),
            in_flight: self.running.len(),
            last_start: self.last_start,
            active_since: self.active_since,
            now,
        });
        for decision in plan.decisions {
            let (node, slot) = match decision {
                PlanDecision::Start { node, slot } => {
                    self.schedule.admits(slot, now).unwrap();
                    self.last_start = Some(now);
                    self.last_run.insert(node.clone(), now);
                    if self.duration > 0 {
                        self.running.insert(node.clone(), now + self.duration);
                    }
                    self.starts.push(Start { at: now, node: node.clone(), slot });
                    (node, slot)
                }
                PlanDecision::Skip { node, slot, reason } => {
                    self.skips.push((now, node.clone(), slot, reason));
                    (node, slot)
                }
            };
            let before = self.handled.insert(node, slot);
            assert!(before.is_none_or(|before| before < slot), "a slot is handled once");
        }
        self.most_running = self.most_running.max(self.running.len());
        plan.next_wake
    }

    /// The most starts in any window of this length.
    pub(crate) fn most_starts_within(&self, window: Millis) -> usize {
        let starts: Vec<Millis> = self.starts.iter().map(|start| start.at).collect();
        let count = |(index, from): (usize, &Millis)| {
            starts.iter().skip(index).take_while(|at| **at - *from < window).count()
        };
        starts.iter().enumerate().map(count).max().unwrap_or(0)
    }

    /// The longest time between two starts of one node.
    pub(crate) fn longest_gap(&self) -> Millis {
        let mut last: BTreeMap<&Identity, Millis> = BTreeMap::new();
        let mut longest = 0;
        for Start { at, node, .. } in &self.starts {
            let before = last.insert(node, *at);
            longest = longest.max(before.map_or(0, |before| at - before));
        }
        longest
    }
}
