//! The roll: who was enrolled under which name, and how often each bootstrap token was used.
//!
//! Here is what the [enroller](super::Enroller) asks of it. The service keeps it where all of its instances see it.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::future::{Future, ready};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::hello::OpenHello;
use crate::Millis;
use crate::identity::Identity;
use crate::token::PublicKey;

/// A name, and the key that has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The name.
    pub identity: Identity,
    /// The key that has it.
    pub key: PublicKey,
    /// The bootstrap credential that it came by.
    pub credential: PublicKey,
    /// Since when, by the clock of the service.
    pub at: Millis,
    /// Whether another key may have the name from now on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub released: bool,
}

/// What became of the attempt to take a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claimed {
    /// The key has the name now.
    Now,
    /// The key had it before.
    Before,
    /// Another key has it, and was not released.
    Taken(PublicKey),
}

/// What somebody beside the rules says to a wish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Approval {
    /// Nobody has to say anything.
    NotNeeded,
    /// Somebody has said yes.
    Given,
    /// Somebody has to say something; the text tells what is waited for.
    Awaited(String),
    /// Somebody has said no; the text tells why.
    Denied(String),
}

/// Where names and uses are kept. Several instances of a service may work on one roll at once.
pub trait Roll: Send + Sync {
    /// What can go wrong. The wish is then answered with [`super::Reason::Trouble`], and comes again.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Who has a name.
    fn holder(
        &self,
        name: &Identity,
    ) -> impl Future<Output = Result<Option<Entry>, Self::Error>> + Send;

    /// Takes a name: in one step, so that of two keys one gets it. What is released, and what the key has anyway, may be taken.
    fn claim(&self, entry: &Entry) -> impl Future<Output = Result<Claimed, Self::Error>> + Send;

    /// Counts a use of a credential, in one step, unless `limit` were used. A name with its key counts once, however often it
    /// comes. Whether it was counted, now or before.
    fn take_use(
        &self,
        entry: &Entry,
        limit: u32,
    ) -> impl Future<Output = Result<bool, Self::Error>> + Send;

    /// What somebody says to a wish that the rules allow.
    fn approval(
        &self,
        _wish: &OpenHello,
    ) -> impl Future<Output = Result<Approval, Self::Error>> + Send {
        ready(Ok(Approval::NotNeeded))
    }
}

/// A roll in memory: for trials and tests, and for whoever keeps one elsewhere and needs to decide as it would.
#[derive(Debug, Default)]
pub struct MemoryRoll(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    names: BTreeMap<Identity, Entry>,
    uses: BTreeMap<PublicKey, BTreeSet<(Identity, PublicKey)>>,
}

impl MemoryRoll {
    /// Everybody on it, by name.
    pub fn entries(&self) -> Vec<Entry> {
        self.with(|inner| inner.names.values().cloned().collect())
    }

    /// How often a credential was used.
    pub fn uses(&self, credential: &PublicKey) -> usize {
        self.with(|inner| inner.uses.get(credential).map_or(0, BTreeSet::len))
    }

    /// Lets another key have a name.
    pub fn release(&self, name: &Identity) {
        self.with(|inner| {
            if let Some(entry) = inner.names.get_mut(name) {
                entry.released = true;
            }
        });
    }

    fn with<T>(&self, look: impl FnOnce(&mut Inner) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Roll for MemoryRoll {
    type Error = Infallible;

    fn holder(
        &self,
        name: &Identity,
    ) -> impl Future<Output = Result<Option<Entry>, Infallible>> + Send {
        ready(Ok(self.with(|inner| inner.names.get(name).cloned())))
    }

    fn claim(&self, entry: &Entry) -> impl Future<Output = Result<Claimed, Infallible>> + Send {
        let claimed = self.with(|inner| match inner.names.get(&entry.identity) {
            Some(held) if held.key == entry.key && !held.released => Claimed::Before,
            Some(held) if !held.released => Claimed::Taken(held.key),
            _ => {
                inner.names.insert(entry.identity.clone(), entry.clone());
                Claimed::Now
            }
        });
        ready(Ok(claimed))
    }

    fn take_use(
        &self,
        entry: &Entry,
        limit: u32,
    ) -> impl Future<Output = Result<bool, Infallible>> + Send {
        let use_of = (entry.identity.clone(), entry.key);
        let counted = self.with(|inner| {
            let uses = inner.uses.entry(entry.credential).or_default();
            let room = uses.len() < usize::try_from(limit).unwrap_or(usize::MAX);
            uses.contains(&use_of) || (room && uses.insert(use_of))
        });
        ready(Ok(counted))
    }
}
