//! The results of the stages before execution: a request is accepted, waits for data sources, or is rejected.

use muster_wire::status::{ReplyReason, ReplyStatus};
use muster_wire::trace::StageName;
use tokio::sync::OwnedSemaphorePermit;

use super::passed_values::{AcceptedRequest, VerifiedRequest};
use crate::core::sent_replies::SentReply;

/// A request ends before its action.
#[derive(Debug)]
pub(crate) enum RequestRejection {
    /// No reply is sent; the message is counted.
    Silent,
    /// The caller gets the reply that it was sent before.
    Repeated(SentReply),
    /// The caller gets a refusal.
    Refused(Box<RefusedRequest>),
}

#[derive(Debug)]
pub(crate) struct RefusedRequest {
    pub(super) verified: VerifiedRequest,
    pub(super) status: ReplyStatus,
    pub(super) message: String,
    pub(super) reason: Option<ReplyReason>,
    /// The stage that refused it, set when the stage ends.
    pub(super) stage: Option<StageName>,
}

impl RequestRejection {
    pub(super) fn new_refusal(
        verified: VerifiedRequest,
        status: ReplyStatus,
        message: String,
        reason: Option<ReplyReason>,
    ) -> Self {
        Self::Refused(Box::new(RefusedRequest { verified, status, message, reason, stage: None }))
    }
}

/// The result for a message that was not refused.
#[derive(Debug)]
pub enum RequestAdmission {
    Accepted(Box<AcceptedRequest>),
    /// Data sources must decide whether the request targets this node or is allowed.
    Undecided(Box<PendingAdmission>),
}

/// A request that waits for data sources.
#[derive(Debug)]
pub struct PendingAdmission {
    pub(super) check: PendingCheck,
    /// Its permit among the waiting requests.
    pub(super) permit: OwnedSemaphorePermit,
}

#[derive(Debug)]
pub(super) enum PendingCheck {
    /// Whether the request targets this node.
    Target(Box<VerifiedRequest>),
    /// Whether the caller is allowed.
    Allowed(Box<AcceptedRequest>),
}

impl PendingCheck {
    pub(super) fn verified_request(&self) -> &VerifiedRequest {
        match self {
            Self::Target(verified) => verified,
            Self::Allowed(accepted) => &accepted.verified,
        }
    }
}
