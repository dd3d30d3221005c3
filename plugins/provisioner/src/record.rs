//! What is known of one node on its way: a value that every change replaces, kept by the broker. Pure: it reads no clock.
//!
//! A step is written down before it begins and after it has ended. Who takes a node over finds either that nothing was begun, or the
//! step that was under way; each step can be done twice without harm.

use std::collections::BTreeMap;

use muster_api::wire::Millis;
use muster_api::wire::identity::Identity;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::options::NotificationEvent;
use crate::plan::{PlanStep, ProvisioningPlan, StepName};

/// Most entries of a node's history.
const MAX_HISTORY_ENTRIES: usize = 100;
/// Most characters of a failure that are kept.
const MAX_ERROR_CHARS: usize = 600;

/// Where a node stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProvisioningState {
    /// On its way.
    Working,
    /// A step failed for good.
    Failed,
    /// A node like any other.
    Done,
    /// Its certificate is being taken back.
    Retiring,
    /// It is no node any more.
    Retired,
}

impl ProvisioningState {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::Failed => "failed",
            Self::Done => "done",
            Self::Retiring => "retiring",
            Self::Retired => "retired",
        }
    }
}

/// What happened to a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EventKind {
    /// It began.
    Began,
    /// It was done.
    Done,
    /// It failed.
    Failed,
    /// It could not be done yet.
    Deferred,
    /// Somebody asked for something: `retry`, `pause` and so on.
    Asked,
}

/// One entry of a node's history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryEntry {
    /// When, by the clock of the service.
    pub at: Millis,
    /// Which step, or what was asked.
    pub step: String,
    /// What.
    pub what: EventKind,
    /// In words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub words: String,
}

/// The step that is under way, or waits for its next try.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CurrentStep {
    /// The step.
    pub step: StepName,
    /// Which try it is, from 1.
    pub attempt: u32,
    /// Whether it was begun and has not ended, as far as was written down.
    pub underway: bool,
    /// Not tried again before this.
    #[serde(default)]
    pub not_before: Millis,
}

/// Whether a target was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeliveryState {
    /// It is being told, or it is not known whether it was.
    Sending,
    /// It was.
    Sent,
}

/// One message to one target. Its id stays the same however often it is sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotificationRecord {
    /// Names the message for whoever gets it.
    pub id: Uuid,
    /// Whether it was sent.
    pub told: DeliveryState,
    /// When that was written down.
    pub at: Millis,
}

/// One node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// The node.
    pub identity: Identity,
    /// This time of provisioning it; another one has another id.
    pub id: Uuid,
    /// Where it stands.
    pub state: ProvisioningState,
    /// Nothing is begun while it is set.
    #[serde(default)]
    pub paused: bool,
    /// The steps that were done, in their order.
    pub done: Vec<StepName>,
    /// What is under way.
    pub current: Option<CurrentStep>,
    /// Why it failed, or what was deferred last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What the steps have found out: `master`, `fingerprint`, `serial` and so on.
    #[serde(default)]
    pub values: Map<String, Value>,
    /// Who was told of what, by occasion and target.
    #[serde(default)]
    pub notices: BTreeMap<String, NotificationRecord>,
    /// Whether what had been signed was revoked after a failure.
    #[serde(default)]
    pub compensated: bool,
    /// Whether a failure has been dealt with: the node given back, everybody told.
    #[serde(default)]
    pub settled: bool,
    /// The leader that wrote this; one that is older writes no more.
    #[serde(default)]
    pub epoch: u64,
    /// When it was first seen.
    pub since: Millis,
    /// When it was written last.
    pub changed: Millis,
    /// What happened, the newest last.
    #[serde(default)]
    pub history: Vec<HistoryEntry>,
}

/// Why a step did not do what it should.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{words}")]
pub struct StepError {
    /// In words, for people.
    pub words: String,
    /// What to do about it.
    pub kind: FailureKind,
}

/// What a failure means for what comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// Another try may help.
    Passing,
    /// No further try helps.
    Final,
    /// It is not time for it yet; that is no failure.
    Defer,
}

impl StepError {
    /// Another try may help.
    pub fn transient(words: impl Into<String>) -> Self {
        Self {
            words: words.into(),
            kind: FailureKind::Passing,
        }
    }

    /// No further try helps.
    pub fn permanent(words: impl Into<String>) -> Self {
        Self {
            words: words.into(),
            kind: FailureKind::Final,
        }
    }

    /// It is not time for it yet.
    pub fn deferred(words: impl Into<String>) -> Self {
        Self {
            words: words.into(),
            kind: FailureKind::Defer,
        }
    }
}

/// How long to wait between tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryBackoff {
    /// Before the second try.
    pub first: Millis,
    /// At most.
    pub most: Millis,
}

impl RetryBackoff {
    /// The pause after so many tries.
    pub fn delay_after(self, tries: u32) -> Millis {
        let doublings = tries.saturating_sub(1).min(20);
        self.first.saturating_mul(1 << doublings).min(self.most)
    }
}

/// What to do with a node now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum NextAction<'a> {
    /// This step.
    Step(&'a PlanStep),
    /// Nothing before this instant.
    Wait(Millis),
    /// Take back what was signed, then tell of the failure.
    Settle,
    /// Take back certificates, for good.
    Retire,
    /// Nothing until somebody asks for something.
    Rest,
}

