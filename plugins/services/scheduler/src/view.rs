//! What an instance shows of a schedule, computed from what is stored and from the directory.

use std::collections::BTreeMap;

use muster_contract::schedule::{
    MAX_LISTED_SEATS, ScheduleEntry, ScheduleLoadRow, ScheduleOverdueRow, ScheduleRow,
    ScheduleSeatRow, ScheduleStartRow,
};
use muster_directory::SelectedNode;
use muster_schedule::{
    CompiledSchedule, OverdueNode, ScheduleSeat, SeatList, SimulationInput, find_overdue,
    load_curve, simulate_schedule,
};
use muster_wire::Millis;
use muster_wire::identity::{Identity, NameError, SubjectName};
use muster_wire::schedule_grant::OpenGrant;

use crate::error::SchedulerError;
use crate::handle::SchedulerHandle;
use crate::node_progress::{
    NodeProgress, TurnOutcome, UpcomingTurns, last_run, node_paths, seat_list,
};
use crate::store::ScheduleRecords;

/// First starts that `add` returns.
const FIRST_STARTS: usize = 5;
const LOAD_PARTS: usize = 60;
/// Length of the load curve of a schedule without an interval.
const DAY: Millis = 24 * HOUR;
/// Longest time of a request of a schedule without a time limit.
const HOUR: Millis = 60 * 60 * 1000;

pub(crate) fn parse_name(text: &str) -> Result<SubjectName, muster_api::ActionError> {
    SubjectName::parse(text).map_err(|error: NameError| {
        muster_api::ActionError::invalid_input(format!("`{text}`: {error}"))
    })
}

/// The first starts of a schedule that has no seats yet: new nodes take them in order.
pub(crate) fn first_starts(schedule: &CompiledSchedule, nodes: usize, now: Millis) -> Vec<Millis> {
    let turns = UpcomingTurns::new(schedule, now);
    let seats = u32::try_from(nodes).unwrap_or(u32::MAX);
    let mut starts: Vec<Millis> =
        (0..seats).filter_map(|seat| turns.next_start(seat, None)).collect();
    starts.sort_unstable();
    starts.truncate(FIRST_STARTS);
    starts
}

pub(crate) struct ScheduleView<'a> {
    pub(crate) name: &'a SubjectName,
    pub(crate) records: &'a ScheduleRecords,
    opened: Result<(OpenGrant, CompiledSchedule), SchedulerError>,
    pub(crate) selected: Vec<SelectedNode>,
    now: Millis,
    is_paused: bool,
}

impl<'a> ScheduleView<'a> {
    /// `None` if there is no such schedule.
    pub(crate) fn new(
        handle: &SchedulerHandle,
        name: &'a SubjectName,
        records: &'a ScheduleRecords,
        all_paused: bool,
    ) -> Option<Self> {
        let stored = records.schedule.as_ref()?;
        let opened = handle.open_schedule(&stored.grant);
        let selected = opened.as_ref().ok().and_then(|(_, schedule)| {
            let found = handle.directory().select_nodes(&schedule.spec().filter, &node_paths());
            found.ok().flatten()
        });
        Some(Self {
            name,
            records,
            opened,
            selected: selected.unwrap_or_default(),
            now: handle.now(),
            is_paused: all_paused || stored.pause.paused.is_some(),
        })
    }

    pub(crate) fn schedule(&self) -> Option<&CompiledSchedule> {
        self.opened.as_ref().ok().map(|(_, schedule)| schedule)
    }

    pub(crate) fn row(&self) -> ScheduleRow {
        let count = |outcome| {
            let nodes = self.records.nodes.values();
            nodes.filter(|known| known.last_outcome() == Some(outcome)).count()
        };
        let mut row = ScheduleRow {
            name: self.name.to_string().into(),
            nodes: self.selected.len(),
            running: self.count_running(),
            missed: count(TurnOutcome::Missed),
            ..ScheduleRow::default()
        };
        let (opened, schedule) = match &self.opened {
            Ok(opened) => opened,
            Err(error) => {
                row.state = "refused".into();
                row.reason = Some(muster_api::base::error_chain(error).into());
                return row;
            }
        };
        let spec = schedule.spec();
        row.author = opened.grant.author.to_string().into();
        row.what = format!("{} {}", spec.agent, spec.action).into();
        row.when = schedule.describe_timing().into();
        row.filter = spec.filter.explain().into();
        row.limit = spec.limit.map(std::num::NonZeroU32::get);
        row.ends = opened.ends_at();
        row.overdue = self.overdue().len();
        row.state = if self.is_paused { "paused" } else { "active" }.into();
        row.reason =
            self.records.schedule.as_ref().and_then(|stored| stored.pause.paused.as_ref()).map(
                |pause| {
                    let reason = pause.reason.as_ref().map(|reason| format!(": {}", reason.raw()));
                    format!("paused by {}{}", pause.by.raw(), reason.unwrap_or_default()).into()
                },
            );
        if !self.is_paused {
            row.next = self.starts().first().map(|(at, _)| *at);
        }
        row
    }

