//! Stage 2: authenticates the sender. No message is trusted, and none gets a reply, before this stage.

use std::time::Instant;

use muster_api::system::error::error_chain;
use muster_wire::sign::open_request;
use muster_wire::subject::{AnswerAddress, RequestAddress};
use muster_wire::trace::StageName;

use super::stage_timer::StageTimer;
use super::{IncomingMessage, UnverifiedMessage, VerifiedRequest};
use crate::core::DaemonCore;

/// Verifies the message. A reply subject is not signed, so only the token of the caller's own inbox is taken from it; the reply goes there under
/// this node's name.
pub(super) fn verify_message(
    core: &DaemonCore,
    incoming: &IncomingMessage,
    address: &RequestAddress,
) -> Result<VerifiedRequest, UnverifiedMessage> {
    let trust = core.trust.get();
    let opened = open_request(
        &incoming.payload,
        address,
        &trust,
        &core.tokens,
        core.clock.now(),
    );
    let opened = opened.map_err(|refusal| {
        core.counters.unvalidated.increment();
        core.tallies
            .record_refusal(StageName::Verify, refusal.reason_code());
        let (subject, why) = (&incoming.subject, error_chain(&refusal));
        if let Some(untold) = core.strangers.admit(Instant::now()) {
            tracing::warn!(%subject, %why, untold, "refused a message");
        } else {
            tracing::debug!(%subject, %why, "refused a message");
        }
        core.audit
            .count_refusal(refusal.reason_code(), Some(&incoming.subject));
        UnverifiedMessage
    })?;
    core.counters.validated.increment();
    core.tallies.record_arrival(core.clock.now());
    let wanted = incoming.reply_to.as_ref().filter(|_| opened.request.reply);
    let reply_to = wanted.and_then(|subject| {
        let address = AnswerAddress::from_reply_subject(subject, &opened.caller.key.to_string())?;
        Some(address.of_node(core.identity()))
    });
    Ok(VerifiedRequest {
        reply_to,
        request: opened.request,
        caller: opened.caller,
        remembered: false,
        watch: StageTimer::default(),
    })
}
