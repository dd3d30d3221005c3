//! Decides on an enrolment request, from the request and the name's current entry. Pure.

use super::entry::{NameClaimOutcome, NameEntry};
use super::store::EnrolmentApproval;
use crate::enrol::EnrolmentRefusalReason;
use crate::enrol::{EnrolmentRequest, OpenEnrolmentRequest};
use crate::identity::Identity;
use crate::{Millis, fresh, limits};

/// The decision on an enrolment request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EnrolmentDecision {
    /// May be enrolled; the token use must still be counted and the name claimed.
    Issue,
    /// Waits for an approval.
    Wait(String),
    /// Refused.
    Refuse(EnrolmentRefusalReason, String),
}

/// The known state of the requested name and key.
#[derive(Debug, Clone, Copy, Default)]
pub struct KnownName<'a> {
    /// The entry of the name.
    pub entry: Option<&'a NameEntry>,
    /// Whether the fleet's account token has a revocation of the key, of any time.
    pub is_key_revoked: bool,
}

/// Decides. `approval` is the result of the approval check.
pub fn decide_enrolment(
    opened: &OpenEnrolmentRequest,
    known: KnownName<'_>,
    approval: &EnrolmentApproval,
    now: Millis,
) -> EnrolmentDecision {
    let (request, grant) = (&opened.request, &opened.grant);
    if let Err(stale) = fresh::check_freshness(
        request.time,
        limits::MAX_ENROLMENT_REQUEST_AGE_MILLIS,
        now,
        fresh::CLOCK_SKEW_MILLIS,
    ) {
        let message = format!(
            "the request is {} by the provisioner's clock: the clocks differ, or the message was delayed; compare the clocks",
            fresh::describe_age(stale.age_ms)
        );
        return EnrolmentDecision::Refuse(EnrolmentRefusalReason::Stale, message);
    }
    if !grant.allows_name(&request.identity) {
        let message = format!("the bootstrap token does not allow the name {}", request.identity);
        return EnrolmentDecision::Refuse(EnrolmentRefusalReason::NameNotAllowed, message);
    }
    let claim = NameEntry::evaluate_claim(known.entry, request.key);
    if known.is_key_revoked || claim == NameClaimOutcome::Revoked {
        let message = key_revoked_message(request);
        return EnrolmentDecision::Refuse(EnrolmentRefusalReason::Revoked, message);
    }
    if let NameClaimOutcome::Taken(_) = claim {
        let is_revoked = known.entry.is_some_and(|entry| entry.revoked);
        let message = if is_revoked {
            let name = &request.identity;
            format!("the node {name} was revoked; run `rpc provision release {name}`")
        } else {
            name_taken_message(&request.identity)
        };
        return EnrolmentDecision::Refuse(EnrolmentRefusalReason::NameTaken, message);
    }
    match approval {
        EnrolmentApproval::NotNeeded | EnrolmentApproval::Given => EnrolmentDecision::Issue,
        EnrolmentApproval::Awaited(message) => EnrolmentDecision::Wait(message.clone()),
        EnrolmentApproval::Denied(reason) => {
            EnrolmentDecision::Refuse(EnrolmentRefusalReason::Denied, reason.clone())
        }
    }
}

/// The message for the second machine of a name.
pub(super) fn name_taken_message(name: &Identity) -> String {
    format!(
        "the name {name} belongs to another key; choose another name, or release it if that machine no longer exists"
    )
}

/// The message for a revoked key.
pub(super) fn key_revoked_message(request: &EnrolmentRequest) -> String {
    format!(
        "the key {} was revoked; give the machine a new key (remove newcomer.json from its state directory), and release the name {}",
        request.key, request.identity
    )
}

/// The message for a name that belongs to a node that was not enrolled.
pub(super) fn name_in_use_message(name: &Identity) -> String {
    format!(
        "a node with the name {name} is registered or connected; choose another name, or stop that node and release the name"
    )
}
