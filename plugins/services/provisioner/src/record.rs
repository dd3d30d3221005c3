//! Provisioning state of one node: a value that every change replaces, stored at the broker. Pure: it reads no clock.
//!
//! A step is recorded before it begins and after it has ended. A new leader therefore finds either that nothing was begun, or the step that was in
//! progress. Every step is idempotent and can be repeated.

use std::collections::BTreeMap;

use muster_api::wire::Millis;
use muster_api::wire::identity::Identity;
use muster_contract::provisioner::ProvisioningState;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::options::{NotificationEvent, StepName};
use crate::plan::{PlanStep, ProvisioningPlan, RetryBackoff};

const MAX_HISTORY_ENTRIES: usize = 100;
const MAX_ERROR_CHARS: usize = 600;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EventKind {
    Began,
    Done,
    Failed,
    /// The step could not be done yet.
    Deferred,
    /// An operator requested something: `retry`, `pause` and so on.
    #[serde(rename = "asked")]
    Requested,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryEntry {
    /// Time, by the clock of the service.
    pub at: Millis,
    /// The step, or the request.
    pub step: String,
    pub what: EventKind,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub words: String,
}

/// The step that is in progress or waits for its next try.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CurrentStep {
    pub step: StepName,
    /// Number of the try, from 1.
    pub attempt: u32,
    /// Whether it has begun and its end is not recorded.
    pub underway: bool,
    /// Earliest time of the next try.
    #[serde(default)]
    pub not_before: Millis,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeliveryState {
    /// Being sent, or the result is unknown.
    Sending,
    Sent,
}

/// One message to one target. Its id is the same for all retries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotificationRecord {
    /// Identifies the message for the receiver.
    pub id: Uuid,
    #[serde(rename = "told")]
    pub delivery: DeliveryState,
    /// When that state was recorded.
    pub at: Millis,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeRecord {
    pub identity: Identity,
    /// Identifies this provisioning; a repeated one gets another id.
    pub id: Uuid,
    pub state: ProvisioningState,
    /// While set, no step is begun.
    #[serde(default)]
    pub paused: bool,
    /// Completed steps, in their order.
    pub done: Vec<StepName>,
    pub current: Option<CurrentStep>,
    /// The failure, or the last deferral.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Values found by the steps: `master`, `fingerprint`, `serial` and so on.
    #[serde(default)]
    pub values: Map<String, Value>,
    /// Delivery states, by event and target.
    #[serde(default)]
    pub notices: BTreeMap<String, NotificationRecord>,
    /// Whether the signed certificate was revoked after a failure.
    #[serde(default)]
    pub compensated: bool,
    /// Whether a failure was handled: the node unlocked, notifications sent.
    #[serde(default)]
    pub settled: bool,
    /// Epoch of the leader that wrote this; an older leader can no longer write.
    #[serde(default)]
    pub epoch: u64,
    /// When the node was first seen.
    pub since: Millis,
    /// Time of the last write.
    pub changed: Millis,
    /// History, newest entry last.
    #[serde(default)]
    pub history: Vec<HistoryEntry>,
}

/// Why a step did not succeed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct StepError {
    /// Message for operators.
    pub message: String,
    pub kind: FailureKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// Temporary: another try may succeed.
    Transient,
    /// Permanent: no further try helps.
    Permanent,
    /// Not possible yet; does not count as a failure.
    Deferred,
}

impl StepError {
    /// A temporary error: another try may succeed.
    pub fn transient(message: impl Into<String>) -> Self {
        Self { message: message.into(), kind: FailureKind::Transient }
    }

    /// A permanent error: no further try helps.
    pub fn permanent(message: impl Into<String>) -> Self {
        Self { message: message.into(), kind: FailureKind::Permanent }
    }

    /// A deferral: not possible yet.
    pub fn deferred(message: impl Into<String>) -> Self {
        Self { message: message.into(), kind: FailureKind::Deferred }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum NextAction<'a> {
    Step(&'a PlanStep),
    /// Nothing before this time.
    Wait(Millis),
    /// Revoke what was signed, then notify of the failure.
    Settle,
    /// Revoke its certificates and remove the node.
    Retire,
    /// Nothing until an operator requests something.
    Rest,
}

impl NodeRecord {
    pub fn new(identity: Identity, id: Uuid, now: Millis) -> Self {
        Self {
            identity,
            id,
            state: ProvisioningState::Working,
            paused: false,
            done: Vec::new(),
            current: None,
            error: None,
            values: Map::new(),
            notices: BTreeMap::new(),
            compensated: false,
            settled: false,
            epoch: 0,
            since: now,
            changed: now,
            history: Vec::new(),
        }
    }

    pub fn next_action<'a>(&self, plan: &'a ProvisioningPlan, now: Millis) -> NextAction<'a> {
        if self.paused {
            return NextAction::Rest;
        }
        match self.state {
            ProvisioningState::Working => {}
            ProvisioningState::Retiring => return self.wait_until_due(NextAction::Retire, now),
            ProvisioningState::Failed if !self.settled => {
                return self.wait_until_due(NextAction::Settle, now);
            }
            ProvisioningState::Failed | ProvisioningState::Done | ProvisioningState::Retired => {
                return NextAction::Rest;
            }
        }
        let next_step = plan.steps().iter().find(|step| !self.done.contains(&step.name));
        match next_step {
            Some(step) => self.wait_until_due(NextAction::Step(step), now),
            None => NextAction::Rest,
        }
    }

