//! Stage 8: the answer, signed, to the caller's own inbox.

use std::time::{Duration, Instant};

use muster_bus::Bytes;
use muster_host::Outcome;
use muster_wire::limits;
use muster_wire::policy::PolicyPrincipal;
use muster_wire::progress::Told;
use muster_wire::reply::Reply;
use muster_wire::sign::{Kind, SealError, seal};
use muster_wire::status::{Reason, Status};
use muster_wire::trace::StageName;
use serde_json::Map;

use super::{Asked, Outgoing, Refused};
use crate::core::Core;

/// The answer to a request that was executed. `room` is what the broker takes as one message, in bytes.
pub(super) fn outcome(
    core: &Core,
    asked: &Asked,
    outcome: &Outcome,
    (progress, room): (Option<Told>, usize),
) -> Option<Outgoing> {
    let subject = asked.reply_to.clone()?;
    let request = &asked.request;
    let reply = Reply {
        request: request.id,
        sender: core.identity().clone(),
        agent: request.agent.clone(),
        action: request.action.clone(),
        statuscode: outcome.status,
        statusmsg: outcome.message.clone(),
        reason: outcome.reason.clone(),
        data: outcome.data.clone(),
        time: core.clock.now(),
        took: millis(outcome.took),
        stages: Vec::new(),
        progress,
    };
    let reply = traced(core, asked, reply);
    let payload = sealed(core, reply, room)?;
    core.counters.replies.count();
    Some(Outgoing { subject, payload })
}

/// The answer to a request that was refused.
pub(super) fn refusal(core: &Core, refused: &Refused) -> Option<Outgoing> {
    let (message, reason) = told(core, refused);
    let told = Outcome {
        status: refused.status,
        message,
        reason,
        data: Map::new(),
        queued: Duration::ZERO,
        took: Duration::ZERO,
    };
    outcome(core, &refused.asked, &told, (None, limits::REPLY_BYTES))
}

/// Adds the stages, if they were asked for. What is signed cannot hold the time of its own signing: that of a rehearsal stands for it.
fn traced(core: &Core, asked: &Asked, mut reply: Reply) -> Reply {
    let Some(mut watch) = asked.watch.running() else {
        return reply;
    };
    reply.stages = watch.stages().to_vec();
    let begun = Instant::now();
    // Whether it can be sealed will show when it is.
    let _ = seal(Kind::Reply, &reply, &core.signer);
    watch.add(StageName::Reply, begun.elapsed());
    reply.stages = watch.stages().to_vec();
    reply
}

/// What a caller is told of a refusal. A node that keeps its rules to itself has them in its audit log.
fn told(core: &Core, refused: &Refused) -> (String, Option<Reason>) {
    match &refused.reason {
        Some(Reason::Denied { .. }) if !core.authority.tell_rules => {
            let request = &refused.asked.request;
            let caller = PolicyPrincipal::of(&refused.asked.caller);
            let (agent, action) = (&request.agent, &request.action);
            let message = format!("{caller} may not ask for {agent} {action} here");
            let rule = "the node's policy, which it does not tell".to_owned();
            (message, Some(Reason::Denied { rule }))
        }
        reason => (refused.message.clone(), reason.clone()),
    }
}

/// Seals a reply; one that is too large, for callers or for the broker, is replaced by a reply that says so.
fn sealed(core: &Core, reply: Reply, room: usize) -> Option<Bytes> {
    let error = match seal(Kind::Reply, &reply, &core.signer) {
        Ok(payload) if payload.len() <= room => return Some(payload.into()),
        Ok(payload) => SealError::Oversized {
            bytes: payload.len(),
            limit: room,
        },
        Err(error) => error,
    };
    let reason = match &error {
        SealError::Oversized { bytes, .. } => Reason::Oversized {
            bytes: u64::try_from(*bytes).unwrap_or(u64::MAX),
        },
        SealError::Json(_) | SealError::Inputs(_) => Reason::Broken,
    };
    tracing::error!(%error, request = %reply.request, "an answer could not be sent");
    let short = Reply {
        statuscode: Status::Other,
        statusmsg: format!(
            "the answer was dropped: {error} (a reply has {} bytes at most)",
            limits::REPLY_BYTES.min(room)
        ),
        reason: Some(reason),
        data: Map::new(),
        ..reply
    };
    seal(Kind::Reply, &short, &core.signer)
        .ok()
        .map(Bytes::from)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
