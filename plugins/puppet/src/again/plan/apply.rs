//! Applies an event to the state. Deterministic: a daemon that reads the journal has the state of the one that wrote it.

use muster_api::wire::Millis;
use uuid::Uuid;

use super::barrier::BarrierEnd;
use super::delay::{DelayTerms, choose_delay};
use super::event::{AgainEvent, CausingRun, EndedRun, RunInProgress, SuppressReason};
use super::request::{AgainRequest, PendingRun};
use super::state::{
    AgainState, HistoryEnd, HistoryEntry, MAX_HISTORY, MAX_SEEN_REQUESTS, MAX_UNPUBLISHED,
    RunDigest, StartedRun, StoredAgainEvent, push_bounded,
};
use crate::again::policy::AgainPolicy;

/// Most begun runs that are remembered: as many as a limit may have.
const MAX_STARTS: usize = 10_000;

impl AgainState {
    pub fn apply(&mut self, event: &AgainEvent, policy: &AgainPolicy) {
        match event {
            AgainEvent::Snapshot { state } => *self = (**state).clone(),
            AgainEvent::Requested { at, request, during, seed } => {
                self.add_request(*at, request, *during, policy, *seed);
            }
            AgainEvent::RunEnded { at, run, seed } => self.end_run(*at, run, policy, *seed),
            AgainEvent::Started { at, run } => self.begin_run(*at, *run, policy),
            AgainEvent::NotRun { at, problem, retry_after } => {
                self.retry_run(*at, problem, *retry_after);
            }
            AgainEvent::Suppressed { at, reason, by } => {
                if let Some(pending) = self.pending.take() {
                    self.suppress(*at, pending, *reason, by.clone());
                }
            }
            AgainEvent::BarriersEnded { at, ids, end } => self.end_barriers(*at, ids, *end),
            AgainEvent::WouldRun { at, transaction, requesters } => {
                self.record_would_run(*at, transaction.as_ref(), requesters);
            }
            AgainEvent::Reset { at, by } => self.reset(*at, by),
            AgainEvent::Published { ids } => self.events.retain(|event| !ids.contains(&event.id)),
        }
    }

    fn add_request(
        &mut self,
        at: Millis,
        request: &AgainRequest,
        during: Option<RunInProgress>,
        policy: &AgainPolicy,
        seed: u64,
    ) {
        if self.seen.contains(&request.id) {
            return;
        }
        push_bounded(&mut self.seen, request.id, MAX_SEEN_REQUESTS);
        let has_room = match (&self.pending, &request.when) {
            (Some(pending), Some(condition)) => pending.has_room_for(condition),
            _ => true,
        };
        let suppressed = match (request.noop, self.oscillating.is_some()) {
            (true, _) => Some(SuppressReason::Noop),
            (_, true) => Some(SuppressReason::Oscillating),
            _ if !has_room => Some(SuppressReason::Conditions),
            _ => None,
        };
        if let Some(reason) = suppressed {
            // A run that is pending stays as it is.
            let mut only_this = PendingRun::new(request.id, at);
            only_this.merge_request(request, policy.deadline);
            self.suppress(at, only_this, reason, None);
            return;
        }
        let is_new = self.pending.is_none();
        let mut pending = self.pending.take().unwrap_or_else(|| PendingRun::new(request.id, at));
        pending.merge_request(request, policy.deadline);
        match during {
            Some(run) => {
                pending.waits_for = Some(run);
                pending.due = None;
            }
            None if pending.waits_for.is_none() => {
                pending.start_barriers(request.requested_at, at);
                self.schedule(&mut pending, at, policy, seed);
            }
            None => {}
        }
        if is_new {
            let text = format!("another run was asked for by {}", pending.requesters());
            self.push_event(
                "again_pending",
                at,
                text,
                Some(pending.id),
                None,
                pending.cause.as_ref(),
            );
        }
        self.pending = Some(pending);
    }

    /// Computes when a pending run is due, for a run that ended or a request that was made now.
    fn schedule(&mut self, pending: &mut PendingRun, now: Millis, policy: &AgainPolicy, seed: u64) {
        let terms = DelayTerms {
            min: pending.min_delay,
            max: pending.max_delay,
            previous_backoff: self.last_backoff,
        };
        let delay = choose_delay(terms, policy, seed);
        pending.backoff = delay.backoff;
        let due = now.saturating_add(delay.total).max(pending.earliest);
        // A pending run is never moved to an earlier time.
        pending.due = Some(due.max(pending.due.unwrap_or_default()));
    }

