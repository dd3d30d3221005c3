//! The requests of one turn of a node: sends them with the grant, and says what became of the turn.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_calls::{CallEvent, CallTarget, Client, ReceivedReply, RpcCall};
use muster_schedule::{CompiledSchedule, TurnRequest};
use muster_wire::Millis;
use muster_wire::identity::{Identity, NameError, SubjectName};
use muster_wire::request::RequestGrant;
use muster_wire::schedule_grant::REPEATED_TURN;
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
const MAX_REASON_CHARS: usize = 200;

#[derive(Debug, Clone)]
pub(crate) struct DueTurn {
    pub(crate) schedule: SubjectName,
    pub(crate) node: Identity,
    pub(crate) slot: Millis,
}

#[derive(Debug, Clone)]
pub(crate) struct FinishedTurn {
    pub(crate) turn: DueTurn,
    pub(crate) outcome: TurnOutcome,
    pub(crate) reason: String,
    pub(crate) took: Duration,
}

pub(crate) fn build_call(
    turn: &DueTurn,
    grant: Uuid,
    text: &str,
    schedule: &CompiledSchedule,
) -> Result<RpcCall, NameError> {
    let request = schedule.turn_request(grant, &turn.node, turn.slot);
    grant_call(turn, request, text, reply_patience(schedule))
}

/// How long the reply to a turn may take.
pub(crate) fn reply_patience(schedule: &CompiledSchedule) -> Duration {
    let timeout = schedule.timeout_millis().map_or(DEFAULT_TIMEOUT, Duration::from_millis);
    timeout + REPLY_SLACK
}

/// The call that withdraws a turn: a node that has not begun it does not begin it.
pub(crate) fn build_withdrawal(
    turn: &DueTurn,
    grant: Uuid,
    text: &str,
) -> Result<RpcCall, NameError> {
    let request = CompiledSchedule::withdrawal_request(grant, &turn.node, turn.slot);
    grant_call(turn, request, text, REPLY_SLACK)
}

fn grant_call(
    turn: &DueTurn,
    request: TurnRequest,
    text: &str,
    wait: Duration,
) -> Result<RpcCall, NameError> {
    let target = CallTarget::Nodes(BTreeSet::from([turn.node.clone()]));
    Ok(RpcCall {
        data: request.inputs,
        timeout: request.timeout.map(Duration::from_millis),
        wait,
        ttl: REQUEST_TTL,
        grant: Some(RequestGrant { text: text.to_owned(), slot: turn.slot }),
        id: Some(request.id),
        ..RpcCall::new(&request.agent, &request.action, target)?
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
    let message = limit_reason(reply.statusmsg.raw());
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
        (_, Some(ReplyReason::Cancelled)) => (TurnOutcome::Cancelled, message),
        // A Puppet run, whose replies have a class.
        _ if reply.data.get("class").and_then(Value::as_str) == Some("cancelled") => {
            (TurnOutcome::Cancelled, message)
        }
        _ => (TurnOutcome::Failed, message),
    }
}

fn limit_reason(text: &str) -> String {
    text.chars().take(MAX_REASON_CHARS).collect()
}
