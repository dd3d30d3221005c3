//! The next step of a node, from its state and the time.

use muster_api::wire::Millis;
use uuid::Uuid;

use super::delay::next_allowed_start;
use super::event::SuppressReason;
use super::state::AgainState;
use crate::again::policy::AgainPolicy;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextStep {
    Idle,
    /// The started run has not ended.
    AwaitRun(Uuid),
    /// The run that asked has not ended.
    AwaitRunEnd,
    /// Nothing before this time.
    Wait {
        until: Millis,
        /// Whether a limit of the node is the reason.
        is_limited: bool,
    },
    /// Other nodes have not finished a run yet. Nothing before this time.
    AwaitNodes {
        /// When the first condition, or the request, expires.
        until: Millis,
    },
    /// Conditions on other nodes are no longer waited for.
    ExpireBarriers,
    Start,
    /// The pending run can no longer begin.
    Suppress(SuppressReason),
}

impl AgainState {
    pub fn next_step(&self, policy: &AgainPolicy, now: Millis) -> NextStep {
        if let Some(running) = &self.running {
            return NextStep::AwaitRun(running.run);
        }
        let Some(pending) = &self.pending else { return NextStep::Idle };
        let Some(due) = pending.due else { return NextStep::AwaitRunEnd };
        let allowed = next_allowed_start(&self.starts, &policy.limits);
        let is_limited = allowed > due && allowed > now;
        if now >= pending.deadline {
            let reason = if is_limited { SuppressReason::Budget } else { SuppressReason::Deadline };
            return NextStep::Suppress(reason);
        }
        if let Some(expires) = pending.next_expiry() {
            if expires <= now {
                return NextStep::ExpireBarriers;
            }
            return NextStep::AwaitNodes { until: expires.min(pending.deadline) };
        }
        let start = due.max(allowed);
        if start <= now {
            return NextStep::Start;
        }
        NextStep::Wait { until: start.min(pending.deadline), is_limited }
    }
}