    fn begin_run(&mut self, at: Millis, run: Uuid, policy: &AgainPolicy) {
        let Some(pending) = self.pending.take() else { return };
        push_bounded(&mut self.starts, at, MAX_STARTS);
        let longest = policy.limits.iter().map(|limit| limit.period).max().unwrap_or_default();
        self.starts.retain(|start| start.saturating_add(longest) > at);
        self.last_backoff = Some(pending.backoff.max(policy.backoff_base));
        let mut text = format!("run {run} begins, asked for by {}", pending.requesters());
        if let Some(outcome) = pending.barrier_outcome() {
            text.push_str("; ");
            text.push_str(outcome);
        }
        self.push_event(
            "again_running",
            at,
            text,
            Some(pending.id),
            Some(run),
            pending.cause.as_ref(),
        );
        self.running = Some(StartedRun { run, at, pending });
    }

    /// The started run has not run: it is pending again. Its start does not count against the limits.
    fn retry_run(&mut self, at: Millis, problem: &str, retry_after: Millis) {
        let Some(StartedRun { mut pending, at: started, .. }) = self.running.take() else { return };
        if self.starts.back() == Some(&started) {
            self.starts.pop_back();
        }
        pending.attempts += 1;
        pending.problem = Some(problem.to_owned());
        pending.due = Some(at.saturating_add(retry_after));
        if let Some(newer) = self.pending.take() {
            pending = merge_pending(pending, newer);
        }
        self.pending = Some(pending);
    }

    fn end_run(&mut self, at: Millis, run: &EndedRun, policy: &AgainPolicy, seed: u64) {
        let was_started = self.end_started_run(at, run);
        let is_identical = self.count_identical(run) >= policy.identical_runs;
        let Some(mut pending) = self.pending.take() else {
            // The chain of runs has ended.
            (self.last_digest, self.last_backoff) = (None, None);
            return;
        };
        let is_awaited = pending.waits_for.is_some_and(|awaited| match awaited.run {
            Some(id) => run.cause.run == Some(id),
            None => !was_started,
        });
        if !is_awaited {
            self.pending = Some(pending);
            return;
        }
        (pending.waits_for, pending.cause) = (None, Some(run.cause.clone()));
        if run.noop {
            self.suppress(at, pending, SuppressReason::Noop, None);
        } else if is_identical {
            self.oscillating = Some(at);
            let text = "successive runs make the same changes; no further run begins until `rpc again reset`";
            self.push_event(
                "again_oscillating",
                at,
                text.to_owned(),
                Some(pending.id),
                None,
                Some(&run.cause),
            );
            self.suppress(at, pending, SuppressReason::Oscillating, None);
        } else {
            pending.start_barriers(run.ended_at.unwrap_or(at), at);
            self.schedule(&mut pending, at, policy, seed);
            self.pending = Some(pending);
        }
    }

    fn end_barriers(&mut self, at: Millis, ids: &[Uuid], end: BarrierEnd) {
        let Some(mut pending) = self.pending.take() else { return };
        for id in ids {
            let Some(query) = pending.end_barrier(*id, end) else { continue };
            let (kind, text) = match end {
                BarrierEnd::Released => {
                    ("again_released", format!("each other node of `{query}` has finished a run"))
                }
                BarrierEnd::TimedOut => (
                    "again_timed_out",
                    format!(
                        "barrier timed out: not each other node of `{query}` has finished a run"
                    ),
                ),
            };
            self.push_event(kind, at, text, Some(pending.id), None, pending.cause.as_ref());
        }
        self.pending = Some(pending);
    }

    /// Ends the run that was begun, if it is this one. Returns whether it is.
    fn end_started_run(&mut self, at: Millis, run: &EndedRun) -> bool {
        let is_started = |started: &mut StartedRun| run.cause.run == Some(started.run);
        let Some(StartedRun { run: id, pending, .. }) = self.running.take_if(is_started) else {
            return false;
        };
        let text =
            format!("run {id}, asked for by {}, has ended: {}", pending.requesters(), run.outcome);
        self.push_event("again_done", at, text, Some(pending.id), Some(id), pending.cause.as_ref());
        let end = HistoryEnd::Ran { outcome: run.outcome.clone() };
        self.push_history(at, pending, Some(id), end);
        true
    }

    /// Counts the successive runs with the events of this one.
    fn count_identical(&mut self, run: &EndedRun) -> u32 {
        let before = self.last_digest.take();
        let Some(digest) = run.digest.clone() else { return 0 };
        let identical = match before {
            // The same run, which was found by its report.
            Some(before)
                if before.transaction.is_some() && before.transaction == run.cause.transaction =>
            {
                before.identical
            }
            Some(before) if before.digest == digest => before.identical.saturating_add(1),
            _ => 1,
        };
        let transaction = run.cause.transaction.clone();
        self.last_digest = Some(RunDigest { digest, transaction, identical });
        identical
    }

