//! The entry of one name: its key, the issuer of the key, and its changes by claim, reservation, revocation and release. Pure.
//!
//! The enroller and the organisation's tools write the same entries. A name is free if it has no entry, or if its entry is released.

use serde::{Deserialize, Serialize};

use crate::Millis;
use crate::identity::Identity;
use crate::token::PublicKey;

/// A name and the key that holds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameEntry {
    /// The name.
    pub identity: Identity,
    /// The key that holds it.
    pub key: PublicKey,
    /// The bootstrap credential used; `None` if the organisation itself issued the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<PublicKey>,
    /// When a token of the key was last issued, by the clock of the issuer.
    pub at: Millis,
    /// Whether another key may claim the name.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub released: bool,
    /// Whether the key was revoked. The enroller issues no further token to it, even after a release.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub revoked: bool,
    /// Former keys of the name, oldest first. Their tokens may still be valid.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub former: Vec<PublicKey>,
}

/// The result of claiming a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NameClaimOutcome {
    /// The key holds the name now.
    Now,
    /// The key held it before.
    Before,
    /// Another key holds it and was not released, or the organisation issued the name.
    Taken(PublicKey),
    /// The key was revoked.
    Revoked,
}

impl NameEntry {
    /// Whether the enroller issued the key, and not the organisation.
    pub fn is_enrolled(&self) -> bool {
        self.credential.is_some()
    }

    /// Whether this key enrolled under the name before, and may enrol again.
    pub fn is_held_by(&self, key: PublicKey) -> bool {
        self.is_enrolled() && self.key == key && !self.released && !self.revoked
    }

    /// Whether further tokens may be issued for the key.
    pub fn is_renewable(&self) -> bool {
        !self.released && !self.revoked
    }

    /// Evaluates a claim of the name by this key.
    pub fn evaluate_claim(held: Option<&Self>, key: PublicKey) -> NameClaimOutcome {
        match held {
            Some(held) if held.revoked && held.key == key => NameClaimOutcome::Revoked,
            Some(held) if held.is_held_by(key) => NameClaimOutcome::Before,
            Some(held) if !held.released => NameClaimOutcome::Taken(held.key),
            _ => NameClaimOutcome::Now,
        }
    }

    /// The entry after a claim by the enroller; `None` if the claim is refused. A successful claim is always written, even for a key
    /// that holds the name already, so that a concurrent revocation causes a write conflict on one of the two sides.
    pub fn apply_claim(held: Option<&Self>, wanted: &Self) -> (Option<Self>, NameClaimOutcome) {
        let claimed = Self::evaluate_claim(held, wanted.key);
        let entry = match claimed {
            NameClaimOutcome::Now | NameClaimOutcome::Before => Some(wanted.with_former_keys(held)),
            NameClaimOutcome::Taken(_) | NameClaimOutcome::Revoked => None,
        };
        (entry, claimed)
    }

    /// The entry after the organisation reserves the name. Fails with the current key if the enroller issued the name, and it is neither
    /// released nor revoked.
    pub fn apply_reservation(held: Option<&Self>, wanted: &Self) -> Result<Self, PublicKey> {
        match held {
            Some(held) if held.is_enrolled() && !held.released && !held.revoked => Err(held.key),
            held => Ok(wanted.with_former_keys(held)),
        }
    }

    /// All current and former keys of the name, newest first.
    pub fn all_keys(&self) -> impl Iterator<Item = PublicKey> {
        std::iter::once(self.key).chain(self.former.iter().rev().copied())
    }

    /// This entry as a replacement for another one, with its keys added to the former keys.
    fn with_former_keys(&self, held: Option<&Self>) -> Self {
        let mut entry = self.clone();
        if let Some(held) = held {
            let keys = held.former.iter().copied().chain([held.key]);
            entry.former = keys.filter(|key| *key != self.key).collect();
        }
        entry
    }
}
