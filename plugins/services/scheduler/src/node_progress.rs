//! What is known of one node of a schedule: its stored seat and turns, and what its record in the directory says of Puppet. Pure.

use std::collections::BTreeMap;

use muster_contract::schedule::ScheduleEntry;
use muster_directory::{SelectedNode, ValuePath};
use muster_schedule::{CompiledSchedule, ScheduleSeat, ScheduleTurn, SeatList};
use muster_wire::Millis;
use muster_wire::identity::Identity;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Path of the time of Puppet's last run, in seconds since the epoch.
const LAST_RUN_PATH: &str = "state.puppet.last_run.time";
/// Path of whether Puppet applies a catalog.
const APPLYING_PATH: &str = "state.puppet.applying";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TurnOutcome {
    /// The request was sent.
    Begun,
    Succeeded,
    Failed,
    /// The node does not need it: it has run recently, or runs now.
    Skipped,
    /// The request was cancelled: by a pause before its work began, or by `rpc cancel`.
    Cancelled,
    Refused,
    NoAnswer,
    /// It could not begin before the last start of the turn.
    Missed,
}

impl TurnOutcome {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Begun => "begun",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
            Self::Cancelled => "cancelled",
            Self::Refused => "refused",
            Self::NoAnswer => "no_answer",
            Self::Missed => "missed",
        }
    }
}

/// The last turn of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NodeTurn {
    /// The time in the schedule.
    pub(crate) slot: Millis,
    /// When it was decided.
    pub(crate) at: Millis,
    pub(crate) outcome: TurnOutcome,
    /// Why, or the result in words.
    pub(crate) reason: String,
    pub(crate) took_ms: Millis,
}

impl NodeTurn {
    pub(crate) fn to_entry(&self, node: &Identity) -> ScheduleEntry {
        ScheduleEntry {
            at: self.at,
            slot: self.slot,
            node: node.as_str().into(),
            outcome: self.outcome.as_str().into(),
            reason: self.reason.as_str().into(),
            took_ms: self.took_ms,
        }
    }
}

/// The seat of a node: see [`SeatList`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredSeat {
    pub(crate) number: u32,
    /// When the node joined the schedule.
    pub(crate) since: Millis,
    /// Since when it no longer matches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) absent_since: Option<Millis>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NodeProgress {
    /// Its seat; absent after it has left the schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) seat: Option<StoredSeat>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) last: Option<NodeTurn>,
    /// When its action succeeded last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) succeeded: Option<Millis>,
    /// How long its last successful request took, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) duration: Option<Millis>,
}

impl NodeProgress {
    pub(crate) fn last_outcome(&self) -> Option<TurnOutcome> {
        self.last.as_ref().map(|turn| turn.outcome)
    }
}

/// The paths of what a schedule reads of each node.
pub(crate) fn node_paths() -> Vec<ValuePath> {
    [LAST_RUN_PATH, APPLYING_PATH].iter().filter_map(|path| ValuePath::parse(path).ok()).collect()
}

/// Whether Puppet applies a catalog on a node, for any reason.
pub(crate) fn is_applying(node: &SelectedNode) -> bool {
    node.values.get(APPLYING_PATH).and_then(Value::as_bool) == Some(true)
}

/// The last run of a node: by its own record for Puppet, otherwise the last success of the schedule's action.
pub(crate) fn last_run(
    schedule: &CompiledSchedule,
    selected: Option<&SelectedNode>,
    known: Option<&NodeProgress>,
) -> Option<Millis> {
    if !schedule.is_puppet_run() {
        return known?.succeeded;
    }
    let seconds = selected?.values.get(LAST_RUN_PATH).and_then(Value::as_u64)?;
    Some(seconds.saturating_mul(1000))
}

pub(crate) fn seat_list(nodes: &BTreeMap<Identity, NodeProgress>) -> SeatList {
    let mut seated: Vec<(&Identity, StoredSeat)> =
        nodes.iter().filter_map(|(node, known)| Some((node, known.seat?))).collect();
    // Two nodes have the same seat only after a leader was killed between two writes.
    seated.sort_by_key(|(_, seat)| seat.number);
    let seats = seated.into_iter().map(|(node, seat)| ScheduleSeat {
        node: node.clone(),
        since: seat.since,
        absent_since: seat.absent_since,
    });
    SeatList::try_from(seats.collect::<Vec<_>>()).unwrap_or_default()
}

