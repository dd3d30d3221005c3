//! Believes a proposal or an approval, or says why not; and tells whether a request is what was approved.

use std::sync::Arc;

use super::{Approval, Proposal, decode};
use crate::identity::Identity;
use crate::request::{Request, Target};
use crate::sign::{Envelope, Kind, Refusal};
use crate::token::{Role, TokenCache, Trust, Verified};
use crate::unique::check_unique_keys;
use crate::{Millis, fresh, limits};

/// A proposal of a proven caller.
#[derive(Debug, Clone)]
pub struct OpenProposal {
    /// What it wants to ask.
    pub proposal: Proposal,
    /// Who it is.
    pub caller: Arc<Verified>,
}

/// A proposal that a second proven caller has approved.
#[derive(Debug, Clone)]
pub struct Approved {
    /// What was proposed, and by whom.
    pub proposed: OpenProposal,
    /// Who approved it.
    pub approver: Arc<Verified>,
}

/// Why a proposal or an approval does not count.
#[derive(Debug, thiserror::Error)]
pub enum ApprovalError {
    /// Its envelope or token is not believed.
    #[error("it is not authentic")]
    Refused(#[from] Refusal),
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
    #[error("it is good for {0} ms; 1 to {max} are allowed", max = limits::APPROVAL_MILLIS)]
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
    trust: &Trust,
    cache: &TokenCache,
    now: Millis,
) -> Result<OpenProposal, ApprovalError> {
    let opened =
        Envelope::decode(Kind::Proposal, bytes)?.verify(trust, cache, now, &[Role::Caller])?;
    check_unique_keys(opened.body).map_err(ApprovalError::Json)?;
    let proposal: Proposal = serde_json::from_slice(opened.body).map_err(ApprovalError::Json)?;
    signed_by(&opened.sender, &proposal.caller)?;
    let lifetime = proposal.expires_at.saturating_sub(proposal.issued_at);
    if lifetime == 0 || lifetime > limits::APPROVAL_MILLIS {
        return Err(ApprovalError::Lifetime(lifetime));
    }
    if proposal.nodes.is_empty() || proposal.nodes.len() > limits::TARGETS {
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
    trust: &Trust,
    cache: &TokenCache,
    now: Millis,
) -> Result<Approved, ApprovalError> {
    let bytes = decode(text)?;
    let opened =
        Envelope::decode(Kind::Approval, &bytes)?.verify(trust, cache, now, &[Role::Caller])?;
    check_unique_keys(opened.body).map_err(ApprovalError::Json)?;
    let approval: Approval = serde_json::from_slice(opened.body).map_err(ApprovalError::Json)?;
    let approver = opened.sender;
    signed_by(&approver, &approval.approver)?;
    let proposed = open_proposal(&decode(&approval.proposal)?, trust, cache, now)?;
    let caller = &proposed.caller;
    if approver.identity == caller.identity || approver.key == caller.key {
        return Err(ApprovalError::Oneself(approver.identity.clone()));
    }
    Ok(Approved { proposed, approver })
}

fn signed_by(sender: &Verified, claimed: &Identity) -> Result<(), ApprovalError> {
    if sender.identity == *claimed {
        return Ok(());
    }
    let (sender, claimed) = (sender.identity.clone(), claimed.clone());
    Err(ApprovalError::WrongSender { sender, claimed })
}

impl OpenProposal {
    /// Whether it may be asked at this instant. Clocks may differ by [`fresh::SKEW`] at its beginning; its end is its end.
    pub fn in_time(&self, now: Millis) -> Result<(), ApprovalError> {
        let proposal = &self.proposal;
        if now > proposal.expires_at {
            return Err(ApprovalError::Expired(now - proposal.expires_at));
        }
        let ahead = proposal.issued_at.saturating_sub(now);
        if ahead > fresh::SKEW {
            return Err(ApprovalError::Future(ahead));
        }
        Ok(())
    }
}

impl Approved {
    /// Whether this request, of this caller, is just what was approved. `is_secret` tells which inputs an approver does not see.
    pub fn covers(
        &self,
        request: &Request,
        caller: &Verified,
        now: Millis,
        is_secret: impl Fn(&str) -> bool,
    ) -> Result<(), ApprovalError> {
        self.proposed.in_time(now)?;
        let proposal = &self.proposed.proposal;
        let nodes = match &request.target {
            Target::Nodes(nodes) => nodes.is_subset(&proposal.nodes),
            Target::Filter(_) => false,
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
                proposal.inputs.are(proposal.id, &request.data, is_secret),
            ),
        ];
        match same.into_iter().find(|(_, same)| !same) {
            Some((field, _)) => Err(ApprovalError::Other(field)),
            None => Ok(()),
        }
    }
}
