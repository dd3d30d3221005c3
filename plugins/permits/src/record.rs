//! What stands in the bucket, by key: `POOL.wait.NODE`, `POOL.claim.NODE`, `POOL.beat.NODE`.

use muster_api::wire::Millis;
use muster_api::wire::identity::{Identity, Name};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Longest lease that is believed, in milliseconds: nobody blocks a pool for longer by dying.
const MAX_LEASE: u64 = 10 * 60 * 1000;

/// A node waits for its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
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

    /// The key of this kind for a node in a pool.
    pub fn key(self, pool: &Name, node: &Identity) -> String {
        format!("{pool}.{}.{node}", self.word())
    }

    /// What a key of a pool is about; `None` for keys that are none of ours.
    pub fn read(key: &str) -> Option<(Name, Self, Identity)> {
        let mut parts = key.splitn(3, '.');
        let pool = Name::parse(parts.next()?).ok()?;
        let sign = match parts.next()? {
            "wait" => Self::Wait,
            "claim" => Self::Claim,
            "beat" => Self::Beat,
            _ => return None,
        };
        Some((pool, sign, Identity::parse(parts.next()?).ok()?))
    }
}

/// A lease that somebody else wrote, within reason.
pub(crate) fn lease(written: Millis) -> Millis {
    written.min(MAX_LEASE)
}