/// The turn that goes on, and the one after it.
pub(crate) struct UpcomingTurns {
    current: Option<ScheduleTurn>,
    next: Option<ScheduleTurn>,
    now: Millis,
}

impl UpcomingTurns {
    pub(crate) fn new(schedule: &CompiledSchedule, now: Millis) -> Self {
        let current = schedule.current_turn(now);
        let next = schedule.next_turn_after(current.as_ref().map_or(now, |turn| turn.slot));
        Self { current, next, now }
    }

    /// The next start on a seat, if the turn of `handled` was the last one.
    pub(crate) fn next_start(&self, seat: u32, handled: Option<Millis>) -> Option<Millis> {
        let is_open = |turn: &&ScheduleTurn| handled.is_none_or(|handled| handled < turn.slot);
        let current = self.current.as_ref().filter(is_open).map(|turn| turn.due(seat));
        let next = || self.next.as_ref().map(|turn| turn.due(seat));
        current.filter(|due| *due > self.now).or_else(next)
    }
}

#[cfg(test)]
mod tests {
    use muster_directory::SelectedNode;
    use muster_schedule::{CompiledSchedule, ScheduleSpec};
    use muster_wire::identity::Identity;
    use serde_json::json;

    use super::{LAST_RUN_PATH, NodeProgress, NodeTurn, TurnOutcome, UpcomingTurns, last_run};

    fn schedule(agent: &str, action: &str) -> CompiledSchedule {
        let spec = json!({"agent": agent, "action": action, "every": 100});
        let spec: ScheduleSpec = serde_json::from_value(spec).unwrap();
        spec.compile().unwrap()
    }

    #[test]
    fn last_run_is_the_last_success_also_while_a_turn_goes_on() {
        let turn =
            |outcome| NodeTurn { slot: 1, at: 9, outcome, reason: String::new(), took_ms: 0 };
        for outcome in [TurnOutcome::Begun, TurnOutcome::Skipped, TurnOutcome::Failed] {
            let known = NodeProgress {
                last: Some(turn(outcome)),
                succeeded: Some(5),
                ..Default::default()
            };
            assert_eq!(last_run(&schedule("filemgr", "touch"), None, Some(&known)), Some(5));
        }
        let node = SelectedNode {
            identity: Identity::parse("web1").unwrap(),
            is_missing: false,
            values: [(LAST_RUN_PATH.to_owned(), json!(7))].into(),
        };
        let puppet = schedule("puppet", "runonce");
        assert_eq!(last_run(&puppet, Some(&node), Some(&NodeProgress::default())), Some(7000));
        assert_eq!(last_run(&puppet, None, None), None);
    }

    /// The window of Monday is open until Tuesday at 04:00, when the turn of Tuesday has begun.
    #[test]
    fn next_start_is_in_the_window_that_is_still_open() {
        let spec = json!({"agent": "filemgr", "action": "touch", "every": 86_400, "windows": ["22:00-04:00"]});
        let spec: ScheduleSpec = serde_json::from_value(spec).unwrap();
        let schedule = spec.compile().unwrap();
        let (monday, hour) = (1_772_409_600_000, 3_600_000);
        let tuesday = monday + 24 * hour;
        let now = tuesday + hour;
        let turns = UpcomingTurns::new(&schedule, now);
        // Seat 3 has three quarters of the six hours.
        let (due, next) = (tuesday + 2 * hour + hour / 2, tuesday + 26 * hour + hour / 2);
        assert_eq!(turns.next_start(3, Some(monday - 24 * hour)), Some(due));
        assert_eq!(turns.next_start(3, Some(monday)), Some(next));
        assert_eq!(schedule.current_slot(now), Some(monday), "a resumed schedule begins with it");
        assert_eq!(schedule.current_slot(tuesday + 4 * hour), Some(tuesday));
    }

    #[test]
    fn next_start_is_in_the_next_turn_after_one_that_was_handled() {
        let turns = UpcomingTurns::new(&schedule("filemgr", "touch"), 1_020_000);
        // Seat 1 is in the middle of the interval of 100 s.
        assert_eq!(turns.next_start(1, Some(900_000)), Some(1_050_000));
        assert_eq!(turns.next_start(1, Some(1_000_000)), Some(1_150_000));
        assert_eq!(turns.next_start(0, None), Some(1_100_000), "its start has passed");
    }
}
