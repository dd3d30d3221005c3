//! One term as the leader: plans each schedule when something changed or is due, sends the requests, and stores what became of them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

use muster_api::base::{duration_millis, error_chain};
use muster_bus::{Bucket, BucketError};
use muster_calls::Client;
use muster_schedule::PlanDecision;
use muster_wire::Millis;
use muster_wire::identity::SubjectName;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::active::ActiveSchedule;
use crate::error::SchedulerError;
use crate::handle::SchedulerHandle;
use crate::health::PoolLimits;
use crate::node_progress::{TurnOutcome, node_paths};
use crate::report::EventReporter;
use crate::turn::{DueTurn, FinishedTurn, build_call, build_withdrawal, perform};

/// How often the nodes that match are read again, at most.
const SELECT_INTERVAL: Duration = Duration::from_secs(1);
/// How often changes are written. A node executes a turn once, so a leader that is killed between a request and this write causes no second run.
const STORE_INTERVAL: Duration = Duration::from_millis(500);
/// How often the account token is confirmed.
const TRUST_INTERVAL: Duration = Duration::from_mins(5);
/// Shortest time between two plans, in which many requests may end.
const MIN_PLAN_INTERVAL: Duration = Duration::from_millis(100);
/// Longest pause between two plans: an author may be revoked.
const MAX_PAUSE: Duration = Duration::from_secs(5);

pub(crate) struct LeaderTerm<'a> {
    handle: &'a SchedulerHandle,
    bucket: &'a Bucket,
    clients: &'a [(SubjectName, Client)],
    reporter: &'a EventReporter,
    limits: &'a PoolLimits,
    schedules: BTreeMap<SubjectName, ActiveSchedule>,
    /// Signed schedules that were refused, by name. They are tried again when the account token was confirmed.
    refused: BTreeMap<SubjectName, String>,
    tasks: JoinSet<FinishedTurn>,
}

impl<'a> LeaderTerm<'a> {
    pub(crate) fn new(
        handle: &'a SchedulerHandle,
        bucket: &'a Bucket,
        clients: &'a [(SubjectName, Client)],
        reporter: &'a EventReporter,
        limits: &'a PoolLimits,
    ) -> Self {
        Self {
            handle,
            bucket,
            clients,
            reporter,
            limits,
            schedules: BTreeMap::new(),
            refused: BTreeMap::new(),
            tasks: JoinSet::new(),
        }
    }

    /// Runs until an error of the bucket. The caller drops it when leadership is lost: requests that were sent go on.
    pub(crate) async fn run(&mut self) -> Result<(), SchedulerError> {
        let mut changes = self.handle.subscribe();
        let mut store = ticks(STORE_INTERVAL);
        let mut trust = ticks(TRUST_INTERVAL);
        let (mut select_at, mut plan_at) = (Instant::now(), Instant::now());
        let mut may_plan_at = Instant::now();
        self.delete_removed().await?;
        self.take_changes();
        loop {
            tokio::select! {
                seen = changes.changed() => {
                    if seen.is_err() {
                        return Ok(());
                    }
                    if self.take_changes() {
                        select_at = Instant::now();
                    }
                    plan_at = plan_at.min(may_plan_at);
                }
                Some(finished) = self.tasks.join_next() => {
                    if let Ok(finished) = finished {
                        self.finish(&finished);
                    }
                    plan_at = plan_at.min(may_plan_at);
                }
                () = tokio::time::sleep_until(select_at) => {
                    let started = Instant::now();
                    self.select_nodes();
                    // Large fleets are read less often: at most a twentieth of the time.
                    select_at = Instant::now() + SELECT_INTERVAL.max(started.elapsed() * 20);
                    plan_at = plan_at.min(may_plan_at);
                }
                _ = store.tick() => self.store_changes().await?,
                _ = trust.tick() => {
                    self.refused.clear();
                    self.refresh_trust();
                }
                () = self.limits.changed() => plan_at = plan_at.min(may_plan_at),
                () = tokio::time::sleep_until(plan_at) => {
                    plan_at = self.send_due();
                    may_plan_at = Instant::now() + MIN_PLAN_INTERVAL;
                }
            }
        }
    }

