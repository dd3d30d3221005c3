//! Part of stage 6: verifies a second person's approval, if the policy or the node requires one.

use muster_api::base::error_chain;
use muster_filter::{EvaluationProgress, KnownLookups};
use muster_policy::{PolicyPrincipal, PolicyQuery, PolicySet};
use muster_wire::Millis;
use muster_wire::approval::{ApprovalError, ApprovedProposal, open_approval};
use muster_wire::fresh::InsertionOutcome;

use super::passed_values::AcceptedRequest;
use crate::core::DaemonCore;
use crate::core::audit::ApprovalRecord;
use crate::core::seen::SeenError;

#[derive(Debug, thiserror::Error)]
pub(super) enum ApprovalRefusal {
    #[error("it requires the approval of {0}")]
    Missing(String),
    #[error("its approval is not valid: {}", error_chain(.0))]
    Invalid(#[from] ApprovalError),
    #[error("{approver} is not allowed to approve it; it requires the approval of {required}")]
    NotAllowed { approver: String, required: String },
    #[error(
        "it was proposed before this daemon started, and the node's journal of used approvals from that time is lost; \
         propose it again"
    )]
    Forgotten,
    #[error("its approval was used before; propose it again")]
    Used,
    #[error("the node cannot store another approval")]
    Full,
    #[error("the node cannot store its approval: {0}")]
    Store(#[from] SeenError),
}

/// The approver of the request, or why the approval is invalid, or the data source that must decide whether the approver is allowed. A valid
/// approval is consumed: this node does not accept it again.
pub(super) fn check_approval<'p>(
    core: &DaemonCore,
    accepted: &AcceptedRequest,
    policy: &'p PolicySet,
    approvers: Option<&str>,
    known: &KnownLookups,
) -> EvaluationProgress<'p, Result<ApprovalRecord, ApprovalRefusal>> {
    let request = &accepted.verified.request;
    let approver_text = approvers.map_or_else(
        || "a second person who is allowed to send the same request".to_owned(),
        |approvers| format!("one of: {approvers}"),
    );
    let now = core.now();
    let opened = match open_request_approval(core, accepted, &approver_text, now) {
        Ok(opened) => opened,
        Err(reason) => return EvaluationProgress::Decided(Err(reason)),
    };
    let approver = PolicyPrincipal::from_verified(&opened.approver);
    let caller = PolicyPrincipal::from_verified(&accepted.verified.caller);
    let allowed = core.with_node_view(|node| {
        let query = |caller| PolicyQuery {
            caller,
            agent: &request.agent,
            action: &request.action,
            node,
            inputs: Some(&accepted.input),
            now,
        };
        policy.may_approve(&query(&caller), &query(&approver), known)
    });
    allowed.map(|allowed| {
        if !allowed {
            let approver = approver.to_string();
            return Err(ApprovalRefusal::NotAllowed { approver, required: approver_text });
        }
        consume_approval(core, &opened)?;
        Ok(ApprovalRecord {
            approver: approver.name().clone(),
            approver_key: opened.approver.key.to_string(),
            approval: opened.proposed.proposal.id,
        })
    })
}

/// The request's approval, if a trusted signer issued it for this request.
fn open_request_approval(
    core: &DaemonCore,
    accepted: &AcceptedRequest,
    approver_text: &str,
    now: Millis,
) -> Result<ApprovedProposal, ApprovalRefusal> {
    let (request, caller) = (&accepted.verified.request, &accepted.verified.caller);
    let Some(text) = &request.approval else {
        return Err(ApprovalRefusal::Missing(approver_text.to_owned()));
    };
    let trust = core.trust.account.get();
    let opened = open_approval(text, &trust, &core.trust.tokens, now)?;
    let schema = accepted.registry.agent(request.agent.as_str());
    let schema = schema.and_then(|agent| agent.ddl().find_action(request.action.as_str()));
    let is_secret = |name: &str| schema.is_some_and(|action| action.is_sensitive(name));
    opened.check_request(request, caller, now, is_secret)?;
    Ok(opened)
}

/// Stores the approval like a request: until it expires, and across a restart.
fn consume_approval(core: &DaemonCore, approved: &ApprovedProposal) -> Result<(), ApprovalRefusal> {
    let (proposal, caller) = (&approved.proposed.proposal, &approved.proposed.caller);
    let remember_until = proposal.expires_at.saturating_add(core.skew);
    let lifetime = proposal.expires_at.saturating_sub(proposal.issued_at);
    if core.journals.seen.may_have_been_seen(proposal.issued_at, lifetime, core.skew) {
        return Err(ApprovalRefusal::Forgotten);
    }
    let key = caller.key.as_bytes();
    match core.journals.seen.insert(key, proposal.id, remember_until, core.now())? {
        InsertionOutcome::New => Ok(()),
        InsertionOutcome::Seen => Err(ApprovalRefusal::Used),
        InsertionOutcome::Full { .. } => Err(ApprovalRefusal::Full),
    }
}
