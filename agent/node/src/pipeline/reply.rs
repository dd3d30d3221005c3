//! Stage 8: sends the signed reply to the caller's own inbox.

use std::time::Instant;

use muster_base::duration_millis;
use muster_bus::Bytes;
use muster_host::CallOutcome;
use muster_policy::PolicyPrincipal;
use muster_wire::limits;
use muster_wire::progress::ProgressCounts;
use muster_wire::reply::Reply;
use muster_wire::sign::{EnvelopeKind, EnvelopeSignError, sign_envelope};
use muster_wire::status::{ReplyReason, ReplyStatus};
use muster_wire::trace::StageName;
use serde_json::Map;

use super::admission::RefusedRequest;
use super::passed_values::{OutgoingReply, VerifiedRequest};
use crate::core::DaemonCore;
use crate::core::begun::BegunRequest;

/// `max_payload` is the broker's maximum message size, in bytes.
pub(super) fn build_reply(
    core: &DaemonCore,
    verified: &VerifiedRequest,
    outcome: &CallOutcome,
    progress: Option<ProgressCounts>,
    max_payload: usize,
) -> Option<OutgoingReply> {
    let subject = verified.reply_to.clone()?;
    let request = &verified.request;
    let reply = Reply {
        request: request.id,
        sender: core.identity().clone(),
        agent: request.agent.clone(),
        action: request.action.clone(),
        statuscode: outcome.status,
        statusmsg: outcome.message.clone().into(),
        reason: outcome.reason.clone(),
        data: outcome.data.clone(),
        time: core.now(),
        took: duration_millis(outcome.took),
        stages: Vec::new(),
        progress,
        cloned: core.clones.is_cloned(),
    };
    let reply = add_stages(core, verified, reply);
    let payload = seal_reply(core, reply, max_payload)?;
    core.counters.replies.increment();
    Some(OutgoingReply { subject, payload, begun: None })
}

/// The reply to a request that an earlier daemon had begun.
pub fn build_late_reply(
    core: &DaemonCore,
    begun: &BegunRequest,
    outcome: &CallOutcome,
    max_payload: usize,
) -> Option<OutgoingReply> {
    let subject = begun.reply_to.clone()?;
    let now = core.now();
    let reply = Reply {
        request: begun.request,
        sender: core.identity().clone(),
        agent: begun.agent.clone(),
        action: begun.action.clone(),
        statuscode: outcome.status,
        statusmsg: outcome.message.clone().into(),
        reason: outcome.reason.clone(),
        data: outcome.data.clone(),
        time: now,
        took: now.saturating_sub(begun.since),
        stages: Vec::new(),
        progress: None,
        cloned: core.clones.is_cloned(),
    };
    let payload = seal_reply(core, reply, max_payload)?;
    core.counters.replies.increment();
    Some(OutgoingReply { subject, payload, begun: Some(begun.work_id()) })
}

pub(super) fn build_refusal(core: &DaemonCore, refused: &RefusedRequest) -> Option<OutgoingReply> {
    let (message, reason) = visible_refusal(core, refused);
    let outcome = CallOutcome::new_refusal(refused.status, message, reason);
    build_reply(core, &refused.verified, &outcome, None, limits::MAX_REPLY_BYTES)
}

/// Adds the stage timings, if requested. A signed reply cannot contain the time of its own signing; a trial signing measures it.
fn add_stages(core: &DaemonCore, verified: &VerifiedRequest, mut reply: Reply) -> Reply {
    let Some(mut timer) = verified.timer.active_timer() else { return reply };
    reply.stages = timer.stages().to_vec();
    let start = Instant::now();
    // Ignore the result; the real signing reports its errors.
    let _ = sign_envelope(EnvelopeKind::Reply, &reply, &core.trust.signer);
    timer.add_stage(StageName::Reply, start.elapsed());
    reply.stages = timer.stages().to_vec();
    reply
}

/// The part of a refusal that the caller may see. A node that hides its rules records them in its audit log only.
fn visible_refusal(core: &DaemonCore, refused: &RefusedRequest) -> (String, Option<ReplyReason>) {
    match &refused.reason {
        Some(ReplyReason::Denied { .. }) if !core.offer.authority.tell_rules => {
            let request = &refused.verified.request;
            let caller = PolicyPrincipal::from_verified(&refused.verified.caller);
            let (agent, action) = (&request.agent, &request.action);
            let message = format!("{caller} is not allowed to call {agent} {action} on this node");
            let rule = "the node's policy, which is not disclosed".to_owned();
            (message, Some(ReplyReason::Denied { rule }))
        }
        reason => (refused.message.clone(), reason.clone()),
    }
}

/// Signs a reply; one that is too large for callers or for the broker is replaced by an error reply.
fn seal_reply(core: &DaemonCore, reply: Reply, max_payload: usize) -> Option<Bytes> {
    let error = match sign_envelope(EnvelopeKind::Reply, &reply, &core.trust.signer) {
        Ok(payload) if payload.len() <= max_payload => return Some(payload.into()),
        Ok(payload) => EnvelopeSignError::Oversized { bytes: payload.len(), limit: max_payload },
        Err(error) => error,
    };
    let reason = match &error {
        EnvelopeSignError::Oversized { bytes, .. } => {
            ReplyReason::Oversized { bytes: u64::try_from(*bytes).unwrap_or(u64::MAX) }
        }
        EnvelopeSignError::Json(_) | EnvelopeSignError::Inputs(_) => ReplyReason::Broken,
    };
    tracing::error!(%error, request = %reply.request, "cannot send a reply");
    let error_reply = Reply {
        statuscode: ReplyStatus::Other,
        statusmsg: format!(
            "the reply was dropped: {error} (the limit is {} bytes)",
            limits::MAX_REPLY_BYTES.min(max_payload)
        )
        .into(),
        reason: Some(reason),
        data: Map::new(),
        ..reply
    };
    sign_envelope(EnvelopeKind::Reply, &error_reply, &core.trust.signer).ok().map(Bytes::from)
}
