//! One schedule in the hands of the leader: its nodes and seats, their last turns, and what is in progress.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroU32;

use muster_api::base::duration_millis;
use muster_bus::{Bytes, json_bytes};
use muster_contract::schedule::ScheduleEntry;
use muster_directory::SelectedNode;
use muster_schedule::{
    CompiledSchedule, PlanInput, SchedulePlan, ScheduleSeat, SeatList, SkipReason, find_overdue,
    plan_starts,
};
use muster_wire::Millis;
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::schedule_grant::OpenGrant;

use crate::node_progress::{
    NodeProgress, NodeTurn, StoredSeat, TurnOutcome, is_applying, last_run, seat_list,
};
use crate::store::{MAX_HISTORY, PauseState, ScheduleRecords, StoreKey, TurnPart};
use crate::turn::{DueTurn, FinishedTurn, reply_patience};

/// How long a request of the leader before counts against the limit, if the schedule states no timeout.
const INHERITED_TIMEOUT: Millis = 60_000;
/// A node that does not match the filter keeps its seat for this number of intervals.
const KEEP_ABSENT_INTERVALS: u64 = 2;
/// The same for schedules without an interval.
const KEEP_ABSENT: Millis = 24 * 60 * 60 * 1000;

/// One schedule in the hands of the leader.
#[derive(Debug)]
pub(crate) struct ActiveSchedule {
    pub(crate) name: SubjectName,
    pub(crate) text: String,
    pub(crate) opened: OpenGrant,
    pub(crate) schedule: CompiledSchedule,
    pub(crate) is_paused: bool,
    /// Turns that were due before this time are ignored.
    active_since: Millis,
    seats: SeatList,
    nodes: BTreeMap<Identity, NodeProgress>,
    selected: BTreeMap<Identity, SelectedNode>,
    /// The last request to assign seats by load that was followed.
    rebalanced: Option<Millis>,
    /// Whether the directory was ready once.
    selected_once: bool,
    overdue: BTreeSet<Identity>,
    in_flight: BTreeSet<Identity>,
    /// When the previous leader sent the requests whose results it did not store.
    inherited: BTreeMap<Identity, Millis>,
    last_start: Option<Millis>,
    history: VecDeque<ScheduleEntry>,
    /// Keys whose values differ from what is stored.
    dirty: BTreeSet<StoreKey>,
}

impl ActiveSchedule {
    pub(crate) fn new(
        name: SubjectName,
        text: String,
        opened: OpenGrant,
        schedule: CompiledSchedule,
        records: &ScheduleRecords,
    ) -> Self {
        let seats = seat_list(&records.nodes);
        let begun = |(node, known): (&Identity, &NodeProgress)| {
            let turn = known.last.as_ref().filter(|turn| turn.outcome == TurnOutcome::Begun)?;
            Some((node.clone(), turn.at))
        };
        let inherited = records.nodes.iter().filter_map(begun).collect();
        Self {
            name,
            text,
            opened,
            schedule,
            is_paused: false,
            active_since: 0,
            seats,
            nodes: records.nodes.clone(),
            selected: BTreeMap::new(),
            rebalanced: records.schedule.as_ref().and_then(|stored| stored.rebalance),
            selected_once: false,
            overdue: BTreeSet::new(),
            in_flight: BTreeSet::new(),
            inherited,
            last_start: None,
            history: records.history.clone(),
            dirty: BTreeSet::new(),
        }
    }

    /// Replaces the signed schedule and keeps the nodes and their turns.
    pub(crate) fn replace(&mut self, text: String, opened: OpenGrant, schedule: CompiledSchedule) {
        (self.text, self.opened, self.schedule) = (text, opened, schedule);
        // The filter may have changed.
        self.selected_once = false;
    }

    /// Sets whether this schedule, or all, are paused; returns whether a pause begins. After a pause the current turn is made up for. Earlier turns are not
    /// reported as missed.
    pub(crate) fn set_pause(&mut self, own: &PauseState, all: &PauseState) -> bool {
        let was_paused = self.is_paused;
        self.is_paused = own.paused.is_some() || all.paused.is_some();
        let resumed = own.resumed.max(all.resumed);
        let turn = resumed.map(|resumed| self.schedule.current_slot(resumed).unwrap_or(resumed));
        self.active_since = self.opened.grant.issued_at.max(turn.unwrap_or(0));
        self.is_paused && !was_paused
    }

    /// Turns without a result, of this leader and of earlier ones.
    pub(crate) fn begun_turns(&self) -> Vec<DueTurn> {
        let turn = |(node, known): (&Identity, &NodeProgress)| {
            let last = known.last.as_ref().filter(|last| last.outcome == TurnOutcome::Begun)?;
            Some(DueTurn { schedule: self.name.clone(), node: node.clone(), slot: last.slot })
        };
        self.nodes.iter().filter_map(turn).collect()
    }

