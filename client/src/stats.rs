//! What a call came to: counts, names and times.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_bus::ConnectionDisturbance;
use muster_wire::identity::Identity;
use uuid::Uuid;

/// The balance of one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallStats {
    /// The request's id.
    pub request: Uuid,
    /// How many nodes were expected; `None` when nobody knew.
    pub expected: Option<usize>,
    /// Answers with status OK.
    pub ok: usize,
    /// Answers with another status.
    pub failed: usize,
    /// Nodes that were expected and did not answer.
    pub missing: BTreeSet<Identity>,
    /// Those of them that the broker says are not connected.
    pub absent: BTreeSet<Identity>,
    /// Nodes that answered without being expected.
    pub unexpected: BTreeSet<Identity>,
    /// Answers that were not believed.
    pub disbelieved: usize,
    /// Answers may have been lost on the way: the balance is not the whole truth.
    pub incomplete: Option<ConnectionDisturbance>,
    /// Time for writing and signing the question; part of `publishing`.
    pub signing: Duration,
    /// Time until the question was out.
    pub publishing: Duration,
    /// Time from then to the last answer, or the end of waiting.
    pub waiting: Duration,
}

impl CallStats {
    /// How many answers were believed.
    pub fn response_count(&self) -> usize {
        self.ok + self.failed
    }
}
