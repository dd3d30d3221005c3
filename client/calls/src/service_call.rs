//! Calls of a central service, any instance of which answers.
//!
//! The answer is accepted only if the token of its sender has the right to answer for the service.

use std::time::Duration;

use muster_base::NodeText;
use muster_ddl::Action;
use muster_wire::identity::Identity;
use muster_wire::status::ReplyReason;
use muster_wire::token::ServiceRight;

use crate::any_instance::InstanceAnswer;
use crate::call::{CallTarget, RpcCall};
use crate::client::Client;
use crate::error::ClientError;

/// Time for an answer.
pub const SERVICE_TIMEOUT: Duration = Duration::from_secs(10);

/// Why a central service gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum ServiceCallError {
    /// No instance runs.
    #[error(
        "no {} is running; enable one with [plugins.{}] on a host of this fleet",
        .0.title(),
        .0.as_str()
    )]
    Absent(ServiceRight),
    /// No instance answered in time.
    #[error("the {} did not answer within {} s", .0.title(), SERVICE_TIMEOUT.as_secs())]
    Timeout(ServiceRight),
    /// The policy of the instance's host denies the request.
    #[error("the {} denied the request: {}", .0.title(), .1.block())]
    Denied(ServiceRight, NodeText),
    /// The instance refused the request.
    #[error("the {} refused the request: {}", .0.title(), .1.block())]
    Refused(ServiceRight, NodeText),
    /// The answer was signed by a user without the right to answer for the service.
    #[error(
        "{user} answered for the {title} without the right to; the answer was ignored. Look for its key with `rpc org list`; a user gets the right with `rpc org add service {user} --serve {right} --renew`",
        user = .1,
        title = .0.title(),
        right = .0.as_str()
    )]
    WithoutRight(ServiceRight, Identity),
    /// The answer has another form.
    #[error("cannot read the answer of the {}", .0.title())]
    Answer(ServiceRight, #[source] serde_json::Error),
    /// The request could not be sent.
    #[error(transparent)]
    Client(#[from] ClientError),
}

impl Client {
    /// Calls an action of any instance of the service with this right, and reads its outputs.
    pub async fn call_service<A: Action>(
        &self,
        service: ServiceRight,
        input: &A::Input,
    ) -> Result<A::Output, ServiceCallError> {
        let call = RpcCall::of_action::<A>(input, CallTarget::AnyInstance);
        let mut call = call.map_err(ClientError::from)?;
        call.expect = Some(1);
        call.wait = SERVICE_TIMEOUT;
        let reply = match self.ask_any_instance(call).await? {
            InstanceAnswer::Reply(reply) => reply,
            InstanceAnswer::Absent => return Err(ServiceCallError::Absent(service)),
            InstanceAnswer::Silent => return Err(ServiceCallError::Timeout(service)),
        };
        if !reply.rights.contains(&service) {
            return Err(ServiceCallError::WithoutRight(service, reply.reply.sender));
        }
        if let Some(ReplyReason::Denied { .. }) = reply.reply.reason {
            return Err(ServiceCallError::Denied(service, reply.reply.statusmsg));
        }
        if !reply.is_ok() {
            return Err(ServiceCallError::Refused(service, reply.reply.statusmsg));
        }
        reply.read_outputs::<A>().map_err(|error| ServiceCallError::Answer(service, error))
    }
}
