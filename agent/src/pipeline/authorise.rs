//! Stage 6: the node's own policy, the second lock behind the broker's permissions.

use muster_wire::status::{Reason, Status};

use super::{Accepted, Stop};
use crate::core::Core;

/// Asks the policy, and notes the rule that allowed it.
pub(super) fn decide(core: &Core, accepted: Accepted) -> Result<Accepted, Stop> {
    let request = &accepted.asked.request;
    let policy = core.policy.get();
    let decision =
        core.view(|node| policy.decide(&request.caller, &request.agent, &request.action, node));
    if decision.allowed {
        return Ok(Accepted {
            rule: decision.rule,
            ..accepted
        });
    }
    core.counters.denied.count();
    let message = format!(
        "{} may not ask for {} {} here: {}",
        request.caller, request.agent, request.action, decision.rule
    );
    let reason = Some(Reason::Denied {
        rule: decision.rule,
    });
    Err(Stop::refused(
        accepted.asked,
        Status::Other,
        message,
        reason,
    ))
}
