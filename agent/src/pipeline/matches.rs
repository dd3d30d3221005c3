//! Stage 4: whether this node is meant. The filter is looked at only now, after the request was proven fresh or stale.

use muster_wire::request::{Request, Target};

use super::{Asked, Stop};
use crate::core::Core;

/// Passes on what is meant for us, refusals of earlier stages too; a node that is not meant says nothing.
pub(super) fn meant_for_us(core: &Core, judged: Result<Asked, Stop>) -> Result<Asked, Stop> {
    let request = match &judged {
        Ok(asked) => &asked.request,
        Err(Stop::Refused(refused)) => &refused.asked.request,
        Err(Stop::Silent) => return judged,
    };
    if is_meant(core, request) {
        core.counters.passed.count();
        return judged;
    }
    core.counters.filtered.count();
    Err(Stop::Silent)
}

fn is_meant(core: &Core, request: &Request) -> bool {
    match &request.target {
        Target::Nodes(nodes) => nodes.contains(core.identity()),
        Target::Filter(filter) => filter.is_empty() || core.view(|node| filter.matches(node)),
    }
}
