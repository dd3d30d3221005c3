//! The enrolment store: the key of each name, and the use count of each bootstrap token.
//!
//! This module defines the interface for the [enroller](super::NodeEnroller). The service stores the data where all its instances share it.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::future::{Future, ready};
use std::sync::{Mutex, PoisonError};

use super::entry::{NameClaimOutcome, NameEntry};
use muster_wire::enrol::OpenEnrolmentRequest;
use muster_wire::identity::Identity;
use muster_wire::token::PublicKey;

/// The external approval of an enrolment request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EnrolmentApproval {
    /// No approval is required.
    NotNeeded,
    /// Approved.
    Given,
    /// Pending; the text says what is pending.
    Awaited(String),
    /// Denied; the text is the reason.
    Denied(String),
}

/// Stores names and uses. Several service instances may use one store concurrently.
pub trait EnrolmentStore: Send + Sync {
    /// Store errors. The request is then answered with [`muster_wire::enrol::EnrolmentRefusalReason::Trouble`], and the node retries.
    type Error: std::error::Error + Send + Sync + 'static;

    /// The fleet's newest account token, if the store keeps it. Its revocations apply to the next decision.
    fn fleet_account(&self) -> impl Future<Output = Result<Option<String>, Self::Error>> + Send {
        ready(Ok(None))
    }

    /// The entry of a name.
    fn find_holder(
        &self,
        name: &Identity,
    ) -> impl Future<Output = Result<Option<NameEntry>, Self::Error>> + Send;

    /// Claims a name atomically, so that one of two concurrent keys succeeds. A released name, and a name that the key holds already, can
    /// be claimed.
    fn claim_name(
        &self,
        entry: &NameEntry,
    ) -> impl Future<Output = Result<NameClaimOutcome, Self::Error>> + Send;

    /// Counts one use of a credential atomically, unless `limit` is reached. A pair of name and key counts once, however often it
    /// enrols. Returns whether it is counted, now or before.
    fn count_use(
        &self,
        entry: &NameEntry,
        limit: u32,
    ) -> impl Future<Output = Result<bool, Self::Error>> + Send;

    /// Whether a node of this name exists that was not enrolled: it is registered, or it is connected and answered a request.
    /// `has_entry` says whether the name has an entry, which is then released. Called before the name is claimed.
    fn is_name_in_use(
        &self,
        _name: &Identity,
        _has_entry: bool,
    ) -> impl Future<Output = Result<bool, Self::Error>> + Send {
        ready(Ok(false))
    }

    /// The external approval of a request that the rules permit.
    fn check_approval(
        &self,
        _request: &OpenEnrolmentRequest,
    ) -> impl Future<Output = Result<EnrolmentApproval, Self::Error>> + Send {
        ready(Ok(EnrolmentApproval::NotNeeded))
    }
}

/// An in-memory store, for tests and for implementations that store the data elsewhere but apply the same rules.
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
