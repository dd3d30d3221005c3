//! The request pipeline of the daemon, one file per stage. Read them in this order:
//!
//! ```text
//! decode -> verify -> fresh -> matches -> unseal -> validate -> authorise -> dispatch -> reply
//!                                 |                                |             |
//!                                 +--------- data sources ---------+--> audit <--+
//! ```
//!
//! [`accept_message`] runs the stages up to `authorise`: quick, without waiting, in order of arrival. A request waits at `matches` or `authorise`
//! for [`decide_admission`] only if data sources must decide whether it targets this node or is allowed. [`execute_request`] runs the remaining
//! stages and takes as long as the action; an action that replies from memory runs in [`execute_immediately`]. A stage rejects a request with a
//! `RequestRejection`: silently if the sender is not entitled to a reply, or with a refusal to an authenticated caller.

mod admission;
mod approval;
mod audit;
mod authorise;
pub mod daemon;
mod decode;
mod dispatch;
mod fresh;
mod grant;
pub mod lookup;
mod matches;
mod passed_values;
mod progress;
mod reply;
mod stage_timer;
pub mod stored_requests;
mod unseal;
mod validate;
mod verify;

use std::sync::Arc;
use std::time::Instant;

use muster_api::progress::{ProgressSink, progress_channel};
use muster_bus::Bus;
use muster_host::CallOutcome;
use muster_wire::progress::ProgressCounts;
use muster_wire::request::Request;
use muster_wire::status::ReplyReason;
use muster_wire::trace::StageName;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::core::DaemonCore;
use crate::core::request_metrics::KnownAction;
use crate::core::sent_replies::SentReply;
use crate::pipeline::lookup::RequestLookups;
pub use admission::{PendingAdmission, RequestAdmission};
use admission::{PendingCheck, RefusedRequest, RequestRejection};
pub use audit::record_lost;
use authorise::AuthorisationOutcome;
use matches::TargetMatch;
use passed_values::UnverifiedMessage;
pub use passed_values::{AcceptedRequest, IncomingMessage, OutgoingReply, VerifiedRequest};
pub use reply::build_late_reply;
use stage_timer::StageTimer;

/// Runs all stages that need no waiting. Returns an admission, or an optional refusal to send.
pub fn accept_message(
    core: &DaemonCore,
    incoming: &IncomingMessage,
) -> Result<RequestAdmission, Option<OutgoingReply>> {
    core.counters.total.increment();
    if core.clones.yields() {
        return Err(None);
    }
    let arrived = Instant::now();
    let verified =
        decode_and_verify(core, incoming, arrived).map_err(|_: UnverifiedMessage| None)?;
    let _span_guard = request_span(&verified.request).entered();
    admit_request(core, verified).map_err(|rejection| reject_request(core, rejection))
}

/// Makes the pending decision, then runs the remaining admission stages.
pub async fn decide_admission(
    core: &Arc<DaemonCore>,
    undecided: PendingAdmission,
    stopping: &CancellationToken,
) -> Result<AcceptedRequest, Option<OutgoingReply>> {
    let PendingAdmission { check, permit } = undecided;
    let span = request_span(&check.verified_request().request);
    let deciding = async {
        let decided = resolve_pending(core, check, stopping).await;
        drop(permit);
        decided.map_err(|rejection| reject_request(core, rejection))
    };
    deciding.instrument(span).await
}

/// The span of all log lines of a request. It has the level error so that no log level disables it.
fn request_span(request: &Request) -> tracing::Span {
    let trace = request.traceparent.map(|traceparent| traceparent.trace_id());
    tracing::error_span!(
        "request",
        request = %request.id,
        caller = %request.caller,
        agent = %request.agent,
        action = %request.action,
        trace,
    )
}

async fn resolve_pending(
    core: &Arc<DaemonCore>,
    check: PendingCheck,
    stopping: &CancellationToken,
) -> Result<AcceptedRequest, RequestRejection> {
    let verified = check.verified_request();
    let mut lookups = RequestLookups::new(core, &verified.request, &verified.caller, stopping);
    let accepted = match check {
        PendingCheck::Target(verified) => {
            let matched = matches::match_with_lookups(core, *verified, &mut lookups).await;
            let verified = stage_timer::end_stage(StageName::Match, matched)?;
            validate_request(core, verified)?
        }
        PendingCheck::Allowed(accepted) => *accepted,
    };
    let authorised = authorise::authorise_with_lookups(core, accepted, &mut lookups).await;
    stage_timer::end_stage(StageName::Authorise, authorised)
}

