//! Stage 3: rejects requests that are too old, dated in the future, or seen before.

use std::time::Instant;

use muster_wire::Millis;
use muster_wire::fresh::{self, InsertionOutcome, StaleRequest};
use muster_wire::limits;
use muster_wire::schedule_grant::REPEATED_TURN;
use muster_wire::status::{ReplyReason, ReplyStatus};
use muster_wire::trace::StageName;

use super::admission::RequestRejection;
use super::passed_values::VerifiedRequest;
use crate::core::DaemonCore;

/// Checks the age and stores the request. A request that was seen before is not executed; see [`accept_repetition`]. A caller whose clock is wrong gets one
/// refusal.
pub(super) fn check_freshness(
    core: &DaemonCore,
    mut verified: VerifiedRequest,
) -> Result<VerifiedRequest, RequestRejection> {
    let (request, now) = (&verified.request, core.now());
    let stale = fresh::check_freshness(request.issued_at, request.ttl, now, core.skew).err();
    // Store a stale request from now on, so that repeating it does not repeat the reply. Store one from the future until it would be fresh and
    // expired, so that correcting the clock does not admit it. A day is the maximum lifetime of a request.
    let remember_from = if stale.is_some() {
        let latest = now.saturating_add(limits::MAX_TTL_MILLIS);
        request.issued_at.clamp(now, latest)
    } else {
        request.issued_at
    };
    let remember_until = fresh::remember_until(remember_from, request.ttl, core.skew)
        .max(verified.remember_until.saturating_add(core.skew.saturating_mul(2)));
    let insertion =
        core.journals.seen.insert(verified.caller.key.as_bytes(), request.id, remember_until, now);
    match insertion {
        Ok(InsertionOutcome::Seen) => {
            core.counters.replayed.increment();
            if let Some(repetition) = accept_repetition(core, &verified) {
                return Err(repetition);
            }
            core.request_metrics.record_refusal(StageName::Fresh, "replayed");
            core.journals.audit.count_refusal("replayed", Some(request.caller.as_str()));
            return Err(refuse_replayed(verified));
        }
        Ok(InsertionOutcome::Full { retry_after_ms }) => {
            let message = "the store of seen requests of the node is full".to_owned();
            let reason = Some(ReplyReason::Busy { retry_after_ms });
            let status = ReplyStatus::Other;
            return Err(RequestRejection::new_refusal(verified, status, message, reason));
        }
        Ok(InsertionOutcome::New) => verified.journaled = true,
        Err(error) => tracing::error!(%error, "cannot store a seen request in the journal"),
    }
    if let Some(age) = core.trust.freshness.expired_age(now) {
        return Err(refuse_unconfirmed(verified, age));
    }
    if let Some(stale) = stale {
        return Err(refuse_stale(core, verified, &stale));
    }
    let request = &verified.request;
    if core.journals.seen.may_have_been_seen(request.issued_at, request.ttl, core.skew) {
        return Err(refuse_forgotten(core, verified, now));
    }
    Ok(verified)
}

/// The result of a repeated request: the earlier reply, or no reply while the request runs. `None` for a replay. Requests of schedules are excluded, because two
/// schedulers can send the request of one turn.
fn accept_repetition(core: &DaemonCore, verified: &VerifiedRequest) -> Option<RequestRejection> {
    if verified.schedule.is_some() {
        return None;
    }
    let work = verified.work_id();
    let reply =
        core.journals.sent_replies.repeat(work, Instant::now()).map(RequestRejection::Repeated);
    reply.or_else(|| core.running.includes(work).then_some(RequestRejection::Silent))
}

/// A replay gets no reply. A scheduler gets the reply that the turn has begun: another scheduler may have sent its request.
fn refuse_replayed(verified: VerifiedRequest) -> RequestRejection {
    if verified.schedule.is_none() {
        return RequestRejection::Silent;
    }
    let rule = REPEATED_TURN.to_owned();
    let message = format!("the request of a schedule is refused: {rule}");
    let reason = Some(ReplyReason::Denied { rule });
    RequestRejection::new_refusal(verified, ReplyStatus::Other, message, reason)
}

/// Refuses a fresh request that an earlier daemon, whose journal is lost, may have executed.
fn refuse_forgotten(core: &DaemonCore, verified: VerifiedRequest, now: Millis) -> RequestRejection {
    core.counters.ttlexpired.increment();
    let age_ms = now.saturating_sub(verified.request.issued_at);
    let message = "the request was issued before this daemon started, and the node's journal of seen requests from that time is lost; \
                   send it again"
        .to_owned();
    refuse_expired(verified, i64::try_from(age_ms).unwrap_or(i64::MAX), message)
}

/// Refuses because the node cannot determine whether the caller was revoked meanwhile.
fn refuse_unconfirmed(verified: VerifiedRequest, age: Millis) -> RequestRejection {
    let message = format!(
        "this node has not confirmed for {} s that its account token is the newest, longer than trust.max_age_seconds; run `rpc doctor`",
        age / 1000
    );
    refuse_expired(verified, i64::try_from(age).unwrap_or(i64::MAX), message)
}

fn refuse_stale(
    core: &DaemonCore,
    verified: VerifiedRequest,
    stale: &StaleRequest,
) -> RequestRejection {
    core.counters.ttlexpired.increment();
    refuse_expired(
        verified,
        stale.age_ms,
        format!("{stale}; compare the clocks of caller and node"),
    )
}

fn refuse_expired(verified: VerifiedRequest, age_ms: i64, message: String) -> RequestRejection {
    let reason = Some(ReplyReason::Expired { age_ms });
    RequestRejection::new_refusal(verified, ReplyStatus::Other, message, reason)
}
