//! The entry of one name: which key has it, who issued that key, and what a claim, a reservation, a revocation and a release change. Pure.
//!
//! The enroller and the organisation write the same entries. A name is free if it has no entry, or if its entry is released.

use serde::{Deserialize, Serialize};

use crate::Millis;
use crate::identity::Identity;
use crate::token::PublicKey;
use crate::token::lifetime::TokenLife;

/// A name, and the key that has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameEntry {
    /// The name.
    pub identity: Identity,
    /// The key that has it.
    pub key: PublicKey,
    /// The bootstrap credential that it came by; `None` if the organisation itself issued the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<PublicKey>,
    /// When a token of the key was last issued, by the clock of the issuer.
    pub at: Millis,
    /// How long the key's newest token lives; `None` for a token that never ends, and for a name that is no node's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub life: Option<TokenLife>,
    /// Whether another key may have the name from now on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub released: bool,
    /// Whether the key was revoked. The enroller issues no further token to it, also after a release.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub revoked: bool,
    /// Keys that had the name before, the oldest first. Their tokens may still be valid.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub former: Vec<PublicKey>,
}

/// What became of the attempt to take a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NameClaimOutcome {
    /// The key has the name now.
    Now,
    /// The key had it before.
    Before,
    /// Another key has it, and was not released; or the organisation issued the name.
    Taken(PublicKey),
    /// The key was revoked.
    Revoked,
}

impl NameEntry {
    /// Whether the enroller issued the key, and not the organisation.
    pub fn is_enrolled(&self) -> bool {
        self.credential.is_some()
    }

    /// Whether a bootstrapping machine with this key had the name before, and may come back.
    pub fn is_held_by(&self, key: PublicKey) -> bool {
        self.is_enrolled() && self.key == key && !self.released && !self.revoked
    }

    /// Whether the key may be given further tokens.
    pub fn is_renewable(&self) -> bool {
        !self.released && !self.revoked
    }

    /// What the enroller may do with the name for the key in `wanted`.
    pub fn evaluate_claim(held: Option<&Self>, key: PublicKey) -> NameClaimOutcome {
        match held {
            Some(held) if held.revoked && held.key == key => NameClaimOutcome::Revoked,
            Some(held) if held.is_held_by(key) => NameClaimOutcome::Before,
            Some(held) if !held.released => NameClaimOutcome::Taken(held.key),
            _ => NameClaimOutcome::Now,
        }
    }

    /// The entry after a claim by the enroller; `None` if the claim is refused. A claim that succeeds is always written, also for a key
    /// that has the name already: a revocation at the same moment then meets a conflict, on one side or the other.
    pub fn apply_claim(held: Option<&Self>, wanted: &Self) -> (Option<Self>, NameClaimOutcome) {
        let claimed = Self::evaluate_claim(held, wanted.key);
        let entry = match claimed {
            NameClaimOutcome::Now | NameClaimOutcome::Before => Some(wanted.with_former_keys(held)),
            NameClaimOutcome::Taken(_) | NameClaimOutcome::Revoked => None,
        };
        (entry, claimed)
    }

    /// The entry after the organisation issued the name itself; the key that has the name if the enroller gave it away, and it is neither
    /// released nor revoked.
    pub fn apply_reservation(held: Option<&Self>, wanted: &Self) -> Result<Self, PublicKey> {
        match held {
            Some(held) if held.is_enrolled() && !held.released && !held.revoked => Err(held.key),
            held => Ok(wanted.with_former_keys(held)),
        }
    }

    /// Every key that ever had the name, the newest first.
    pub fn all_keys(&self) -> impl Iterator<Item = PublicKey> {
        std::iter::once(self.key).chain(self.former.iter().rev().copied())
    }

    /// This entry in the place of another one, whose keys it remembers.
    fn with_former_keys(&self, held: Option<&Self>) -> Self {
        let mut entry = self.clone();
        if let Some(held) = held {
            let keys = held.former.iter().copied().chain([held.key]);
            entry.former = keys.filter(|key| *key != self.key).collect();
        }
        entry
    }
}
