//! Statistics of a call: counts, names and times.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_bus::ConnectionDisturbance;
use muster_wire::identity::Identity;
use uuid::Uuid;

/// Statistics of one call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallStats {
    /// The request's id.
    pub request: Uuid,
    /// Number of expected nodes; `None` when unknown.
    pub expected: Option<usize>,
    /// Replies with status OK.
    pub ok: usize,
    /// Replies with another status.
    pub failed: usize,
    /// Expected nodes that did not reply.
    pub missing: BTreeSet<Identity>,
    /// Those of them that the broker reports as not connected.
    pub absent: BTreeSet<Identity>,
    /// Those of them that were not sent the request, because the connection failed or the events of the call were dropped.
    pub unsent: BTreeSet<Identity>,
    /// Nodes that replied without being expected.
    pub unexpected: BTreeSet<Identity>,
    /// Nodes whose replies say that another daemon with their name and key runs.
    pub cloned: BTreeSet<Identity>,
    /// Replies that failed verification.
    pub rejected: usize,
    /// Replies may have been lost: the counts may be too low.
    pub incomplete: Option<ConnectionDisturbance>,
    /// The broker reports no subscriber for a broadcast, or for a request to any instance.
    pub is_unserved: bool,
    /// Nodes that were sent a reference to the request, because the caller's connection is slow.
    pub references: usize,
    /// Time to encode and sign the request; part of `publishing`.
    pub signing: Duration,
    /// Time until the request was sent.
    pub publishing: Duration,
    /// Time from then to the last reply, or the end of the wait.
    pub waiting: Duration,
}

impl CallStats {
    /// Number of verified replies.
    pub fn response_count(&self) -> usize {
        self.ok + self.failed
    }
}
