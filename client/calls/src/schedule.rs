//! Calls of the scheduling service, which requests actions by schedules. Any instance answers.
//!
//! The answer is accepted only if the token of its sender has the right to answer for the scheduling service.

use std::time::Duration;

use muster_base::NodeText;
use muster_contract::schedule::ScheduleAgent;
use muster_ddl::Action;
use muster_wire::identity::Identity;
use muster_wire::status::ReplyReason;
use muster_wire::token::ServiceRight;

use crate::any_instance::InstanceAnswer;
use crate::call::{CallTarget, RpcCall};
use crate::client::Client;
use crate::error::ClientError;

/// Time for an answer.
pub const SCHEDULE_TIMEOUT: Duration = Duration::from_secs(10);

/// Why the scheduling service gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum ScheduleCallError {
    /// No instance runs.
    #[error(
        "no scheduling service is running; enable one with [plugins.schedule] on a host of this fleet"
    )]
    Absent,
    /// No instance answered in time.
    #[error("the scheduling service did not answer within {} s", .0.as_secs())]
    Timeout(Duration),
    /// The policy of the instance's host denies the request.
    #[error("the scheduling service denied the request: {}", .0.block())]
    Denied(NodeText),
    /// The instance refused the request.
    #[error("the scheduling service refused the request: {}", .0.block())]
    Refused(NodeText),
    /// The answer was signed by a user without the right to answer for the scheduling service.
    #[error(
        "{0} answered for the scheduling service without the right to; the answer was ignored. Look for its key with `rpc org list`; a scheduler gets the right with `rpc org add service {0} --serve schedule --renew`"
    )]
    NotAScheduler(Identity),
    /// The answer has another form.
    #[error("cannot read the answer of the scheduling service")]
    Answer(#[source] serde_json::Error),
    /// The request could not be sent.
    #[error(transparent)]
    Client(#[from] ClientError),
}

impl Client {
    /// Calls an action of any instance of the scheduling service, and reads its outputs.
    pub async fn call_scheduler<A: Action<Agent = ScheduleAgent>>(
        &self,
        input: &A::Input,
    ) -> Result<A::Output, ScheduleCallError> {
        let call = RpcCall::of_action::<A>(input, CallTarget::AnyInstance);
        let mut call = call.map_err(ClientError::from)?;
        call.expect = Some(1);
        call.wait = SCHEDULE_TIMEOUT;
        let reply = match self.ask_any_instance(call).await? {
            InstanceAnswer::Reply(reply) => reply,
            InstanceAnswer::Absent => return Err(ScheduleCallError::Absent),
            InstanceAnswer::Silent => return Err(ScheduleCallError::Timeout(SCHEDULE_TIMEOUT)),
        };
        if !reply.rights.contains(&ServiceRight::Schedule) {
            return Err(ScheduleCallError::NotAScheduler(reply.reply.sender));
        }
        if let Some(ReplyReason::Denied { .. }) = reply.reply.reason {
            return Err(ScheduleCallError::Denied(reply.reply.statusmsg));
        }
        if !reply.is_ok() {
            return Err(ScheduleCallError::Refused(reply.reply.statusmsg));
        }
        reply.read_outputs::<A>().map_err(ScheduleCallError::Answer)
    }
}
