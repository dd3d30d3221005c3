//! Stage 2: who really sent it. Nothing is believed, and nobody answered, before this.

use std::time::Instant;

use muster_api::system::error::chain;
use muster_wire::sign::open_request;
use muster_wire::subject::{Address, AnswerAddress};
use muster_wire::trace::StageName;

use super::watch::Watch;
use super::{Asked, Incoming, Unproven};
use crate::core::Core;

/// Verifies the message. Of its reply subject only the word of the caller's own address is taken, because a reply subject is not signed; the
/// answer goes there under this node's name.
pub(super) fn open(core: &Core, incoming: &Incoming, address: &Address) -> Result<Asked, Unproven> {
    let trust = core.trust.get();
    let opened = open_request(
        &incoming.payload,
        address,
        &trust,
        &core.tokens,
        core.clock.now(),
    );
    let opened = opened.map_err(|refusal| {
        core.counters.unvalidated.count();
        core.tallies.refused(StageName::Verify, refusal.word());
        let (subject, why) = (&incoming.subject, chain(&refusal));
        if let Some(untold) = core.strangers.admit(Instant::now()) {
            tracing::warn!(%subject, %why, untold, "refused a message");
        } else {
            tracing::debug!(%subject, %why, "refused a message");
        }
        core.audit.refuse(refusal.word(), Some(&incoming.subject));
        Unproven
    })?;
    core.counters.validated.count();
    core.tallies.came(core.clock.now());
    let wanted = incoming.reply_to.as_ref().filter(|_| opened.request.reply);
    let reply_to = wanted.and_then(|subject| {
        let address = AnswerAddress::from_reply_subject(subject, &opened.caller.key.to_string())?;
        Some(address.of_node(core.identity()))
    });
    Ok(Asked {
        reply_to,
        request: opened.request,
        caller: opened.caller,
        remembered: false,
        watch: Watch::default(),
    })
}
