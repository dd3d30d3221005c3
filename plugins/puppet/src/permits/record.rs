//! Entries of the bucket, by key: `wait.SLOT.NODE`, `claim.SLOT.NODE`, `beat.SLOT.NODE`.
//!
//! The pool name is in the value. A node has a fixed number of slots, one for each pool that it currently uses, so that the broker's permission can
//! list every key that the node may write.

use muster_api::wire::Millis;
use muster_api::wire::identity::{Identity, SubjectName};
use muster_api::wire::stores::{MAX_PERMIT_SLOTS, permit_key};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Longest accepted lease, in milliseconds: bounds how long a dead node can block a pool.
const MAX_LEASE_MILLIS: u64 = 10 * 60 * 1000;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitRecord {
    pub pool: SubjectName,
    pub run: Uuid,
    /// Higher goes first; equal priorities are ordered by revision.
    pub priority: i8,
    /// How many may hold the pool at once, this node included; [`u32::MAX`] if the run imposes no limit.
    pub limit: u32,
    /// How long the entry stays valid without a heartbeat, in milliseconds.
    pub lease: Millis,
    /// The rollout that the run belongs to. Its waiting runs are served in the order of their ids, in the places that they have among all waiting runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<Uuid>,
}

/// A node claims a place. Whether it holds one depends on the rank of the claim's revision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimRecord {
    pub pool: SubjectName,
    pub run: Uuid,
    /// The priority of the wait entry.
    pub priority: i8,
    /// How many may hold the pool at once, this node included; [`u32::MAX`] if the run imposes no limit.
    pub limit: u32,
    /// How long the claim stays valid without a heartbeat, in milliseconds.
    pub lease: Millis,
    /// The run was started outside: the claim counts even if the pool is full.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub occupied: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PermitKeyKind {
    /// Wait entry: [`WaitRecord`].
    Wait,
    /// Claim entry: [`ClaimRecord`].
    Claim,
    /// Heartbeat; readers ignore the value.
    Beat,
}

impl PermitKeyKind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Wait => "wait",
            Self::Claim => "claim",
            Self::Beat => "beat",
        }
    }

    pub fn entry_key(self, slot: u8, node: &Identity) -> String {
        permit_key(self.as_str(), slot, node.as_str())
    }

    /// Splits a key into kind, slot and node; `None` for any other key.
    pub fn parse_key(key: &str) -> Option<(Self, u8, Identity)> {
        let mut parts = key.splitn(3, '.');
        let kind = match parts.next()? {
            "wait" => Self::Wait,
            "claim" => Self::Claim,
            "beat" => Self::Beat,
            _ => return None,
        };
        let slot = parts.next()?.parse().ok()?;
        let node = Identity::parse(parts.next()?).ok()?;
        (1..=MAX_PERMIT_SLOTS).contains(&slot).then_some((kind, slot, node))
    }
}

/// The pool name in a value of any kind.
pub(crate) fn parse_pool_name(value: &[u8]) -> Option<SubjectName> {
    #[derive(Deserialize)]
    struct PoolReference {
        pool: SubjectName,
    }
    let read: PoolReference = serde_json::from_slice(value).ok()?;
    Some(read.pool)
}

/// Limits a lease that another node wrote to [`MAX_LEASE_MILLIS`].
pub(crate) fn clamp_lease(written: Millis) -> Millis {
    written.min(MAX_LEASE_MILLIS)
}
