//! What stands in the bucket, by key: `wait.SLOT.NODE`, `claim.SLOT.NODE`, `beat.SLOT.NODE`.
//!
//! The pool is in the value. A node has a few slots, one for each pool in which it takes part at the moment, so that the broker's permission
//! lists every key that it may write.

use muster_api::wire::Millis;
use muster_api::wire::identity::{Identity, Name};
use muster_api::wire::stores::{PERMIT_SLOTS, permit_key};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Longest lease that is believed, in milliseconds: nobody blocks a pool for longer by dying.
const MAX_LEASE: u64 = 10 * 60 * 1000;

/// A node waits for its turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// The pool.
    pub pool: Name,
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
pub struct Claim {
    /// The pool.
    pub pool: Name,
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
pub enum Sign {
    /// [`Wait`].
    Wait,
    /// [`Claim`].
    Claim,
    /// A sign of life; its value means nothing.
    Beat,
}

impl Sign {
    fn word(self) -> &'static str {
        match self {
            Self::Wait => "wait",
            Self::Claim => "claim",
            Self::Beat => "beat",
        }
    }

    /// The key of this kind for a slot of a node.
    pub fn key(self, slot: u8, node: &Identity) -> String {
        permit_key(self.word(), slot, node.as_str())
    }

    /// What a key is about; `None` for keys that are none of ours.
    pub fn read(key: &str) -> Option<(Self, u8, Identity)> {
        let mut parts = key.splitn(3, '.');
        let sign = match parts.next()? {
            "wait" => Self::Wait,
            "claim" => Self::Claim,
            "beat" => Self::Beat,
            _ => return None,
        };
        let slot = parts.next()?.parse().ok()?;
        let node = Identity::parse(parts.next()?).ok()?;
        (1..=PERMIT_SLOTS)
            .contains(&slot)
            .then_some((sign, slot, node))
    }
}

/// The pool that a value is about, whichever sign it is.
pub(crate) fn pool_of(value: &[u8]) -> Option<Name> {
    #[derive(Deserialize)]
    struct OfPool {
        pool: Name,
    }
    let read: OfPool = serde_json::from_slice(value).ok()?;
    Some(read.pool)
}

/// A lease that somebody else wrote, within reason.
pub(crate) fn lease(written: Millis) -> Millis {
    written.min(MAX_LEASE)
}
