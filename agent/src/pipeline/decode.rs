//! Stage 1: where the message came in. A subject that is not ours costs nothing more.

use muster_wire::subject::RequestAddress;
use muster_wire::trace::StageName;

use super::{IncomingMessage, UnverifiedMessage};
use crate::core::DaemonCore;

/// The address of a request to one of our collectives, and to us if it names a node.
pub(super) fn parse_address(
    core: &DaemonCore,
    incoming: &IncomingMessage,
) -> Result<RequestAddress, UnverifiedMessage> {
    let found = RequestAddress::parse(&incoming.subject).filter(|address| {
        core.collectives.contains(&address.collective)
            && address
                .node
                .as_ref()
                .is_none_or(|node| node == core.identity())
    });
    found.ok_or_else(|| {
        core.counters.unvalidated.increment();
        core.tallies
            .record_refusal(StageName::Decode, "foreign_subject");
        core.audit
            .count_refusal("foreign_subject", Some(&incoming.subject));
        UnverifiedMessage
    })
}