    fn suppress(
        &mut self,
        at: Millis,
        pending: PendingRun,
        reason: SuppressReason,
        by: Option<String>,
    ) {
        let requesters = pending.requesters();
        let (kind, text) = match (reason, &by) {
            (SuppressReason::Cancelled, Some(by)) => (
                "again_cancelled",
                format!("the run asked for by {requesters} was cancelled by {by}"),
            ),
            (SuppressReason::Noop, _) => {
                ("again_would_run", format!("{requesters} would run again"))
            }
            _ => (
                "again_suppressed",
                format!("the run asked for by {requesters} does not begin: {}", reason.as_str()),
            ),
        };
        self.push_event(kind, at, text, Some(pending.id), None, pending.cause.as_ref());
        self.push_history(at, pending, None, HistoryEnd::Suppressed { reason, by });
    }

    fn record_would_run(&mut self, at: Millis, transaction: Option<&String>, names: &[String]) {
        if self.last_noop.as_ref() == transaction && transaction.is_some() {
            return;
        }
        self.last_noop = transaction.cloned();
        let mut pending = PendingRun::new(Uuid::nil(), at);
        pending.cause = Some(CausingRun { run: None, transaction: transaction.cloned() });
        pending.requests = u64::try_from(names.len()).unwrap_or_default();
        pending.add_requesters(names);
        self.suppress(at, pending, SuppressReason::Noop, None);
    }

    fn reset(&mut self, at: Millis, by: &str) {
        self.oscillating = None;
        self.starts.clear();
        (self.last_digest, self.last_backoff) = (None, None);
        let text = format!("limits and the state `oscillating` were cleared by {by}");
        self.push_event("again_reset", at, text, None, None, None);
    }

    fn push_history(
        &mut self,
        at: Millis,
        pending: PendingRun,
        run: Option<Uuid>,
        end: HistoryEnd,
    ) {
        let barrier = pending.barrier_outcome().map(str::to_owned);
        let PendingRun { id, since, cause, reasons, requests, .. } = pending;
        let cause = cause.unwrap_or_default();
        let entry = HistoryEntry { id, since, at, run, cause, reasons, requests, end, barrier };
        push_bounded(&mut self.history, entry, MAX_HISTORY);
    }

    fn push_event(
        &mut self,
        kind: &str,
        at: Millis,
        text: String,
        again: Option<Uuid>,
        run: Option<Uuid>,
        cause: Option<&CausingRun>,
    ) {
        self.event_count += 1;
        let event = StoredAgainEvent {
            id: event_id(at, self.event_count),
            kind: kind.to_owned(),
            time: at,
            text,
            again,
            run,
            cause: cause.cloned().unwrap_or_default(),
        };
        push_bounded(&mut self.events, event, MAX_UNPUBLISHED);
    }
}

impl PendingRun {
    /// Adds requesters of a run without effect.
    fn add_requesters(&mut self, names: &[String]) {
        use super::request::{AgainReason, MAX_REASONS};
        let reasons = names.iter().take(MAX_REASONS).map(|name| AgainReason {
            requester: name.clone(),
            reason: "would have been triggered".to_owned(),
            requests: 1,
        });
        self.reasons.extend(reasons);
    }
}

fn merge_pending(mut pending: PendingRun, newer: PendingRun) -> PendingRun {
    pending.requests += newer.requests;
    pending.reasons.extend(newer.reasons);
    pending.reasons.truncate(super::request::MAX_REASONS);
    pending.groups.extend(newer.groups);
    pending.min_delay = pending.min_delay.max(newer.min_delay);
    pending.earliest = pending.earliest.max(newer.earliest);
    pending.deadline = pending.deadline.min(newer.deadline);
    pending.merge_barriers(newer.barriers);
    if newer.waits_for.is_some() {
        // It is due when that run has ended, and its conditions count from there.
        (pending.waits_for, pending.due) = (newer.waits_for, None);
    }
    pending
}

/// An id that the same events give again: of the time and the number of the event.
fn event_id(at: Millis, number: u64) -> Uuid {
    let mixed = u128::from(at).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)
        ^ u128::from(number).wrapping_mul(0x5bd1_e995_9d1b_58d3_a5a3_564e_27f8_86a5);
    uuid::Builder::from_random_bytes(mixed.to_be_bytes()).into_uuid()
}
