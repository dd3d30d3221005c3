//! Stage 1: parses the subject. A message with another subject is dropped without further work.

use muster_wire::subject::RequestAddress;
use muster_wire::trace::StageName;

use super::passed_values::{IncomingMessage, UnverifiedMessage};
use crate::core::DaemonCore;

/// The address of a request to one of the node's collectives, and to this node if it names one.
pub(super) fn parse_address(
    core: &DaemonCore,
    incoming: &IncomingMessage,
) -> Result<RequestAddress, UnverifiedMessage> {
    let found = RequestAddress::parse(&incoming.subject).filter(|address| {
        core.node.collectives.contains(&address.collective)
            && address.node.as_ref().is_none_or(|node| node == core.identity())
    });
    found.ok_or_else(|| {
        core.counters.unvalidated.increment();
        core.request_metrics.record_refusal(StageName::Decode, "foreign_subject");
        core.journals.audit.count_refusal("foreign_subject", Some(&incoming.subject));
        UnverifiedMessage
    })
}