    /// Takes the nodes that match now, and gives seats to new ones.
    pub(crate) fn update_nodes(&mut self, selected: Vec<SelectedNode>, now: Millis) {
        let members: BTreeSet<Identity> =
            selected.iter().map(|node| node.identity.clone()).collect();
        self.selected = selected.into_iter().map(|node| (node.identity.clone(), node)).collect();
        self.selected_once = true;
        let keep_absent = self.schedule.interval();
        let keep_absent =
            keep_absent.map_or(KEEP_ABSENT, |interval| interval * KEEP_ABSENT_INTERVALS);
        let mut changes = self.seats.assign(&members, now, keep_absent);
        if changes.is_empty() {
            return;
        }
        let nodes = &self.nodes;
        let duration = |node: &Identity| nodes.get(node)?.duration;
        self.seats.balance_joined(&mut changes.joined, self.schedule.spread(), &duration);
        for node in &changes.left {
            self.nodes.remove(node);
            self.dirty.insert(StoreKey::turns_of(&self.name, node));
        }
        self.store_seats();
    }

    /// Notes the seats that differ from what is stored.
    fn store_seats(&mut self) {
        for (number, ScheduleSeat { node, since, absent_since }) in self.seats.iter() {
            let seat = StoredSeat { number, since: *since, absent_since: *absent_since };
            let known = self.nodes.entry(node.clone()).or_default();
            if known.seat.map(|known| known.number) != Some(number) {
                known.seat = Some(seat);
                self.dirty.insert(StoreKey::turns_of(&self.name, node));
            }
        }
    }

    /// Assigns the seats by load, if a caller has asked for it since the last call.
    pub(crate) fn rebalance_if_requested(&mut self, requested: Option<Millis>) {
        if requested == self.rebalanced {
            return;
        }
        self.rebalanced = requested;
        let nodes = &self.nodes;
        let duration = |node: &Identity| nodes.get(node)?.duration;
        let moves = self.seats.rebalance(self.schedule.spread(), &duration);
        tracing::info!(schedule = %self.name, moved = moves.len(), "assigned the seats by load");
        self.store_seats();
    }

    /// The pool whose health limits the schedule.
    pub(crate) fn pool(&self) -> Option<&SubjectName> {
        self.schedule.spec().pool.as_ref()
    }

    /// Whether the nodes that match are known.
    pub(crate) fn is_selected(&self) -> bool {
        self.selected_once
    }

    /// Nodes that have become overdue since the last call.
    pub(crate) fn take_overdue(&mut self, now: Millis) -> BTreeSet<Identity> {
        let last_run = |node: &Identity| self.last_run(node);
        let found = find_overdue(&self.schedule, &self.seats, &last_run, self.active_since, now);
        let overdue: BTreeSet<Identity> = found.into_iter().map(|overdue| overdue.node).collect();
        let new = overdue.difference(&self.overdue).cloned().collect();
        self.overdue = overdue;
        new
    }

    /// What is to be done now.
    ///
    /// `pool_limit` is the limit that the health of the pool permits. It only lowers the schedule's own, so requests are as the author signed them.
    pub(crate) fn plan(&self, now: Millis, pool_limit: Option<u32>) -> SchedulePlan {
        let last_run = |node: &Identity| self.last_run(node);
        let handled = |node: &Identity| Some(self.nodes.get(node)?.last.as_ref()?.slot);
        let running = |node: &Identity| {
            self.in_flight.contains(node)
                || self.schedule.is_puppet_run() && self.selected.get(node).is_some_and(is_applying)
        };
        let inherited = self.count_inherited(now);
        let limit = self.schedule.spec().limit.map(NonZeroU32::get);
        let reserved = limit.zip(pool_limit).map(|(limit, pool)| limit.saturating_sub(pool));
        let reserved = usize::try_from(reserved.unwrap_or(0)).unwrap_or(usize::MAX);
        plan_starts(&PlanInput {
            schedule: &self.schedule,
            seats: &self.seats,
            handled: &handled,
            last_run: &last_run,
            running: &running,
            in_flight: self.in_flight.len().saturating_add(inherited).saturating_add(reserved),
            last_start: self.last_start,
            active_since: self.active_since,
            now,
        })
    }

    /// Number of requests of the previous leader that may still run. Puppet runs are counted by permits.
    fn count_inherited(&self, now: Millis) -> usize {
        if self.schedule.is_puppet_run() {
            return 0;
        }
        let timeout = self.schedule.timeout_millis().unwrap_or(INHERITED_TIMEOUT);
        self.inherited.values().filter(|sent| sent.saturating_add(timeout) > now).count()
    }