impl NodeRecord {
    /// A node that was just seen.
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

    /// What to do now.
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
        let open = plan
            .steps()
            .iter()
            .find(|step| !self.done.contains(&step.name));
        match open {
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

    /// A step begins. Who had begun it before and was not heard of again has used up no try.
    pub fn begin_step(&mut self, step: &StepName, now: Millis) {
        let attempt = match &self.current {
            Some(current) if current.step == *step && current.underway => current.attempt,
            Some(current) if current.step == *step => current.attempt + 1,
            _ => 1,
        };
        self.current = Some(CurrentStep {
            step: step.clone(),
            attempt,
            underway: true,
            not_before: 0,
        });
        self.append_history(now, step.as_str(), EventKind::Began, "");
    }

    /// A step was done; what it found out is kept.
    pub fn finish_step(&mut self, step: &StepName, found: Map<String, Value>, now: Millis) {
        if !self.done.contains(step) {
            self.done.push(step.clone());
        }
        self.current = None;
        self.error = None;
        self.values.extend(found);
        self.append_history(now, step.as_str(), EventKind::Done, "");
    }

    /// The last step was done: the node is one like any other.
    pub fn mark_done(&mut self, now: Millis) {
        self.state = ProvisioningState::Done;
        self.changed = now;
    }

    /// A step failed: it is tried again later, or the node counts as failed.
    pub fn fail_step(
        &mut self,
        step: &StepName,
        error: &StepError,
        tries: u32,
        pauses: RetryBackoff,
        now: Millis,
    ) {
        let attempt = match &self.current {
            Some(current) if current.step == *step && current.underway => current.attempt,
            Some(current) if current.step == *step => current.attempt.saturating_add(1),
            _ => 1,
        };
        let words: String = error.words.chars().take(MAX_ERROR_CHARS).collect();
        let (what, counted) = match error.kind {
            FailureKind::Defer => (EventKind::Deferred, attempt.saturating_sub(1)),
            FailureKind::Passing | FailureKind::Final => (EventKind::Failed, attempt),
        };
        self.append_history(now, step.as_str(), what, &words);
        self.error = Some(format!("{step}: {words}"));
        let is_over = self.state == ProvisioningState::Working
            && match error.kind {
                FailureKind::Defer => false,
                FailureKind::Passing => attempt >= tries,
                FailureKind::Final => true,
            };
        self.current = Some(CurrentStep {
            step: step.clone(),
            attempt: counted,
            underway: false,
            not_before: if is_over {
                0
            } else {
                now + pauses.delay_after(attempt)
            },
        });
        if is_over {
            self.state = ProvisioningState::Failed;
        }
    }

    /// Somebody wants a failed node to be tried again. What was taken back is done again, from the first certificate on.
    pub fn request_retry(&mut self, by: &Identity, now: Millis) -> bool {
        if self.state != ProvisioningState::Failed {
            if let Some(current) = &mut self.current {
                current.not_before = 0;
            }
            self.append_history(now, "retry", EventKind::Asked, by.as_str());
            return self.current.is_some();
        }
        self.state = ProvisioningState::Working;
        self.settled = false;
        self.current = None;
        self.notices
            .retain(|key, _| !key.starts_with(NotificationEvent::Failed.as_str()));
        if std::mem::take(&mut self.compensated) {
            // Everything from the lock on: the node was given back too.
            self.done.clear();
        }
        self.append_history(now, "retry", EventKind::Asked, by.as_str());
        true
    }

    /// Somebody wants nothing more to begin, or wants it to go on.
    pub fn set_paused(&mut self, paused: bool, by: &Identity, now: Millis) {
        self.paused = paused;
        let word = if paused { "pause" } else { "resume" };
        self.append_history(now, word, EventKind::Asked, by.as_str());
    }

    /// Somebody wants it to be no node any more.
    pub fn request_retirement(&mut self, by: &Identity, now: Millis) {
        if self.state != ProvisioningState::Retired {
            self.state = ProvisioningState::Retiring;
            self.paused = false;
            self.current = None;
            self.append_history(now, "retire", EventKind::Asked, by.as_str());
        }
    }

    /// Its certificates are taken back.
    pub fn mark_retired(&mut self, found: Map<String, Value>, now: Millis) {
        self.state = ProvisioningState::Retired;
        self.current = None;
        self.error = None;
        self.values.extend(found);
        self.append_history(now, "retire", EventKind::Done, "");
    }

    /// What was signed is taken back after a failure.
    pub fn mark_compensated(&mut self, found: Map<String, Value>, now: Millis) {
        self.compensated = true;
        self.values.extend(found);
        self.append_history(now, "compensate", EventKind::Done, "");
    }

    /// A failure has been dealt with.
    pub fn mark_settled(&mut self, now: Millis) {
        self.settled = true;
        self.current = None;
        self.changed = now;
    }

    /// A value as a text.
    pub fn text_value(&self, name: &str) -> Option<&str> {
        self.values.get(name)?.as_str()
    }

    /// Adds to the history; old entries go.
    pub fn append_history(&mut self, at: Millis, step: &str, what: EventKind, words: &str) {
        self.changed = at;
        self.history.push(HistoryEntry {
            at,
            step: step.to_owned(),
            what,
            words: words.to_owned(),
        });
        let over = self.history.len().saturating_sub(MAX_HISTORY_ENTRIES);
        self.history.drain(..over);
    }
}
