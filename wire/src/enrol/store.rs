//! The roll: who was enrolled under which name, and how often each bootstrap token was used.
//!
//! Here is what the [enroller](super::Enroller) asks of it. The service keeps it where all of its instances see it.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::future::{Future, ready};
use std::sync::{Mutex, PoisonError};

use super::entry::{NameClaimOutcome, NameEntry};
use super::request::OpenEnrolmentRequest;
use crate::identity::Identity;
use crate::token::PublicKey;

/// What somebody beside the rules says to a wish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EnrolmentApproval {
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
pub trait EnrolmentStore: Send + Sync {
    /// What can go wrong. The wish is then answered with [`super::EnrolmentRefusalReason::Trouble`], and comes again.
    type Error: std::error::Error + Send + Sync + 'static;

    /// The fleet's newest account token, where it is kept; its revocations count for the wish that is decided next.
    fn fleet_account(&self) -> impl Future<Output = Result<Option<String>, Self::Error>> + Send {
        ready(Ok(None))
    }

    /// Who has a name.
    fn find_holder(
        &self,
        name: &Identity,
    ) -> impl Future<Output = Result<Option<NameEntry>, Self::Error>> + Send;

    /// Takes a name: in one step, so that of two keys one gets it. What is released, and what the key has anyway, may be taken.
    fn claim_name(
        &self,
        entry: &NameEntry,
    ) -> impl Future<Output = Result<NameClaimOutcome, Self::Error>> + Send;

    /// Counts a use of a credential, in one step, unless `limit` were used. A name with its key counts once, however often it
    /// comes. Whether it was counted, now or before.
    fn count_use(
        &self,
        entry: &NameEntry,
        limit: u32,
    ) -> impl Future<Output = Result<bool, Self::Error>> + Send;

    /// Whether a node of this name exists although no machine was enrolled under it: it is registered, or it is connected and was asked.
    /// `has_entry` says whether the name has an entry, which is then released. The question is asked before the name is claimed.
    fn is_name_in_use(
        &self,
        _name: &Identity,
        _has_entry: bool,
    ) -> impl Future<Output = Result<bool, Self::Error>> + Send {
        ready(Ok(false))
    }

    /// What somebody says to a wish that the rules allow.
    fn check_approval(
        &self,
        _wish: &OpenEnrolmentRequest,
    ) -> impl Future<Output = Result<EnrolmentApproval, Self::Error>> + Send {
        ready(Ok(EnrolmentApproval::NotNeeded))
    }
}

/// A roll in memory: for trials and tests, and for whoever keeps one elsewhere and needs to decide as it would.
#[derive(Debug, Default)]
pub struct MemoryEnrolmentStore(Mutex<EnrolmentStoreState>);

#[derive(Debug, Default)]
struct EnrolmentStoreState {
    names: BTreeMap<Identity, NameEntry>,
    uses: BTreeMap<PublicKey, BTreeSet<(Identity, PublicKey)>>,
}

impl MemoryEnrolmentStore {
    /// Everybody on it, by name.
    pub fn all_entries(&self) -> Vec<NameEntry> {
        self.with_state(|inner| inner.names.values().cloned().collect())
    }

    /// How often a credential was used.
    pub fn use_count(&self, credential: &PublicKey) -> usize {
        self.with_state(|inner| inner.uses.get(credential).map_or(0, BTreeSet::len))
    }

    /// Lets another key have a name.
    pub fn release_name(&self, name: &Identity) {
        self.with_state(|inner| {
            if let Some(entry) = inner.names.get_mut(name) {
                entry.released = true;
            }
        });
    }

    /// Puts an entry in the place of what the name has.
    pub fn insert_entry(&self, entry: NameEntry) {
        self.with_state(|inner| inner.names.insert(entry.identity.clone(), entry));
    }

    /// Marks the key that has a name as revoked.
    pub fn revoke_name(&self, name: &Identity) {
        self.with_state(|inner| {
            if let Some(entry) = inner.names.get_mut(name) {
                entry.revoked = true;
            }
        });
    }

    fn with_state<T>(&self, look: impl FnOnce(&mut EnrolmentStoreState) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl EnrolmentStore for MemoryEnrolmentStore {
    type Error = Infallible;

    fn find_holder(
        &self,
        name: &Identity,
    ) -> impl Future<Output = Result<Option<NameEntry>, Infallible>> + Send {
        ready(Ok(self.with_state(|inner| inner.names.get(name).cloned())))
    }

    fn claim_name(
        &self,
        entry: &NameEntry,
    ) -> impl Future<Output = Result<NameClaimOutcome, Infallible>> + Send {
        let claimed = self.with_state(|inner| {
            let (changed, claimed) =
                NameEntry::apply_claim(inner.names.get(&entry.identity), entry);
            if let Some(changed) = changed {
                inner.names.insert(entry.identity.clone(), changed);
            }
            claimed
        });
        ready(Ok(claimed))
    }

    fn count_use(
        &self,
        entry: &NameEntry,
        limit: u32,
    ) -> impl Future<Output = Result<bool, Infallible>> + Send {
        let use_of = (entry.identity.clone(), entry.key);
        let counted = self.with_state(|inner| {
            let Some(credential) = entry.credential else {
                return true;
            };
            let uses = inner.uses.entry(credential).or_default();
            let room = uses.len() < usize::try_from(limit).unwrap_or(usize::MAX);
            uses.contains(&use_of) || (room && uses.insert(use_of))
        });
        ready(Ok(counted))
    }
}
