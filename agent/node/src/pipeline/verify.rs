//! Stage 2: authenticates the sender. No message is trusted, and none gets a reply, before this stage.

use std::time::Instant;

use muster_api::base::error_chain;
use muster_wire::sign::open_request;
use muster_wire::subject::{AnswerAddress, RequestAddress};
use muster_wire::trace::StageName;

use super::passed_values::{IncomingMessage, UnverifiedMessage, VerifiedRequest};
use super::stage_timer::StageTimer;
use crate::core::DaemonCore;

/// A reply subject is not signed, so only the token of the caller's own inbox is taken from it; the reply goes there under this node's name.
pub(super) fn verify_message(
    core: &DaemonCore,
    incoming: &IncomingMessage,
    address: &RequestAddress,
) -> Result<VerifiedRequest, UnverifiedMessage> {
    let trust = core.trust.account.get();
    let opened = open_request(&incoming.payload, address, &trust, &core.trust.tokens, core.now());
    let opened = opened.map_err(|refusal| {
        core.counters.unvalidated.increment();
        core.request_metrics.record_refusal(StageName::Verify, refusal.reason_code());
        let (subject, reason) = (&incoming.subject, error_chain(&refusal));
        if let Some(suppressed) = core.unverified_log.admit(Instant::now()) {
            tracing::warn!(%subject, why = %reason, untold = suppressed, "refused a message");
        } else {
            tracing::debug!(%subject, why = %reason, "refused a message");
        }
        core.journals.audit.count_refusal(refusal.reason_code(), Some(&incoming.subject));
        UnverifiedMessage
    })?;
    core.counters.validated.increment();
    core.request_metrics.record_arrival(core.now());
    let reply_subject = incoming.reply_to.as_ref().filter(|_| opened.request.reply);
    let reply_to = reply_subject.and_then(|subject| {
        let address = AnswerAddress::from_reply_subject(subject, &opened.caller.key.to_string())?;
        Some(address.of_node(core.identity()))
    });
    Ok(VerifiedRequest {
        reply_to,
        request: opened.request,
        caller: opened.caller,
        schedule: None,
        remember_until: 0,
        journaled: false,
        timer: StageTimer::default(),
    })
}
