//! Stage 6: the node's own policy, the second lock behind the broker's permissions; and a second person, where it takes one.

use muster_wire::policy::Question;
use muster_wire::status::{Reason, Status};

use super::{Accepted, Stop, approval};
use crate::core::Core;

/// Asks the policy, and notes the rule that allowed it and who approved it.
pub(super) fn decide(core: &Core, accepted: Accepted) -> Result<Accepted, Stop> {
    let request = &accepted.asked.request;
    let policy = core.policy.get();
    let decision = core.view(|node| {
        policy.decide(&Question {
            caller: &request.caller,
            agent: &request.agent,
            action: &request.action,
            node,
            now: core.clock.now(),
        })
    });
    if !decision.allowed {
        return Err(denied(core, accepted, decision.rule));
    }
    let wanted = decision.approved_by.as_deref();
    let approver = if wanted.is_some() || (accepted.dangerous && core.authority.approve_dangerous) {
        match approval::check(core, &accepted, &policy, wanted) {
            Ok(approver) => Some(approver),
            Err(why) => return Err(denied(core, accepted, format!("{}: {why}", decision.rule))),
        }
    } else {
        None
    };
    Ok(Accepted {
        rule: decision.rule,
        approver,
        ..accepted
    })
}

fn denied(core: &Core, accepted: Accepted, rule: String) -> Stop {
    core.counters.denied.count();
    let request = &accepted.asked.request;
    let message = format!(
        "{} may not ask for {} {} here: {rule}",
        request.caller, request.agent, request.action
    );
    let reason = Some(Reason::Denied { rule });
    Stop::refused(accepted.asked, Status::Other, message, reason)
}