    /// Requests without a reply yet. What became of those of a leader that was killed is not known; they count for their time limit.
    fn count_running(&self) -> usize {
        let timeout = self.schedule().and_then(CompiledSchedule::timeout_millis);
        let since = self.now.saturating_sub(timeout.unwrap_or(HOUR));
        let turns = self.records.nodes.values().filter_map(|known| known.last.as_ref());
        turns.filter(|turn| turn.outcome == TurnOutcome::Begun && turn.at >= since).count()
    }

    /// The next start of each node, in order.
    fn starts(&self) -> Vec<(Millis, &Identity)> {
        let Some(schedule) = self.schedule() else { return Vec::new() };
        let turns = UpcomingTurns::new(schedule, self.now);
        let next_start = |known: &NodeProgress| {
            let seat = known.seat.filter(|seat| seat.absent_since.is_none())?;
            turns.next_start(seat.number, known.last.as_ref().map(|turn| turn.slot))
        };
        let nodes = self.records.nodes.iter();
        let mut starts: Vec<(Millis, &Identity)> =
            nodes.filter_map(|(node, known)| Some((next_start(known)?, node))).collect();
        starts.sort_unstable();
        starts
    }

    pub(crate) fn start_rows(&self, count: usize) -> Vec<ScheduleStartRow> {
        let starts = self.starts().into_iter().take(count);
        starts.map(|(at, node)| ScheduleStartRow { node: node.as_str().into(), at }).collect()
    }

    pub(crate) fn seats(&self) -> SeatList {
        seat_list(&self.records.nodes)
    }

    /// The nodes in the order of their seats; none if they are too many for an answer.
    pub(crate) fn seat_rows(&self) -> Vec<ScheduleSeatRow> {
        let (seats, duration) = (self.seats(), self.durations());
        if seats.len() > MAX_LISTED_SEATS {
            return Vec::new();
        }
        let row = |(_, seat): (u32, &ScheduleSeat)| ScheduleSeatRow {
            node: seat.node.to_string(),
            expected_ms: duration(&seat.node),
        };
        seats.iter().map(row).collect()
    }

    /// Nodes whose last run is older than two intervals.
    pub(crate) fn overdue(&self) -> Vec<ScheduleOverdueRow> {
        let Ok((_, schedule)) = &self.opened else { return Vec::new() };
        let selected: BTreeMap<&Identity, &SelectedNode> =
            self.selected.iter().map(|node| (&node.identity, node)).collect();
        let last_run = |node: &Identity| {
            last_run(schedule, selected.get(node).copied(), self.records.nodes.get(node))
        };
        let found = find_overdue(schedule, &self.seats(), &last_run, self.issued_at(), self.now);
        let row = |overdue: OverdueNode| ScheduleOverdueRow {
            node: overdue.node.as_str().into(),
            last: overdue.last_run,
        };
        found.into_iter().map(row).collect()
    }

    fn issued_at(&self) -> Millis {
        self.opened.as_ref().map_or(0, |(opened, _)| opened.grant.issued_at)
    }

    /// How long the last run of a node took; the mean of all for a node without one.
    fn durations(&self) -> impl Fn(&Identity) -> Option<Millis> {
        let nodes = &self.records.nodes;
        let known: Vec<Millis> = nodes.values().filter_map(|known| known.duration).collect();
        let count = u64::try_from(known.len()).unwrap_or(u64::MAX);
        let mean = known.iter().sum::<Millis>().checked_div(count);
        move |node| nodes.get(node).and_then(|known| known.duration).or(mean)
    }

    /// The expected load over the next interval, or day; its peak, and the peak after an assignment by durations.
    pub(crate) fn load(&self) -> (Vec<ScheduleLoadRow>, u32, u32) {
        let Some(schedule) = self.schedule() else { return (Vec::new(), 0, 0) };
        let (seats, duration) = (self.seats(), self.durations());
        let length = schedule.interval().unwrap_or(DAY);
        let until = self.now.saturating_add(length);
        let expected = |node: &Identity| duration(node).unwrap_or(0);
        let simulation = simulate_schedule(&SimulationInput {
            schedule,
            seats: &seats,
            duration: &expected,
            from: self.now,
            until,
        });
        let curve = load_curve(&simulation.runs, self.now, until, LOAD_PARTS);
        let rows =
            curve.into_iter().map(|bin| ScheduleLoadRow { at: bin.from, running: bin.running });
        let mut balanced = seats.clone();
        balanced.rebalance(schedule.spread(), &duration);
        let peak = |seats: &SeatList| seats.expected_peak(schedule.spread(), &duration);
        (rows.collect(), peak(&seats), peak(&balanced))
    }

    /// Nodes whose last turn could not begin.
    pub(crate) fn missed(&self) -> Vec<ScheduleEntry> {
        let nodes = self.records.nodes.iter();
        let missed = nodes.filter(|(_, known)| known.last_outcome() == Some(TurnOutcome::Missed));
        missed.filter_map(|(node, known)| Some(known.last.as_ref()?.to_entry(node))).collect()
    }
}
