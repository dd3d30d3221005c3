//! What the stages of the pipeline pass on: a message, a verified request, an accepted one, a reply.

use std::sync::Arc;
use std::time::Duration;

use muster_api::{RequestOwner, RunningRequest};
use muster_bus::Bytes;
use muster_host::{AgentRegistry, RunningGuard};
use muster_wire::Millis;
use muster_wire::request::{Request, work_id};
use muster_wire::token::VerifiedUser;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::progress::ProgressListener;
use super::stage_timer::StageTimer;
use crate::core::audit::{ApprovalRecord, ScheduleRecord};
use crate::core::begun::BegunRequest;
use crate::core::sent_replies::SentReply;

#[derive(Debug)]
pub struct IncomingMessage {
    pub subject: String,
    pub reply_to: Option<String>,
    pub payload: Bytes,
}

/// A request of an authenticated caller.
#[derive(Debug)]
pub struct VerifiedRequest {
    pub request: Request,
    pub caller: Arc<VerifiedUser>,
    /// The caller's own inbox, if it wants a reply.
    pub reply_to: Option<String>,
    /// The schedule that the request is sent for; its author is the caller then.
    pub schedule: Option<ScheduleRecord>,
    /// Until when the request is remembered at least, to be executed once only.
    pub(super) remember_until: Millis,
    /// Whether the journal entry of the request survives a crash, once it is synced to disk.
    pub journaled: bool,
    /// The stage timings so far, if the caller requested them.
    pub(super) timer: StageTimer,
}

/// A request that targets this node and is valid and allowed.
#[derive(Debug)]
pub struct AcceptedRequest {
    pub verified: VerifiedRequest,
    /// The agents on offer when it was accepted.
    pub registry: Arc<AgentRegistry>,
    /// The inputs, with defaults.
    pub input: Map<String, Value>,
    /// The inputs with sensitive ones redacted, for the audit log.
    pub redacted: Map<String, Value>,
    /// The action changes nothing.
    pub read_only: bool,
    /// How long it may take.
    pub timeout: Duration,
    /// The action is one for which a node may require a second person's approval.
    pub dangerous: bool,
    /// The policy rule that allowed it.
    pub rule: String,
    /// Its entry in the list of running requests, through which it can be cancelled.
    pub running_guard: RunningGuard,
    /// The approver, if approval was required.
    pub approver: Option<ApprovalRecord>,
}

#[derive(Debug)]
pub struct OutgoingReply {
    /// The caller's inbox.
    pub subject: String,
    /// The signed reply.
    pub payload: Bytes,
    /// The work id of the request, if the journal of begun requests has it.
    pub begun: Option<Uuid>,
}

impl OutgoingReply {
    pub fn to_sent(&self) -> SentReply {
        SentReply { subject: self.subject.clone(), payload: self.payload.clone() }
    }
}

/// An unauthenticated message: it was counted, and no reply is sent.
#[derive(Debug)]
pub(super) struct UnverifiedMessage;

impl AcceptedRequest {
    pub(super) fn to_begun_request(&self, now: Millis) -> BegunRequest {
        let (request, caller) = (&self.verified.request, &self.verified.caller);
        BegunRequest {
            request: request.id,
            caller: request.caller.clone(),
            caller_key: caller.key.to_string(),
            caller_role: caller.role.as_str().to_owned(),
            collective: request.collective.clone(),
            agent: request.agent.clone(),
            action: request.action.clone(),
            changes: !self.read_only,
            reply_to: self.verified.reply_to.clone(),
            since: now,
        }
    }
}

impl VerifiedRequest {
    /// Where to send progress, if the caller requested it.
    pub(super) fn progress_listener(&self) -> Option<ProgressListener> {
        let inbox = self.reply_to.as_ref().filter(|_| self.request.stream)?;
        Some(ProgressListener {
            inbox: inbox.clone(),
            request: self.request.id,
            agent: self.request.agent.clone(),
            action: self.request.action.clone(),
        })
    }

    /// The id under which the node keeps the work of the request.
    pub(super) fn work_id(&self) -> Uuid {
        work_id(&self.caller.key.to_string(), self.request.id)
    }

    /// The request as other callers see it in the list of running requests.
    pub(super) fn to_running_request(&self, now: Millis) -> RunningRequest {
        RunningRequest {
            id: self.request.id,
            owner: RequestOwner { name: self.request.caller.clone(), role: self.caller.role },
            agent: self.request.agent.to_string(),
            action: self.request.action.to_string(),
            since: now,
        }
    }
}
