//! Requests of schedulers: a request with a schedule's grant is decided as one of the schedule's author, if it is exactly what the schedule permits.
//!
//! The scheduler's own key permits nothing. Author, action, inputs, node and time are those of the signed schedule. The id of the
//! request is derived from schedule, node and slot, so the protection against replays lets each slot pass once, whichever scheduler sends it.
//! A scheduler can also withdraw a turn: the node then cancels its work, unless the work has begun.

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_api::base::error_chain;
use muster_filter::{EvaluationProgress, KnownLookups, NodeFilter, TruthValue};
use muster_schedule::{CompiledSchedule, ScheduleError, ScheduleSpec, SlotRefusal, TurnRequest};
use muster_wire::Millis;
use muster_wire::identity::Identity;
use muster_wire::request::{Request, RequestTarget};
use muster_wire::schedule_grant::{GrantError, OpenGrant, open_grant};
use muster_wire::status::{ReplyReason, ReplyStatus};
use muster_wire::token::{ServiceRight, UserRole};
use serde_json::Value;

use super::admission::RequestRejection;
use super::passed_values::VerifiedRequest;
use crate::core::DaemonCore;
use crate::core::audit::ScheduleRecord;

/// Why a scheduler's request is refused.
#[derive(Debug, thiserror::Error)]
pub(super) enum GrantRefusal {
    #[error("only schedulers send requests of schedules; this one is from the {role} {name}")]
    NotAScheduler { role: UserRole, name: Identity },
    #[error(transparent)]
    Grant(#[from] GrantError),
    #[error("the schedule is not valid")]
    Schedule(#[from] ScheduleError),
    #[error("the schedule cannot be read")]
    Json(#[from] serde_json::Error),
    #[error("the {0} of the request differs from the schedule")]
    Differs(&'static str),
    #[error(transparent)]
    Slot(#[from] SlotRefusal),
    #[error("this node does not match the filter of the schedule")]
    NotMatched,
}

/// Makes the schedule's author the caller of the request. Fails with the request as it came, and why it is refused.
pub(super) fn apply_grant(
    core: &DaemonCore,
    mut verified: VerifiedRequest,
) -> (VerifiedRequest, Option<GrantRefusal>) {
    if verified.request.grant.is_none() {
        return (verified, None);
    }
    match check_grant(core, &verified) {
        Ok((opened, remember_until)) => {
            let scheduler = verified.caller.identity.clone();
            verified.schedule = Some(ScheduleRecord { schedule: opened.grant.name, scheduler });
            verified.remember_until = remember_until;
            verified.request.caller = opened.author.identity.clone();
            verified.caller = Arc::clone(&opened.author);
            (verified, None)
        }
        Err(refusal) => (verified, Some(refusal)),
    }
}

pub(super) fn refuse(verified: VerifiedRequest, refusal: &GrantRefusal) -> RequestRejection {
    let rule = error_chain(refusal);
    let message = format!("the request of a schedule is refused: {rule}");
    let reason = Some(ReplyReason::Denied { rule });
    RequestRejection::new_refusal(verified, ReplyStatus::Other, message, reason)
}

/// The grant, and the time until which the request must be remembered: of a turn, the last time at which it is accepted.
fn check_grant(
    core: &DaemonCore,
    verified: &VerifiedRequest,
) -> Result<(OpenGrant, Millis), GrantRefusal> {
    let (request, sender) = (&verified.request, &verified.caller);
    let Some(given) = &request.grant else { return Err(GrantRefusal::Differs("grant")) };
    if !sender.rights().contains(&ServiceRight::Schedule) {
        let (role, name) = (sender.role, sender.identity.clone());
        return Err(GrantRefusal::NotAScheduler { role, name });
    }
    let now = core.now();
    let opened = open_grant(&given.text, &core.trust.account.get(), &core.trust.tokens, now)?;
    let spec: ScheduleSpec = serde_json::from_value(Value::Object(opened.grant.schedule.clone()))?;
    let schedule = spec.compile()?;
    let (id, slot) = (opened.grant.id, given.slot);
    let withdrawal = CompiledSchedule::withdrawal_request(id, core.identity(), slot);
    if request.id == withdrawal.id {
        compare_request(core, request, &opened, &withdrawal)?;
        return Ok((opened, 0));
    }
    opened.check_permission(&request.agent, &request.action)?;
    let turn = schedule.turn_request(id, core.identity(), slot);
    compare_request(core, request, &opened, &turn)?;
    schedule.admits(slot, now)?;
    if !matches_filter(core, &schedule.spec().filter) {
        return Err(GrantRefusal::NotMatched);
    }
    let last_admission = schedule.last_admission(slot);
    Ok((opened, last_admission))
}

/// Compares every part of the request that decides what happens on the node.
fn compare_request(
    core: &DaemonCore,
    request: &Request,
    opened: &OpenGrant,
    expected: &TurnRequest,
) -> Result<(), GrantRefusal> {
    let only_this_node = RequestTarget::Nodes(BTreeSet::from([core.identity().clone()]));
    let comparisons = [
        ("collective", request.collective == opened.grant.collective),
        ("agent", request.agent.as_str() == expected.agent),
        ("action", request.action.as_str() == expected.action),
        ("id", request.id == expected.id),
        ("target", request.target == only_this_node),
        ("filter", request.filter.is_empty()),
        ("data", request.data == expected.inputs),
        ("timeout", request.timeout == expected.timeout),
        ("sealed data", request.sealed.is_none()),
        ("approval", request.approval.is_none()),
    ];
    match comparisons.into_iter().find(|(_, is_same)| !is_same) {
        Some((field, _)) => Err(GrantRefusal::Differs(field)),
        None => Ok(()),
    }
}

/// Schedules that read data sources are not valid, so nothing waits here.
fn matches_filter(core: &DaemonCore, filter: &NodeFilter) -> bool {
    filter.is_empty()
        || core.with_node_view(|node| {
            let progress = filter.evaluate(node, &KnownLookups::default());
            matches!(progress, EvaluationProgress::Decided(TruthValue::True))
        })
}
