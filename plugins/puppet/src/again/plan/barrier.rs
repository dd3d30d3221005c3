//! Conditions on other nodes that the pending run waits for. The directory evaluates them; the planner has their times.

use muster_api::wire::Millis;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::request::PendingRun;

/// Most conditions with different filters of a pending run.
pub const MAX_BARRIERS: usize = 8;

/// A condition: each other node that matches has finished a run of Puppet after the end of the run that asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BarrierCondition {
    /// The query as written, for people.
    pub query: String,
    /// The filter in its JSON form, as records carry it.
    pub filter: String,
    /// How long after the end of the run that asks the condition is waited for, in milliseconds.
    pub timeout: Millis,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BarrierEnd {
    /// The directory reported that it holds.
    Released,
    /// The run no longer waits for it.
    TimedOut,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunBarrier {
    /// Its id: that of the last request that has it. A release names it.
    pub id: Uuid,
    pub condition: BarrierCondition,
    /// The end of the run that asks, by the wall clock; `None` while it goes on.
    pub after: Option<Millis>,
    /// When the run no longer waits.
    pub expires: Option<Millis>,
    /// How it ended; `None` while the run waits.
    pub end: Option<BarrierEnd>,
}

impl RunBarrier {
    fn new(id: Uuid, condition: BarrierCondition) -> Self {
        Self { id, condition, after: None, expires: None, end: None }
    }

    /// Whether the directory may evaluate it: the run that asks has ended, and the condition has not.
    pub fn is_evaluable(&self) -> bool {
        self.after.is_some() && self.end.is_none()
    }

    /// Whether the run stops waiting at this time.
    fn is_expired(&self, now: Millis) -> bool {
        self.end.is_none() && self.expires.is_some_and(|expires| expires <= now)
    }
}

impl PendingRun {
    pub fn has_room_for(&self, condition: &BarrierCondition) -> bool {
        self.barriers.len() < MAX_BARRIERS || self.find_barrier(condition).is_some()
    }

    /// Adds a condition. One with the same filter is replaced, because its run ended earlier; the longer timeout counts.
    pub(super) fn add_barrier(&mut self, id: Uuid, condition: &BarrierCondition) {
        let mut barrier = RunBarrier::new(id, condition.clone());
        if let Some(known) = self.find_barrier(condition).and_then(|at| self.barriers.get(at)) {
            barrier.condition.timeout = known.condition.timeout.max(condition.timeout);
        }
        self.put_barrier(barrier);
    }

    fn find_barrier(&self, condition: &BarrierCondition) -> Option<usize> {
        self.barriers.iter().position(|known| known.condition.filter == condition.filter)
    }

    /// The run that asks ended at `after` by the wall clock. The timeouts of its conditions begin now.
    pub(super) fn start_barriers(&mut self, after: Millis, now: Millis) {
        for barrier in self.barriers.iter_mut().filter(|barrier| barrier.after.is_none()) {
            barrier.after = Some(after);
            barrier.expires = Some(now.saturating_add(barrier.condition.timeout));
        }
    }

    /// Ends a condition. Returns its query, unless it has ended before, or is not one that the directory may evaluate.
    pub(super) fn end_barrier(&mut self, id: Uuid, end: BarrierEnd) -> Option<String> {
        let barrier = self.barriers.iter_mut().find(|barrier| barrier.id == id)?;
        if !barrier.is_evaluable() {
            return None;
        }
        barrier.end = Some(end);
        Some(barrier.condition.query.clone())
    }

    /// Whether a release with this id would change something.
    pub fn awaits_release(&self, id: Uuid) -> bool {
        self.barriers.iter().any(|barrier| barrier.id == id && barrier.is_evaluable())
    }

    /// The conditions that the run waits for.
    pub fn open_barriers(&self) -> impl Iterator<Item = &RunBarrier> {
        self.barriers.iter().filter(|barrier| barrier.end.is_none())
    }

    /// When the first of the conditions is no longer waited for; `None` if there are none.
    pub(super) fn next_expiry(&self) -> Option<Millis> {
        self.open_barriers().filter_map(|barrier| barrier.expires).min()
    }

    /// The conditions that are no longer waited for at this time.
    pub fn expired_barriers(&self, now: Millis) -> Vec<Uuid> {
        let expired = self.barriers.iter().filter(|barrier| barrier.is_expired(now));
        expired.map(|barrier| barrier.id).collect()
    }

    /// How the conditions ended, for people; `None` without conditions, and while the run waits.
    pub fn barrier_outcome(&self) -> Option<&'static str> {
        let ends = self.barriers.iter().map(|barrier| barrier.end);
        let ends: Vec<BarrierEnd> = ends.collect::<Option<_>>()?;
        match ends.as_slice() {
            [] => None,
            ends if ends.contains(&BarrierEnd::TimedOut) => Some("barrier timed out"),
            _ => Some("barrier released"),
        }
    }

    /// Takes over the conditions of a run that was asked for later.
    pub(super) fn merge_barriers(&mut self, newer: Vec<RunBarrier>) {
        for barrier in newer {
            self.put_barrier(barrier);
        }
    }

    fn put_barrier(&mut self, barrier: RunBarrier) {
        let known = self.find_barrier(&barrier.condition);
        match known.and_then(|at| self.barriers.get_mut(at)) {
            Some(known) => *known = barrier,
            None => self.barriers.push(barrier),
        }
    }
}
