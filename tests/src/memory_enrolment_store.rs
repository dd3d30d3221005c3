//! An enrolment store in memory, for the tests of this crate and of `wire`.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::future::{Future, ready};
use std::sync::{Mutex, PoisonError};

use muster_wire::enrolment::{EnrolmentStore, NameClaimOutcome, NameEntry};
use muster_wire::identity::Identity;
use muster_wire::token::PublicKey;

/// Applies the rules of [`NameEntry`] to a map.
#[derive(Debug, Default)]
pub struct MemoryEnrolmentStore(Mutex<EnrolmentStoreState>);

#[derive(Debug, Default)]
struct EnrolmentStoreState {
    names: BTreeMap<Identity, NameEntry>,
    uses: BTreeMap<PublicKey, BTreeSet<(Identity, PublicKey)>>,
}

impl MemoryEnrolmentStore {
    /// All entries, by name.
    pub fn all_entries(&self) -> Vec<NameEntry> {
        self.with_state(|state| state.names.values().cloned().collect())
    }

    /// The use count of a credential.
    pub fn use_count(&self, credential: &PublicKey) -> usize {
        self.with_state(|state| state.uses.get(credential).map_or(0, BTreeSet::len))
    }

    /// Marks a name as released, so that another key may claim it.
    pub fn release_name(&self, name: &Identity) {
        self.with_state(|state| {
            if let Some(entry) = state.names.get_mut(name) {
                entry.released = true;
            }
        });
    }

    /// Replaces the entry of a name.
    pub fn insert_entry(&self, entry: NameEntry) {
        self.with_state(|state| state.names.insert(entry.identity.clone(), entry));
    }

    /// Marks the key of a name as revoked.
    pub fn revoke_name(&self, name: &Identity) {
        self.with_state(|state| {
            if let Some(entry) = state.names.get_mut(name) {
                entry.revoked = true;
            }
        });
    }

    fn with_state<T>(&self, access: impl FnOnce(&mut EnrolmentStoreState) -> T) -> T {
        access(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl EnrolmentStore for MemoryEnrolmentStore {
    type Error = Infallible;

    fn find_holder(
        &self,
        name: &Identity,
    ) -> impl Future<Output = Result<Option<NameEntry>, Infallible>> + Send {
        ready(Ok(self.with_state(|state| state.names.get(name).cloned())))
    }

    fn claim_name(
        &self,
        entry: &NameEntry,
    ) -> impl Future<Output = Result<NameClaimOutcome, Infallible>> + Send {
        let outcome = self.with_state(|state| {
            let (new_entry, outcome) =
                NameEntry::apply_claim(state.names.get(&entry.identity), entry);
            if let Some(new_entry) = new_entry {
                state.names.insert(entry.identity.clone(), new_entry);
            }
            outcome
        });
        ready(Ok(outcome))
    }

    fn count_use(
        &self,
        entry: &NameEntry,
        limit: u32,
    ) -> impl Future<Output = Result<bool, Infallible>> + Send {
        let use_key = (entry.identity.clone(), entry.key);
        let is_counted = self.with_state(|state| {
            let Some(credential) = entry.credential else {
                return true;
            };
            let uses = state.uses.entry(credential).or_default();
            let has_capacity = uses.len() < usize::try_from(limit).unwrap_or(usize::MAX);
            uses.contains(&use_key) || (has_capacity && uses.insert(use_key))
        });
        ready(Ok(is_counted))
    }
}