/// Authenticates the sender. No reply is sent to an unauthenticated sender.
fn decode_and_verify(
    core: &DaemonCore,
    incoming: &IncomingMessage,
    arrived: Instant,
) -> Result<VerifiedRequest, UnverifiedMessage> {
    let address = decode::parse_address(core, incoming)?;
    let decoded = Instant::now();
    let mut verified = verify::verify_message(core, incoming, &address)?;
    if verified.request.trace {
        verified.timer = StageTimer::new(arrived, decoded);
    }
    Ok(verified)
}

/// Decides how to handle an authenticated caller's request.
fn admit_request(
    core: &DaemonCore,
    verified: VerifiedRequest,
) -> Result<RequestAdmission, RequestRejection> {
    let (verified, refusal) = grant::apply_grant(core, verified);
    let fresh = fresh::check_freshness(core, verified);
    let permitted = match refusal {
        None => fresh,
        Some(refusal) => fresh.and_then(|verified| Err(grant::refuse(verified, &refusal))),
    };
    let freshness = stage_timer::end_stage(StageName::Fresh, permitted);
    let matched = matches::match_target(core, freshness);
    let (check, permit) = match stage_timer::end_stage(StageName::Match, matched)? {
        TargetMatch::Undecided(verified, permit) => {
            (PendingCheck::Target(Box::new(verified)), permit)
        }
        TargetMatch::Targeted(verified) => {
            let valid = validate_request(core, verified)?;
            match stage_timer::end_stage(
                StageName::Authorise,
                authorise::authorise_immediately(core, valid),
            )? {
                AuthorisationOutcome::Allowed(accepted) => {
                    return Ok(RequestAdmission::Accepted(Box::new(accepted)));
                }
                AuthorisationOutcome::Pending(accepted, permit) => {
                    (PendingCheck::Allowed(Box::new(accepted)), permit)
                }
            }
        }
    };
    Ok(RequestAdmission::Undecided(Box::new(PendingAdmission { check, permit })))
}

/// Decrypts the inputs and validates them against their schema.
fn validate_request(
    core: &DaemonCore,
    verified: VerifiedRequest,
) -> Result<AcceptedRequest, RequestRejection> {
    let opened = unseal::unseal_inputs(core, verified);
    let valid = opened.and_then(|verified| validate::validate_inputs(core, verified));
    stage_timer::end_stage(StageName::Validate, valid)
}

fn reject_request(core: &DaemonCore, rejection: RequestRejection) -> Option<OutgoingReply> {
    match rejection {
        RequestRejection::Silent => None,
        RequestRejection::Repeated(SentReply { subject, payload }) => {
            Some(OutgoingReply { subject, payload, begun: None })
        }
        RequestRejection::Refused(mut refused) => {
            count_refusal(core, &refused);
            audit::record_refusal(core, &refused);
            refused.verified.timer.end_stage(StageName::Audit);
            let reply = reply::build_refusal(core, &refused);
            keep_reply(core, &refused.verified, reply.as_ref(), false);
            reply
        }
    }
}

/// Replies inline to an accepted request, if its action replies from memory, changes nothing, and a permit is free. Otherwise returns the request
/// for [`execute_request`].
pub fn execute_immediately(
    core: &Arc<DaemonCore>,
    mut accepted: Box<AcceptedRequest>,
    bus: &Bus,
) -> Result<Option<OutgoingReply>, Box<AcceptedRequest>> {
    let _span_guard = request_span(&accepted.verified.request).entered();
    if accepted.verified.request.stream {
        return Err(accepted);
    }
    match dispatch::run_immediately(core, &mut accepted) {
        Some(outcome) => Ok(finish_request(core, &mut accepted, &outcome, true, None, bus)),
        None => Err(accepted),
    }
}

/// Runs an accepted request, sends its progress over the bus if the caller requested it, and returns the reply to send, if any.
pub async fn execute_request(
    core: &Arc<DaemonCore>,
    accepted: AcceptedRequest,
    stopping: &CancellationToken,
    bus: &Bus,
) -> Option<OutgoingReply> {
    let span = request_span(&accepted.verified.request);
    run_request(core, accepted, stopping, bus).instrument(span).await
}

