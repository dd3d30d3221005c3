//! Verifies proposals and approvals, and compares a request with the approved proposal.

use std::sync::Arc;

use muster_base::format_millis;
use serde::Deserialize;

use super::{ProposalApproval, RequestProposal, decode_envelope};
use crate::identity::Identity;
use crate::request::{Request, RequestTarget};
use crate::sign::{Envelope, EnvelopeKind, MessageRefusal};
use crate::token::{AccountTrust, TokenCache, UserRole, VerifiedUser};
use crate::unique::check_unique_keys;
use crate::{Millis, fresh, limits};

/// A proposal with a verified caller.
#[derive(Debug, Clone)]
pub struct OpenProposal {
    /// The proposed request.
    pub proposal: RequestProposal,
    /// The verified caller.
    pub caller: Arc<VerifiedUser>,
}

/// A proposal approved by a second verified caller.
#[derive(Debug, Clone)]
pub struct ApprovedProposal {
    /// The proposal and its caller.
    pub proposed: OpenProposal,
    /// The verified approver.
    pub approver: Arc<VerifiedUser>,
}

/// Reasons to reject a proposal or an approval.
#[derive(Debug, thiserror::Error)]
pub enum ApprovalError {
    /// The envelope or token failed verification.
    #[error("authentication failed")]
    Refused(#[from] MessageRefusal),
    /// The encoding is invalid.
    #[error("invalid format: {0}")]
    Shape(&'static str),
    /// The body is not valid JSON of the expected type.
    #[error("invalid format: not the JSON of a proposal or an approval")]
    Json(#[source] serde_json::Error),
    /// The claimed author differs from the signer.
    #[error("the content specifies the author {claimed}, but {sender} signed it")]
    WrongSender {
        /// The signer.
        sender: Identity,
        /// The claimed author.
        claimed: Identity,
    },
    /// The lifetime is zero or above the limit.
    #[error("the lifetime is {}; at most {} is allowed", format_millis(*.0), format_millis(limits::MAX_PROPOSAL_LIFETIME_MILLIS))]
    Lifetime(Millis),
    /// The proposal expired.
    #[error("the proposal expired {} ago; create a new one", format_millis(*.0))]
    Expired(Millis),
    /// The creation time is in the future.
    #[error("the proposal was created {} in the future; compare the clocks", format_millis(*.0))]
    Future(Millis),
    /// Caller and approver are the same person.
    #[error(
        "{0} cannot approve a proposal of {0}; a second person with a different key must approve it"
    )]
    SelfApproval(Identity),
    /// The request differs from the approved proposal.
    #[error("the approval is for another request: the {0} differs from the approved proposal")]
    RequestMismatch(&'static str),
}

/// Verifies a signed proposal. An expired proposal is accepted, so that it can be displayed; it cannot be requested any more.
pub fn open_proposal(
    bytes: &[u8],
    trust: &AccountTrust,
    cache: &TokenCache,
    now: Millis,
) -> Result<OpenProposal, ApprovalError> {
    let envelope = Envelope::decode(EnvelopeKind::Proposal, bytes)?;
    let opened = envelope.verify(trust, cache, now, &[UserRole::Caller])?;
    let proposal: RequestProposal = parse_body(opened.body)?;
    check_signer(&opened.sender, &proposal.caller)?;
    let lifetime = proposal.expires_at.saturating_sub(proposal.issued_at);
    if lifetime == 0 || lifetime > limits::MAX_PROPOSAL_LIFETIME_MILLIS {
        return Err(ApprovalError::Lifetime(lifetime));
    }
    if proposal.nodes.is_empty() || proposal.nodes.len() > limits::MAX_TARGET_NODES {
        return Err(ApprovalError::Shape("no nodes or too many nodes"));
    }
    if proposal.id.get_version_num() != 7 {
        return Err(ApprovalError::Shape("the id is not a version 7 UUID"));
    }
    Ok(OpenProposal { proposal, caller: opened.sender })
}

/// Verifies a signed approval, as a request carries it, and the proposal in it.
pub fn open_approval(
    text: &str,
    trust: &AccountTrust,
    cache: &TokenCache,
    now: Millis,
) -> Result<ApprovedProposal, ApprovalError> {
    let bytes = decode_envelope(text)?;
    let envelope = Envelope::decode(EnvelopeKind::Approval, &bytes)?;
    let opened = envelope.verify(trust, cache, now, &[UserRole::Caller])?;
    let approval: ProposalApproval = parse_body(opened.body)?;
    let approver = opened.sender;
    check_signer(&approver, &approval.approver)?;
    let proposed = open_proposal(&decode_envelope(&approval.proposal)?, trust, cache, now)?;
    let caller = &proposed.caller;
    if approver.identity == caller.identity || approver.key == caller.key {
        return Err(ApprovalError::SelfApproval(approver.identity.clone()));
    }
    Ok(ApprovedProposal { proposed, approver })
}

fn parse_body<'de, T: Deserialize<'de>>(body: &'de [u8]) -> Result<T, ApprovalError> {
    let body = check_unique_keys(body).and_then(|()| serde_json::from_slice(body));
    body.map_err(ApprovalError::Json)
}

fn check_signer(sender: &VerifiedUser, claimed: &Identity) -> Result<(), ApprovalError> {
    if sender.identity == *claimed {
        return Ok(());
    }
    let (sender, claimed) = (sender.identity.clone(), claimed.clone());
    Err(ApprovalError::WrongSender { sender, claimed })
}

impl OpenProposal {
    /// Checks the validity period at this instant. [`fresh::CLOCK_SKEW_MILLIS`] of clock skew are allowed at its start, none at its end.
    pub fn check_validity_period(&self, now: Millis) -> Result<(), ApprovalError> {
        let proposal = &self.proposal;
        if now > proposal.expires_at {
            return Err(ApprovalError::Expired(now - proposal.expires_at));
        }
        let ahead = proposal.issued_at.saturating_sub(now);
        if ahead > fresh::CLOCK_SKEW_MILLIS {
            return Err(ApprovalError::Future(ahead));
        }
        Ok(())
    }
}

impl ApprovedProposal {
    /// Checks that this request of this caller equals the approved proposal. `is_secret` selects the inputs that an approver sees as digests.
    pub fn check_request(
        &self,
        request: &Request,
        caller: &VerifiedUser,
        now: Millis,
        is_secret: impl Fn(&str) -> bool,
    ) -> Result<(), ApprovalError> {
        self.proposed.check_validity_period(now)?;
        let proposal = &self.proposed.proposal;
        let is_target_covered = match &request.target {
            RequestTarget::Nodes(nodes) => nodes.is_subset(&proposal.nodes),
            RequestTarget::Filter(_) => false,
        };
        let proposer = &self.proposed.caller;
        let comparisons = [
            ("caller", request.caller == proposal.caller && caller.key == proposer.key),
            ("collective", request.collective == proposal.collective),
            ("agent", request.agent == proposal.agent),
            ("action", request.action == proposal.action),
            ("target", is_target_covered),
            ("data", proposal.inputs.matches_request_data(proposal.id, &request.data, is_secret)),
        ];
        match comparisons.into_iter().find(|(_, is_same)| !is_same) {
            Some((field, _)) => Err(ApprovalError::RequestMismatch(field)),
            None => Ok(()),
        }
    }
}
