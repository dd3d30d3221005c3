//! What stands in the bucket, by key: `wait.SLOT.NODE`, `claim.SLOT.NODE`, `beat.SLOT.NODE`.
//!
//! The pool is in the value. A node has a few slots, one for each pool in which it takes part at the moment, so that the broker's permission
//! lists every key that it may write.

use muster_api::wire::Millis;
use muster_api::wire::identity::{Identity, SubjectName};
use muster_api::wire::stores::{MAX_PERMIT_SLOTS, permit_key};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Longest lease that is believed, in milliseconds: nobody blocks a pool for longer by dying.
const MAX_LEASE_MILLIS: u64 = 10 * 60 * 1000;

/// A node waits for its turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitRecord {
    /// The pool.
    pub pool: SubjectName,
    /// The run that it is for.
    pub run: Uuid,
    /// Higher goes first; in between, who came first.
    pub priority: i8,
    /// How many may hold the pool beside it, itself included.
    pub limit: u32,
    /// How long it lives without a sign of life, in milliseconds.
    pub lease: Millis,
}

/// A node claims a place. Whether it has one, the pool's order decides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimRecord {
    /// The pool.
    pub pool: SubjectName,
    /// The run that it is for.
    pub run: Uuid,
    /// With which priority it came.
    pub priority: i8,
    /// How many may hold the pool beside it, itself included.
    pub limit: u32,
    /// How long it lives without a sign of life, in milliseconds.
    pub lease: Millis,
    /// Somebody else started what runs: it takes up a place, whether or not there is one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub occupied: bool,
}

/// One kind of key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PermitKeyKind {
    /// [`WaitRecord`].
    Wait,
    /// [`ClaimRecord`].
    Claim,
    /// A sign of life; its value means nothing.
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

    /// The key of this kind for a slot of a node.
    pub fn entry_key(self, slot: u8, node: &Identity) -> String {
        permit_key(self.as_str(), slot, node.as_str())
    }

    /// What a key is about; `None` for keys that are none of ours.
    pub fn parse_key(key: &str) -> Option<(Self, u8, Identity)> {
        let mut parts = key.splitn(3, '.');
        let sign = match parts.next()? {
            "wait" => Self::Wait,
            "claim" => Self::Claim,
            "beat" => Self::Beat,
            _ => return None,
        };
        let slot = parts.next()?.parse().ok()?;
        let node = Identity::parse(parts.next()?).ok()?;
        (1..=MAX_PERMIT_SLOTS)
            .contains(&slot)
            .then_some((sign, slot, node))
    }
}

/// The pool that a value is about, whichever sign it is.
pub(crate) fn parse_pool_name(value: &[u8]) -> Option<SubjectName> {
    #[derive(Deserialize)]
    struct PoolReference {
        pool: SubjectName,
    }
    let read: PoolReference = serde_json::from_slice(value).ok()?;
    Some(read.pool)
}

/// A lease that somebody else wrote, within reason.
pub(crate) fn clamp_lease(written: Millis) -> Millis {
    written.min(MAX_LEASE_MILLIS)
}
