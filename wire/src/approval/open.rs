//! Believes a proposal or an approval, or says why not; and tells whether a request is what was approved.

use std::sync::Arc;

use super::{ProposalApproval, RequestProposal, decode_envelope};
use crate::identity::Identity;
use crate::request::{Request, RequestTarget};
use crate::sign::{Envelope, EnvelopeKind, MessageRefusal};
use crate::token::{AccountTrust, TokenCache, UserRole, VerifiedUser};
use crate::unique::check_unique_keys;
use crate::{Millis, fresh, limits};

/// A proposal of a proven caller.
#[derive(Debug, Clone)]
pub struct OpenProposal {
    /// What it wants to ask.
    pub proposal: RequestProposal,
    /// Who it is.
    pub caller: Arc<VerifiedUser>,
}

/// A proposal that a second proven caller has approved.
#[derive(Debug, Clone)]
pub struct ApprovedProposal {
    /// What was proposed, and by whom.
    pub proposed: OpenProposal,
    /// Who approved it.
    pub approver: Arc<VerifiedUser>,
}

/// Why a proposal or an approval does not count.
#[derive(Debug, thiserror::Error)]
pub enum ApprovalError {
    /// Its envelope or token is not believed.
    #[error("it is not authentic")]
    Refused(#[from] MessageRefusal),
    /// Not of the form that it should have.
    #[error("it cannot be read: {0}")]
    Shape(&'static str),
    /// Not the JSON that it should be.
    #[error("it cannot be read")]
    Json(#[source] serde_json::Error),
    /// It says that somebody else made it than did.
    #[error("it says it is from {claimed}, but {sender} signed it")]
    WrongSender {
        /// Who signed it.
        sender: Identity,
        /// Whom it names.
        claimed: Identity,
    },
    /// It would be good for longer than anything may be, or for no time.
    #[error("it is good for {0} ms; 1 to {max} are allowed", max = limits::MAX_PROPOSAL_LIFETIME_MILLIS)]
    Lifetime(Millis),
    /// Its time is over.
    #[error("its time was over {0} ms ago; propose it again")]
    Expired(Millis),
    /// It was made later than now.
    #[error("it was made {0} ms from now; compare the clocks")]
    Future(Millis),
    /// One person is not two.
    #[error("{0} cannot approve what {0} asks for; it takes a second person with a key of its own")]
    Oneself(Identity),
    /// The request is not what was approved.
    #[error("it is for another request: the {0} is not the one that was approved")]
    Other(&'static str),
}

/// Opens a sealed proposal. It may be over: then it cannot be asked any more, but still be looked at.
pub fn open_proposal(
    bytes: &[u8],
    trust: &AccountTrust,
    cache: &TokenCache,
    now: Millis,
) -> Result<OpenProposal, ApprovalError> {
    let opened = Envelope::decode(EnvelopeKind::Proposal, bytes)?.verify(
        trust,
        cache,
        now,
        &[UserRole::Caller],
    )?;
    check_unique_keys(opened.body).map_err(ApprovalError::Json)?;
    let proposal: RequestProposal =
        serde_json::from_slice(opened.body).map_err(ApprovalError::Json)?;
    check_signer(&opened.sender, &proposal.caller)?;
    let lifetime = proposal.expires_at.saturating_sub(proposal.issued_at);
    if lifetime == 0 || lifetime > limits::MAX_PROPOSAL_LIFETIME_MILLIS {
        return Err(ApprovalError::Lifetime(lifetime));
    }
    if proposal.nodes.is_empty() || proposal.nodes.len() > limits::MAX_TARGET_NODES {
        return Err(ApprovalError::Shape("it names no nodes, or too many"));
    }
    if proposal.id.get_version_num() != 7 {
        return Err(ApprovalError::Shape("its id is not a version 7 UUID"));
    }
    Ok(OpenProposal {
        proposal,
        caller: opened.sender,
    })
}

/// Opens a sealed approval, as a request carries it, and the proposal in it.
pub fn open_approval(
    text: &str,
    trust: &AccountTrust,
    cache: &TokenCache,
    now: Millis,
) -> Result<ApprovedProposal, ApprovalError> {
    let bytes = decode_envelope(text)?;
    let opened = Envelope::decode(EnvelopeKind::Approval, &bytes)?.verify(
        trust,
        cache,
        now,
        &[UserRole::Caller],
    )?;
    check_unique_keys(opened.body).map_err(ApprovalError::Json)?;
    let approval: ProposalApproval =
        serde_json::from_slice(opened.body).map_err(ApprovalError::Json)?;
    let approver = opened.sender;
    check_signer(&approver, &approval.approver)?;
    let proposed = open_proposal(&decode_envelope(&approval.proposal)?, trust, cache, now)?;
    let caller = &proposed.caller;
    if approver.identity == caller.identity || approver.key == caller.key {
        return Err(ApprovalError::Oneself(approver.identity.clone()));
    }
    Ok(ApprovedProposal { proposed, approver })
}

fn check_signer(sender: &VerifiedUser, claimed: &Identity) -> Result<(), ApprovalError> {
    if sender.identity == *claimed {
        return Ok(());
    }
    let (sender, claimed) = (sender.identity.clone(), claimed.clone());
    Err(ApprovalError::WrongSender { sender, claimed })
}

impl OpenProposal {
    /// Whether it may be asked at this instant. Clocks may differ by [`fresh::CLOCK_SKEW_MILLIS`] at its beginning; its end is its end.
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
    /// Whether this request, of this caller, is just what was approved. `is_secret` tells which inputs an approver does not see.
    pub fn check_request(
        &self,
        request: &Request,
        caller: &VerifiedUser,
        now: Millis,
        is_secret: impl Fn(&str) -> bool,
    ) -> Result<(), ApprovalError> {
        self.proposed.check_validity_period(now)?;
        let proposal = &self.proposed.proposal;
        let nodes = match &request.target {
            RequestTarget::Nodes(nodes) => nodes.is_subset(&proposal.nodes),
            RequestTarget::Filter(_) => false,
        };
        let proposer = &self.proposed.caller;
        let same = [
            (
                "caller",
                request.caller == proposal.caller && caller.key == proposer.key,
            ),
            ("collective", request.collective == proposal.collective),
            ("agent", request.agent == proposal.agent),
            ("action", request.action == proposal.action),
            ("target", nodes),
            (
                "data",
                proposal
                    .inputs
                    .matches_request_data(proposal.id, &request.data, is_secret),
            ),
        ];
        match same.into_iter().find(|(_, same)| !same) {
            Some((field, _)) => Err(ApprovalError::Other(field)),
            None => Ok(()),
        }
    }
}