    /// Deletes what the last leader wrote of schedules while they were removed.
    async fn delete_removed(&self) -> Result<(), SchedulerError> {
        let removed = self.handle.read().removed_schedules();
        for name in removed {
            self.handle.delete_turns(&name).await?;
        }
        Ok(())
    }

    /// Takes schedules that were added, replaced, paused or removed. Returns whether nodes must be selected.
    fn take_changes(&mut self) -> bool {
        let state = self.handle.read();
        self.schedules.retain(|name, active| {
            let records = state.schedules.get(name);
            let is_kept = records.is_some_and(|records| records.schedule.is_some());
            if !is_kept {
                withdraw_turns(self.clients, active);
            }
            is_kept
        });
        let mut is_new = false;
        for (name, records) in &state.schedules {
            let Some(stored) = &records.schedule else { continue };
            if let Some(active) = self.schedules.get_mut(name)
                && active.text == stored.grant
            {
                if active.set_pause(&stored.pause, &state.pause) {
                    withdraw_turns(self.clients, active);
                }
                active.rebalance_if_requested(stored.rebalance);
                continue;
            }
            if self.refused.get(name) == Some(&stored.grant) {
                continue;
            }
            let text = stored.grant.clone();
            let (opened, schedule) = match self.handle.open_schedule(&text) {
                Ok(opened) => opened,
                Err(error) => {
                    refuse(&mut self.schedules, &mut self.refused, name, text, &error);
                    continue;
                }
            };
            is_new = true;
            let active = match self.schedules.entry(name.clone()) {
                Entry::Occupied(known) => {
                    let active = known.into_mut();
                    withdraw_turns(self.clients, active);
                    active.replace(text, opened, schedule);
                    active
                }
                Entry::Vacant(place) => {
                    place.insert(ActiveSchedule::new(name.clone(), text, opened, schedule, records))
                }
            };
            if active.set_pause(&stored.pause, &state.pause) {
                withdraw_turns(self.clients, active);
            }
        }
        is_new
    }

    /// Nothing changes while the directory is not ready.
    fn select_nodes(&mut self) {
        let (now, paths) = (self.handle.now(), node_paths());
        for active in self.schedules.values_mut() {
            active.end_inherited(now);
            match self.handle.directory().select_nodes(&active.schedule.spec().filter, &paths) {
                Ok(Some(selected)) => {
                    active.update_nodes(selected, now);
                    if active.is_paused {
                        continue;
                    }
                    let overdue = active.take_overdue(now);
                    self.reporter.report_overdue(&active.name, &overdue, now);
                }
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!(schedule = %active.name, %error, "cannot select nodes");
                }
            }
        }
    }

    /// Sends the requests that are due now. Returns when the next ones are.
    fn send_due(&mut self) -> Instant {
        let now = self.handle.now();
        let mut wake = now.saturating_add(duration_millis(MAX_PAUSE));
        let names: Vec<SubjectName> = self.schedules.keys().cloned().collect();
        for name in names {
            let Some(active) = self.schedules.get_mut(&name) else { continue };
            if active.is_paused || !active.is_selected() {
                continue;
            }
            // The author may have been revoked, or the schedule may have ended.
            if let Err(error) = self.handle.check_still_valid(&active.opened) {
                let text = active.text.clone();
                refuse(&mut self.schedules, &mut self.refused, &name, text, &error);
                continue;
            }
            let plan = active.plan(now, active.pool().and_then(|pool| self.limits.get(pool)));
            wake = wake.min(plan.next_wake);
            for decision in plan.decisions {
                match decision {
                    PlanDecision::Start { node, slot } => {
                        let schedule = name.clone();
                        let turn = DueTurn { schedule, node, slot };
                        active.begin(&turn, now);
                        spawn_turn(&mut self.tasks, self.clients, active, turn);
                    }
                    PlanDecision::Skip { node, slot, reason } => {
                        if active.skip(&node, slot, reason, now) == TurnOutcome::Missed {
                            self.reporter.report_missed(&name, &node, &reason.to_string(), now);
                        }
                    }
                }
            }
        }
        instant_of(wake, now)
    }

    fn finish(&mut self, finished: &FinishedTurn) {
        let FinishedTurn { turn, outcome, reason, .. } = finished;
        let DueTurn { schedule, node, .. } = turn;
        tracing::info!(%schedule, %node, outcome = outcome.as_str(), reason, "a turn ended");
        if let Some(active) = self.schedules.get_mut(schedule) {
            active.finish(finished, self.handle.now());
        }
    }

    async fn store_changes(&mut self) -> Result<(), BucketError> {
        for active in self.schedules.values_mut() {
            for (key, value) in active.unstored() {
                self.bucket.put(&key.to_string(), value).await?;
                active.mark_stored(&key);
            }
        }
        Ok(())
    }

    /// Writes what is not stored yet, at the end of the term.
    pub(crate) async fn store_all(&mut self) {
        if let Err(error) = self.store_changes().await {
            tracing::warn!(%error, "cannot store the last turns of schedules");
        }
    }

    fn refresh_trust(&self) {
        for (_, client) in self.clients {
            let client = client.clone();
            tokio::spawn(async move {
                if let Err(error) = client.refresh_trust().await {
                    tracing::debug!(
                        error = error_chain(&error),
                        "cannot confirm the account token"
                    );
                }
            });
        }
    }
}