    fn wait_until_due<'a>(&self, next: NextAction<'a>, now: Millis) -> NextAction<'a> {
        match &self.current {
            Some(current) if !current.underway && current.not_before > now => {
                NextAction::Wait(current.not_before)
            }
            _ => next,
        }
    }

    /// A try whose end was not recorded is repeated under the same number.
    pub fn begin_step(&mut self, step: &StepName, now: Millis) {
        let attempt = self.attempt_number(step);
        self.current =
            Some(CurrentStep { step: step.clone(), attempt, underway: true, not_before: 0 });
        self.append_history(now, step.as_str(), EventKind::Began, "");
    }

    /// Number of the try of a step that begins now or is in progress.
    fn attempt_number(&self, step: &StepName) -> u32 {
        match &self.current {
            Some(current) if current.step == *step && current.underway => current.attempt,
            Some(current) if current.step == *step => current.attempt.saturating_add(1),
            _ => 1,
        }
    }

    pub fn finish_step(&mut self, step: &StepName, values: Map<String, Value>, now: Millis) {
        if !self.done.contains(step) {
            self.done.push(step.clone());
        }
        self.current = None;
        self.error = None;
        self.values.extend(values);
        self.append_history(now, step.as_str(), EventKind::Done, "");
    }

    /// Records that the last step is done.
    pub fn mark_done(&mut self, now: Millis) {
        self.state = ProvisioningState::Done;
        self.changed = now;
    }

    /// Records the failure of a step: schedules the next try, or marks the node as failed.
    pub fn fail_step(
        &mut self,
        step: &StepName,
        error: &StepError,
        tries: u32,
        backoff: RetryBackoff,
        now: Millis,
    ) {
        let attempt = self.attempt_number(step);
        let message: String = error.message.chars().take(MAX_ERROR_CHARS).collect();
        let (kind, counted_attempts) = match error.kind {
            // A deferral does not count as a try.
            FailureKind::Deferred => (EventKind::Deferred, attempt.saturating_sub(1)),
            FailureKind::Transient | FailureKind::Permanent => (EventKind::Failed, attempt),
        };
        self.append_history(now, step.as_str(), kind, &message);
        self.error = Some(format!("{step}: {message}"));
        let is_over = self.state == ProvisioningState::Working
            && match error.kind {
                FailureKind::Deferred => false,
                FailureKind::Transient => attempt >= tries,
                FailureKind::Permanent => true,
            };
        self.current = Some(CurrentStep {
            step: step.clone(),
            attempt: counted_attempts,
            underway: false,
            not_before: if is_over { 0 } else { now + backoff.delay_after(attempt) },
        });
        if is_over {
            self.state = ProvisioningState::Failed;
        }
    }

    /// Requests a retry: a failed node continues, and a step that waits for its next try is due at once. If the signed certificate was revoked,
    /// all steps are repeated. Returns whether there was anything to retry.
    pub fn request_retry(&mut self, caller: &Identity, now: Millis) -> bool {
        if self.state != ProvisioningState::Failed {
            if let Some(current) = &mut self.current {
                current.not_before = 0;
            }
            self.append_history(now, "retry", EventKind::Requested, caller.as_str());
            return self.current.is_some();
        }
        self.state = ProvisioningState::Working;
        self.settled = false;
        self.current = None;
        self.notices.retain(|key, _| !key.starts_with(NotificationEvent::Failed.as_str()));
        if std::mem::take(&mut self.compensated) {
            // Repeat all steps from the lock on, because the node was unlocked too.
            self.done.clear();
        }
        self.append_history(now, "retry", EventKind::Requested, caller.as_str());
        true
    }

    pub fn set_paused(&mut self, paused: bool, caller: &Identity, now: Millis) {
        self.paused = paused;
        let word = if paused { "pause" } else { "resume" };
        self.append_history(now, word, EventKind::Requested, caller.as_str());
    }

    pub fn request_retirement(&mut self, caller: &Identity, now: Millis) {
        if self.state != ProvisioningState::Retired {
            self.state = ProvisioningState::Retiring;
            self.paused = false;
            self.current = None;
            self.append_history(now, "retire", EventKind::Requested, caller.as_str());
        }
    }

    /// Records that its certificates are revoked.
    pub fn mark_retired(&mut self, now: Millis) {
        self.state = ProvisioningState::Retired;
        self.current = None;
        self.error = None;
        self.append_history(now, "retire", EventKind::Done, "");
    }

    /// Records that the signed certificate was revoked after a failure.
    pub fn mark_compensated(&mut self, values: Map<String, Value>, now: Millis) {
        self.compensated = true;
        self.values.extend(values);
        self.append_history(now, "compensate", EventKind::Done, "");
    }

    /// Records that the failure was handled.
    pub fn mark_settled(&mut self, now: Millis) {
        self.settled = true;
        self.current = None;
        self.changed = now;
    }

    pub fn text_value(&self, name: &str) -> Option<&str> {
        self.values.get(name)?.as_str()
    }

    /// Appends to the history, and drops entries beyond `MAX_HISTORY_ENTRIES`.
    pub fn append_history(&mut self, at: Millis, step: &str, kind: EventKind, text: &str) {
        self.changed = at;
        self.history.push(HistoryEntry {
            at,
            step: step.to_owned(),
            what: kind,
            words: text.to_owned(),
        });
        let excess = self.history.len().saturating_sub(MAX_HISTORY_ENTRIES);
        self.history.drain(..excess);
    }
}