    /// Records the turns of the previous leader whose replies can no longer arrive.
    pub(crate) fn end_inherited(&mut self, now: Millis) {
        let patience = duration_millis(reply_patience(&self.schedule));
        let over = self.inherited.extract_if(.., |_, sent| sent.saturating_add(patience) < now);
        for (node, _) in over.collect::<Vec<_>>() {
            self.end_inherited_turn(&node);
        }
    }

    fn end_inherited_turn(&mut self, node: &Identity) {
        let last = self.nodes.get(node).and_then(|known| known.last.clone());
        let Some(last) = last.filter(|last| last.outcome == TurnOutcome::Begun) else { return };
        let reason = "the previous leader did not store the reply".to_owned();
        let turn = NodeTurn { outcome: TurnOutcome::NoAnswer, reason, ..last };
        self.push_history(&turn, node);
        self.store_turn(node, turn);
    }

    fn last_run(&self, node: &Identity) -> Option<Millis> {
        last_run(&self.schedule, self.selected.get(node), self.nodes.get(node))
    }

    /// Notes that a request is sent.
    pub(crate) fn begin(&mut self, turn: &DueTurn, now: Millis) {
        if self.inherited.remove(&turn.node).is_some() {
            self.end_inherited_turn(&turn.node);
        }
        self.in_flight.insert(turn.node.clone());
        self.last_start = Some(now);
        let begun = NodeTurn {
            slot: turn.slot,
            at: now,
            outcome: TurnOutcome::Begun,
            reason: String::new(),
            took_ms: 0,
        };
        self.store_turn(&turn.node, begun);
    }

    /// Notes a turn without a request.
    pub(crate) fn skip(
        &mut self,
        node: &Identity,
        slot: Millis,
        reason: SkipReason,
        now: Millis,
    ) -> TurnOutcome {
        let outcome = match reason {
            SkipReason::Missed { .. } | SkipReason::Closed => TurnOutcome::Missed,
            SkipReason::RanRecently { .. } | SkipReason::AlreadyRunning => TurnOutcome::Skipped,
        };
        let turn = NodeTurn { slot, at: now, outcome, reason: reason.to_string(), took_ms: 0 };
        tracing::info!(schedule = %self.name, %node, reason = turn.reason, "a turn is skipped");
        self.push_history(&turn, node);
        self.store_turn(node, turn);
        outcome
    }

    /// Notes what became of a request.
    pub(crate) fn finish(&mut self, finished: &FinishedTurn, now: Millis) {
        let node = &finished.turn.node;
        self.in_flight.remove(node);
        let took_ms = u64::try_from(finished.took.as_millis()).unwrap_or(u64::MAX);
        let turn = NodeTurn {
            slot: finished.turn.slot,
            at: now,
            outcome: finished.outcome,
            reason: finished.reason.clone(),
            took_ms,
        };
        if finished.outcome == TurnOutcome::Begun {
            // The previous leader had sent the request already.
            self.inherited.insert(node.clone(), now);
        } else {
            self.push_history(&turn, node);
        }
        if finished.outcome == TurnOutcome::Succeeded {
            let known = self.nodes.entry(node.clone()).or_default();
            (known.succeeded, known.duration) = (Some(now), Some(took_ms));
        }
        self.store_turn(node, turn);
    }

    fn store_turn(&mut self, node: &Identity, turn: NodeTurn) {
        self.nodes.entry(node.clone()).or_default().last = Some(turn);
        self.dirty.insert(StoreKey::turns_of(&self.name, node));
    }

    fn push_history(&mut self, turn: &NodeTurn, node: &Identity) {
        self.history.push_front(turn.to_entry(node));
        self.history.truncate(MAX_HISTORY);
        self.dirty.insert(StoreKey::History(self.name.clone()));
    }

    /// The values to write, by key; each until [`Self::mark_stored`].
    pub(crate) fn unstored(&self) -> Vec<(StoreKey, Bytes)> {
        let keys = &self.dirty;
        if keys.is_empty() {
            return Vec::new();
        }
        let mut parts: BTreeMap<StoreKey, TurnPart> = BTreeMap::new();
        for (node, known) in &self.nodes {
            let key = StoreKey::turns_of(&self.name, node);
            if keys.contains(&key) {
                parts.entry(key).or_default().insert(node.clone(), known.clone());
            }
        }
        let value = |key: &StoreKey| match key {
            StoreKey::History(_) => json_bytes(&self.history),
            key => json_bytes(&parts.get(key)),
        };
        keys.iter().map(|key| (key.clone(), value(key))).collect()
    }

    pub(crate) fn mark_stored(&mut self, key: &StoreKey) {
        self.dirty.remove(key);
    }
}