/// Stops a schedule that is not accepted any more, and logs it once.
fn refuse(
    schedules: &mut BTreeMap<SubjectName, ActiveSchedule>,
    refused: &mut BTreeMap<SubjectName, String>,
    name: &SubjectName,
    text: String,
    error: &SchedulerError,
) {
    tracing::warn!(schedule = %name, error = error_chain(error), "the schedule is refused");
    schedules.remove(name);
    refused.insert(name.clone(), text);
}

fn spawn_turn(
    tasks: &mut JoinSet<FinishedTurn>,
    clients: &[(SubjectName, Client)],
    active: &ActiveSchedule,
    turn: DueTurn,
) {
    let call = build_call(&turn, active.opened.grant.id, &active.text, &active.schedule);
    let prepared = client_of(clients, active).zip(call.ok());
    tasks.spawn(async move {
        let started = Instant::now();
        let (outcome, reason) = match prepared {
            Some((client, call)) => perform(&client, call).await,
            None => (TurnOutcome::NoAnswer, "the scheduler is not in the collective".to_owned()),
        };
        FinishedTurn { turn, outcome, reason, took: started.elapsed() }
    });
}

/// Cancels the turns that nodes have received and not begun. The result of each turn still arrives as the reply to its own request.
fn withdraw_turns(clients: &[(SubjectName, Client)], active: &ActiveSchedule) {
    for turn in active.begun_turns() {
        let call = build_withdrawal(&turn, active.opened.grant.id, &active.text);
        let Some((client, call)) = client_of(clients, active).zip(call.ok()) else { continue };
        tokio::spawn(async move {
            let (outcome, reason) = perform(&client, call).await;
            let DueTurn { schedule, node, .. } = turn;
            let outcome = outcome.as_str();
            tracing::info!(%schedule, %node, outcome, reason, "the withdrawal of a turn ended");
        });
    }
}

fn client_of(clients: &[(SubjectName, Client)], active: &ActiveSchedule) -> Option<Client> {
    let collective = &active.opened.grant.collective;
    clients.iter().find(|(name, _)| name == collective).map(|(_, client)| client.clone())
}

fn ticks(period: Duration) -> tokio::time::Interval {
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

fn instant_of(wake: Millis, now: Millis) -> Instant {
    Instant::now() + Duration::from_millis(wake.saturating_sub(now))
}
