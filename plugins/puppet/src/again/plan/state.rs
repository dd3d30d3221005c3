//! The state of a node: the pending run, the running one, what limits the next one, and the history.

use std::collections::VecDeque;

use muster_api::wire::Millis;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::event::{CausingRun, SuppressReason};
use super::request::{AgainReason, PendingRun};

/// Most ids of accepted requests that are remembered. A request is handed over again only if the daemon was killed between two writes.
pub const MAX_SEEN_REQUESTS: usize = 512;
pub const MAX_HISTORY: usize = 100;
/// Most fleet events that wait for the broker; the oldest ones are dropped.
pub const MAX_UNPUBLISHED: usize = 200;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AgainState {
    /// The ids of accepted requests, oldest first.
    pub seen: VecDeque<Uuid>,
    pub pending: Option<PendingRun>,
    /// The run that was started and has not ended.
    pub running: Option<StartedRun>,
    /// When runs began, oldest first.
    pub starts: VecDeque<Millis>,
    /// The events of the last run of a chain.
    pub last_digest: Option<RunDigest>,
    /// The additional delay of the last run of a chain.
    pub last_backoff: Option<Millis>,
    /// Since when successive runs make the same changes.
    pub oscillating: Option<Millis>,
    /// Ended and suppressed runs, oldest first.
    pub history: VecDeque<HistoryEntry>,
    /// Fleet events that the broker does not have yet, oldest first.
    pub events: VecDeque<StoredAgainEvent>,
    /// The number of fleet events so far; their ids derive from it.
    pub event_count: u64,
    /// The last transaction that was recorded as one that would have asked.
    pub last_noop: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartedRun {
    pub run: Uuid,
    pub at: Millis,
    pub pending: PendingRun,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunDigest {
    pub digest: String,
    /// The transaction of the last run that had it.
    #[serde(default)]
    pub transaction: Option<String>,
    /// How many successive runs had it.
    pub identical: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryEntry {
    /// The id of the pending run.
    pub id: Uuid,
    /// When the first request was made.
    pub since: Millis,
    /// When it ended or was suppressed.
    pub at: Millis,
    /// The run, if one was started.
    pub run: Option<Uuid>,
    /// The run that asked.
    pub cause: CausingRun,
    pub reasons: Vec<AgainReason>,
    pub requests: u64,
    pub end: HistoryEnd,
    /// How its conditions on other nodes ended; `None` without conditions.
    #[serde(default)]
    pub barrier: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HistoryEnd {
    Ran {
        outcome: String,
    },
    Suppressed {
        reason: SuppressReason,
        /// By whom, if by an operator.
        by: Option<String>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredAgainEvent {
    pub id: Uuid,
    /// Its kind: `again_pending`, ...
    pub kind: String,
    /// When it happened, in milliseconds since the epoch.
    pub time: Millis,
    /// What happened, in a sentence.
    pub text: String,
    /// The id of the pending run.
    pub again: Option<Uuid>,
    pub run: Option<Uuid>,
    pub cause: CausingRun,
}

pub(super) fn push_bounded<T>(list: &mut VecDeque<T>, item: T, limit: usize) {
    list.push_back(item);
    while list.len() > limit {
        list.pop_front();
    }
}
