//! One request of a schedule to one node: sends it with the grant, and says what became of it.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_client::{CallEvent, CallTarget, Client, ReceivedReply, RpcCall};
use muster_schedule::{CompiledSchedule, slot_request_id};
use muster_wire::Millis;
use muster_wire::identity::{Identity, NameError, SubjectName};
use muster_wire::schedule_grant::{REPEATED_TURN, RequestGrant};
use muster_wire::status::{ReplyReason, ReplyStatus};
use serde_json::Value;
use uuid::Uuid;

use crate::node_progress::TurnOutcome;

/// How long a node may take beyond the time of the action.
const REPLY_SLACK: Duration = Duration::from_secs(15);
/// Time of an action whose schedule states none. The action's own limit may be shorter.
const DEFAULT_TIMEOUT: Duration = Duration::from_hours(1);
/// Time in which a node must accept a request.
const REQUEST_TTL: Duration = Duration::from_mins(1);
/// Most characters of a reason.
const MAX_REASON_CHARS: usize = 200;

/// A request that is to be sent.
#[derive(Debug, Clone)]
pub(crate) struct TurnRequest {
    pub(crate) schedule: SubjectName,
    pub(crate) node: Identity,
    pub(crate) slot: Millis,
}

/// What became of a request.
#[derive(Debug, Clone)]
pub(crate) struct FinishedTurn {
    pub(crate) request: TurnRequest,
    pub(crate) outcome: TurnOutcome,
    pub(crate) reason: String,
    pub(crate) took: Duration,
}

/// The call for a turn. Its id is the same whichever instance sends it.
pub(crate) fn build_call(
    request: &TurnRequest,
    (grant, text): (Uuid, &str),
    schedule: &CompiledSchedule,
) -> Result<RpcCall, NameError> {
    let spec = schedule.spec();
    let id = slot_request_id(grant, &request.node, request.slot);
    let timeout = schedule.timeout_millis().map(Duration::from_millis);
    let wait = timeout.unwrap_or(DEFAULT_TIMEOUT) + REPLY_SLACK;
    let target = CallTarget::Nodes(BTreeSet::from([request.node.clone()]));
    Ok(RpcCall {
        data: schedule.request_inputs(id),
        timeout,
        wait,
        ttl: REQUEST_TTL,
        grant: Some(RequestGrant { text: text.to_owned(), slot: request.slot }),
        id: Some(id),
        ..RpcCall::new(spec.agent.as_str(), spec.action.as_str(), target)?
    })
}

/// Sends the call and waits for its end.
pub(crate) async fn perform(client: &Client, call: RpcCall) -> (TurnOutcome, String) {
    let mut events = client.call(call);
    let mut absent = false;
    while let Some(event) = events.next().await {
        match event {
            CallEvent::Reply(reply) => return describe_reply(&reply),
            CallEvent::Absent(_) => absent = true,
            CallEvent::Failed(error) => {
                return (TurnOutcome::NoAnswer, limit_reason(&error.to_string()));
            }
            CallEvent::Finished(_) => break,
            _ => {}
        }
    }
    let reason = if absent { "the node is not connected" } else { "the node did not reply" };
    (TurnOutcome::NoAnswer, reason.to_owned())
}

fn describe_reply(received: &ReceivedReply) -> (TurnOutcome, String) {
    let reply = &received.reply;
    let message = limit_reason(&reply.statusmsg);
    match (&reply.statuscode, &reply.reason) {
        (ReplyStatus::Ok, _) => {
            let word = |name: &str| reply.data.get(name).and_then(Value::as_str);
            let result = word("class").or_else(|| word("summary")).unwrap_or_default();
            (TurnOutcome::Succeeded, limit_reason(result))
        }
        // An instance that was the leader before has sent the request and could not store it.
        (_, Some(ReplyReason::Denied { rule })) if rule == REPEATED_TURN => {
            (TurnOutcome::Begun, "begun by another instance".to_owned())
        }
        (
            _,
            Some(
                ReplyReason::Denied { .. } | ReplyReason::Expired { .. } | ReplyReason::Busy { .. },
            ),
        ) => (TurnOutcome::Refused, message),
        _ => (TurnOutcome::Failed, message),
    }
}

fn limit_reason(text: &str) -> String {
    text.chars().take(MAX_REASON_CHARS).collect()
}
