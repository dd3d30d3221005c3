//! Nodes that have not run for more than two intervals.

use muster_wire::Millis;
use muster_wire::identity::Identity;

use crate::compile::CompiledSchedule;
use crate::seats::SeatList;

/// A node whose last run is too old.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OverdueNode {
    /// The node.
    pub node: Identity,
    /// Its last run; `None` if it has never run.
    pub last_run: Option<Millis>,
}

impl CompiledSchedule {
    /// A node whose last run is before this instant is overdue: two intervals ago. With a cron expression, windows or blackouts it is the begin of the last turn but two,
    /// so that a closed weekend reports no node. `None` if there have not been as many turns.
    pub fn overdue_before(&self, now: Millis) -> Option<Millis> {
        match self.interval() {
            Some(interval) if self.open_times.is_unrestricted() => {
                now.checked_sub(interval.saturating_mul(2))
            }
            _ => self.turns_until(now, 3).get(2).map(|turn| turn.slot),
        }
    }
}

/// The overdue nodes by seat. A node is not overdue before it has been in the schedule, and the schedule active, for that long.
pub fn find_overdue(
    schedule: &CompiledSchedule,
    seats: &SeatList,
    last_run: &dyn Fn(&Identity) -> Option<Millis>,
    active_since: Millis,
    now: Millis,
) -> Vec<OverdueNode> {
    let Some(limit) = schedule.overdue_before(now).filter(|limit| active_since < *limit) else {
        return Vec::new();
    };
    let present = seats.iter().map(|(_, seat)| seat).filter(|seat| seat.absent_since.is_none());
    let overdue = present.filter(|seat| seat.since < limit).filter_map(|seat| {
        let last_run = last_run(&seat.node);
        let is_overdue = last_run.is_none_or(|last| last < limit);
        is_overdue.then(|| OverdueNode { node: seat.node.clone(), last_run })
    });
    overdue.collect()
}