async fn run_request(
    core: &Arc<DaemonCore>,
    mut accepted: AcceptedRequest,
    stopping: &CancellationToken,
    bus: &Bus,
) -> Option<OutgoingReply> {
    let recorded = audit::record_start(core, &accepted).await;
    accepted.verified.timer.end_stage(StageName::Audit);
    if let Err(refused) = recorded {
        accepted.verified.timer.mark_refused();
        core.request_metrics.record_refusal(StageName::Audit, "");
        count_outcome(core, &accepted, &refused);
        let reply = reply::build_reply(core, &accepted.verified, &refused, None, bus.max_payload());
        keep_reply(core, &accepted.verified, reply.as_ref(), false);
        return reply;
    }
    core.journals.begun.begin(accepted.to_begun_request(core.now()));
    let ((outcome, started), progress) =
        if let Some(listener) = accepted.verified.progress_listener() {
            let (sink, source) = progress_channel();
            let work = async {
                let outcome = dispatch::run_action(core, &mut accepted, stopping, sink).await;
                source.close();
                outcome
            };
            let sending = progress::send_progress(core, &listener, bus, &source);
            let (outcome, progress) = tokio::join!(work, sending);
            (outcome, Some(progress))
        } else {
            let outcome =
                dispatch::run_action(core, &mut accepted, stopping, ProgressSink::default()).await;
            (outcome, None)
        };
    let work = accepted.verified.work_id();
    if core.journals.begun.is_handed_over(work) {
        tracing::info!("the work continues in another process; the next daemon replies");
        return None;
    }
    let reply = finish_request(core, &mut accepted, &outcome, started, progress, bus);
    if reply.is_none() {
        core.journals.begun.end(work);
    }
    reply.map(|reply| OutgoingReply { begun: Some(work), ..reply })
}

/// Counts, records and replies after the action has ended.
fn finish_request(
    core: &DaemonCore,
    accepted: &mut AcceptedRequest,
    outcome: &CallOutcome,
    started: bool,
    progress: Option<ProgressCounts>,
    bus: &Bus,
) -> Option<OutgoingReply> {
    count_outcome(core, accepted, outcome);
    audit::record_end(core, accepted, outcome, started);
    accepted.verified.timer.end_stage(StageName::Audit);
    let reply = reply::build_reply(core, &accepted.verified, outcome, progress, bus.max_payload());
    keep_reply(core, &accepted.verified, reply.as_ref(), !accepted.read_only);
    reply
}

/// Keeps the reply, in case it is lost and its caller repeats the request.
fn keep_reply(
    core: &DaemonCore,
    verified: &VerifiedRequest,
    reply: Option<&OutgoingReply>,
    is_change: bool,
) {
    if let Some(reply) = reply {
        core.journals.sent_replies.keep(
            verified.work_id(),
            reply.to_sent(),
            is_change,
            Instant::now(),
        );
    }
}

/// Counts the outcome of an accepted request, and logs it at debug level.
fn count_outcome(core: &DaemonCore, accepted: &AcceptedRequest, outcome: &CallOutcome) {
    let request = &accepted.verified.request;
    let reason = outcome.reason.as_ref().map_or("", ReplyReason::as_str);
    let action = KnownAction::from_request(&accepted.registry, request);
    core.request_metrics.record_outcome(action, outcome.status, reason);
    if !outcome.took.is_zero() {
        core.request_metrics.record_duration(action, outcome.took);
    }
    let took_ms = outcome.took.as_millis();
    tracing::debug!(status = outcome.status.code(), reason, took_ms, "answered");
}

/// Counts a refused request, and logs it at debug level.
fn count_refusal(core: &DaemonCore, refused: &RefusedRequest) {
    let (request, registry) = (&refused.verified.request, core.offer.registry.get());
    let reason = refused.reason.as_ref().map_or("", ReplyReason::as_str);
    core.request_metrics.record_outcome(
        KnownAction::from_request(&registry, request),
        refused.status,
        reason,
    );
    let stage = refused.stage.unwrap_or(StageName::Other);
    core.request_metrics.record_refusal(stage, reason);
    tracing::debug!(status = refused.status.code(), reason, %stage, "refused");
}
