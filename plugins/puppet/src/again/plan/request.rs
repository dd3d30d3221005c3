//! A request for another run, and how requests merge into the one run that is pending.

use std::collections::BTreeSet;

use muster_api::system::process::ProcessId;
use muster_api::wire::Millis;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::barrier::{BarrierCondition, RunBarrier};
use super::event::{CausingRun, RunInProgress};

/// Most reasons that are kept of a pending run; the others are counted.
pub const MAX_REASONS: usize = 20;

/// A request for another run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgainRequest {
    /// A request that is handed over twice counts once.
    pub id: Uuid,
    /// The resource or user that asks: `Exec[again]`.
    pub requester: String,
    pub reason: String,
    /// The shortest delay, in milliseconds.
    pub min_delay: Millis,
    /// The longest delay, in milliseconds, without limits of the node and the fleet.
    pub max_delay: Option<Millis>,
    /// A name under which requests can be cancelled.
    pub group: Option<String>,
    /// No earlier than this, in milliseconds since the epoch.
    pub not_before: Option<Millis>,
    /// Not later than this, in milliseconds since the epoch.
    pub deadline: Option<Millis>,
    /// Whether the delay counts from the request, not from the end of the run that asks.
    pub start_timer_now: bool,
    /// Whether the request is only recorded.
    pub noop: bool,
    /// When it was made, in milliseconds since the epoch.
    pub requested_at: Millis,
    /// The process of the run that asks, if the request came from one.
    pub process: Option<ProcessId>,
    /// What the run waits for, besides its delay.
    #[serde(default)]
    pub when: Option<BarrierCondition>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgainReason {
    pub requester: String,
    pub reason: String,
    /// How many requests had the same requester and reason.
    pub requests: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingRun {
    /// Its id: the id of the first request.
    pub id: Uuid,
    /// The time of the first request.
    pub since: Millis,
    /// Who asked and why, up to [`MAX_REASONS`].
    pub reasons: Vec<AgainReason>,
    pub requests: u64,
    pub groups: BTreeSet<String>,
    /// When the last request was made.
    pub asked_at: Millis,
    /// The run during which it was asked for, while that goes on.
    pub waits_for: Option<RunInProgress>,
    /// The run that asked, when it has ended.
    pub cause: Option<CausingRun>,
    /// The longest of the delays after the end of the run.
    pub min_delay: Millis,
    /// The shortest of the longest delays.
    pub max_delay: Option<Millis>,
    /// The latest of the times before which it may not begin.
    pub earliest: Millis,
    /// The earliest of the deadlines.
    pub deadline: Millis,
    /// When it is due; `None` while the run that asked goes on.
    pub due: Option<Millis>,
    /// The part of the delay that grows with repetitions.
    pub backoff: Millis,
    /// How often it could not begin.
    pub attempts: u32,
    /// Why it could not begin.
    pub problem: Option<String>,
    /// The conditions on other nodes, also those that have ended.
    #[serde(default)]
    pub barriers: Vec<RunBarrier>,
}

impl PendingRun {
    /// The pending run of a first request.
    pub fn new(id: Uuid, now: Millis) -> Self {
        Self { id, since: now, deadline: Millis::MAX, ..Self::default() }
    }

    /// Adds a request: the latest of the earliest times, the longest of the shortest delays, and the earliest of the deadlines count.
    pub fn merge_request(&mut self, request: &AgainRequest, default_deadline: Millis) {
        self.requests += 1;
        self.asked_at = self.asked_at.max(request.requested_at);
        self.add_reason(request);
        self.groups.extend(request.group.clone());
        let delayed = request.requested_at.saturating_add(request.min_delay);
        if request.start_timer_now {
            self.earliest = self.earliest.max(delayed);
        } else {
            self.min_delay = self.min_delay.max(request.min_delay);
        }
        self.earliest = self.earliest.max(request.not_before.unwrap_or_default());
        self.max_delay = match (self.max_delay, request.max_delay) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        let timeout = request.when.as_ref().map_or(0, |condition| condition.timeout);
        let deadline =
            request.requested_at.saturating_add(default_deadline).saturating_add(timeout);
        self.deadline = self.deadline.min(request.deadline.unwrap_or(deadline));
        if let Some(condition) = &request.when {
            self.add_barrier(request.id, condition);
        }
    }

    fn add_reason(&mut self, request: &AgainRequest) {
        let AgainRequest { requester, reason, .. } = request;
        let known = self
            .reasons
            .iter_mut()
            .find(|known| known.requester == *requester && known.reason == *reason);
        if let Some(known) = known {
            known.requests += 1;
        } else if self.reasons.len() < MAX_REASONS {
            let (requester, reason) = (requester.clone(), reason.clone());
            self.reasons.push(AgainReason { requester, reason, requests: 1 });
        }
    }

    /// Its requesters, for people.
    pub fn requesters(&self) -> String {
        let names: Vec<&str> =
            self.reasons.iter().map(|reason| reason.requester.as_str()).collect();
        match names.as_slice() {
            [] => "nothing".to_owned(),
            [first] => (*first).to_owned(),
            [first, others @ ..] => format!("{first} and {} more", others.len()),
        }
    }
}
