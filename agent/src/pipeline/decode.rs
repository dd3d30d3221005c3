//! Stage 1: where the message came in. A subject that is not ours costs nothing more.

use muster_wire::subject::Address;
use muster_wire::trace::StageName;

use super::{Incoming, Unproven};
use crate::core::Core;

/// The address of a request to one of our collectives, and to us if it names a node.
pub(super) fn address(core: &Core, incoming: &Incoming) -> Result<Address, Unproven> {
    let found = Address::parse(&incoming.subject).filter(|address| {
        core.collectives.contains(&address.collective)
            && address
                .node
                .as_ref()
                .is_none_or(|node| node == core.identity())
    });
    found.ok_or_else(|| {
        core.counters.unvalidated.count();
        core.tallies.refused(StageName::Decode, "foreign_subject");
        core.audit
            .refuse("foreign_subject", Some(&incoming.subject));
        Unproven
    })
}
