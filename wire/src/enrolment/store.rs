//! The enrolment store: the key of each name, and the use count of each bootstrap token.
//!
//! This module defines the interface for the [enroller](super::NodeEnroller). The service stores the data where all its instances share it.

use std::future::{Future, ready};

use super::entry::{NameClaimOutcome, NameEntry};
use crate::enrol::OpenEnrolmentRequest;
use crate::identity::Identity;

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
    /// Store errors. The request is then answered with [`crate::enrol::EnrolmentRefusalReason::Trouble`], and the node retries.
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
