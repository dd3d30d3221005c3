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
    /// The bootstrap credential used, or the account's key if the entry was lost and restored; `None` if the organisation itself issued the key.
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
    Claimed,
    /// The key held it before.
    AlreadyClaimed,
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
    pub fn evaluate_claim(current: Option<&Self>, key: PublicKey) -> NameClaimOutcome {
        match current {
            Some(current) if current.revoked && current.key == key => NameClaimOutcome::Revoked,
            Some(current) if current.is_held_by(key) => NameClaimOutcome::AlreadyClaimed,
            Some(current) if !current.released => NameClaimOutcome::Taken(current.key),
            _ => NameClaimOutcome::Claimed,
        }
    }

    /// The entry after a claim by the enroller; `None` if the claim is refused. A successful claim is always written, even for a key
    /// that holds the name already, so that a concurrent revocation causes a write conflict on one of the two sides.
    pub fn apply_claim(
        current: Option<&Self>,
        requested: &Self,
    ) -> (Option<Self>, NameClaimOutcome) {
        let outcome = Self::evaluate_claim(current, requested.key);
        let entry = match outcome {
            NameClaimOutcome::Claimed | NameClaimOutcome::AlreadyClaimed => {
                Some(requested.with_former_keys(current))
            }
            NameClaimOutcome::Taken(_) | NameClaimOutcome::Revoked => None,
        };
        (entry, outcome)
    }

    /// The entry after the organisation reserves the name. Fails with the current key if the enroller issued the name, and it is neither
    /// released nor revoked.
    pub fn apply_reservation(current: Option<&Self>, requested: &Self) -> Result<Self, PublicKey> {
        match current {
            Some(current) if current.is_enrolled() && !current.released && !current.revoked => {
                Err(current.key)
            }
            current => Ok(requested.with_former_keys(current)),
        }
    }

    /// All current and former keys of the name, newest first.
    pub fn all_keys(&self) -> impl Iterator<Item = PublicKey> {
        std::iter::once(self.key).chain(self.former.iter().rev().copied())
    }

    /// This entry as a replacement for another one, with its keys added to the former keys.
    fn with_former_keys(&self, current: Option<&Self>) -> Self {
        let mut entry = self.clone();
        if let Some(current) = current {
            let keys = current.former.iter().copied().chain([current.key]);
            entry.former = keys.filter(|key| *key != self.key).collect();
        }
        entry
    }
}
