//! The context of an action call. Actions use no globals besides it.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use muster_system::System;
use muster_system::command::CancelFlag;
use muster_wire::Millis;
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::request::work_id;
use muster_wire::token::{PublicKey, ServiceRight, UserRole};
use muster_wire::trace::TraceContext;
use serde_json::{Map, Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::error::ActionError;
use crate::node::{NodeHandle, RequestOwner};
use crate::progress::ProgressSink;

/// The context of one call.
#[derive(Debug, Clone)]
pub struct CallContext {
    /// The request's id.
    pub request: Uuid,
    /// The verified and authorised caller.
    pub caller: Identity,
    /// Who signed the request; `None` for a call that no request made.
    pub sender: Option<CallSender>,
    /// The requested agent.
    pub agent: SubjectName,
    /// The requested action.
    pub action: SubjectName,
    /// The trace of the call. Programs started for the call get it in the environment variable [`muster_wire::trace::TRACEPARENT_VARIABLE`].
    pub trace: Option<TraceContext>,
    /// When the time that the action gets is over. An action that ends by itself then has [`REPLY_GRACE`](muster_wire::request::REPLY_GRACE) for its
    /// reply: see [`AgentBuilder::ending_at_deadline`](crate::AgentBuilder::ending_at_deadline).
    pub deadline: Instant,
    /// Cancelled when the caller cancels, the deadline passes, or the daemon stops.
    pub cancel: CancellationToken,
    /// Cancelled with `cancel`, and when the caller withdraws the request: work that has not begun must then not begin; work that has begun continues.
    pub withdrawn: CancellationToken,
    /// The machine that the action acts on.
    pub system: Arc<dyn System>,
    /// The node that the action runs on.
    pub node: Arc<dyn NodeHandle>,
    /// Receives progress events, for callers that requested them.
    pub progress: ProgressSink,
    /// Whether the caller wants a reply.
    pub reply_wanted: bool,
}

/// The verified sender of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallSender {
    /// The key that signed the request.
    pub key: PublicKey,
    /// The role of its token.
    pub role: UserRole,
    /// The services for which it may answer.
    pub rights: Vec<ServiceRight>,
    /// The collective that the request was sent to.
    pub collective: SubjectName,
    /// Issue time of its token.
    pub token_issued_at: Millis,
    /// Expiry of its token; `None` never expires.
    pub token_expires: Option<Millis>,
}

/// The end of work that an action had begun, and that went on after its reply.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkEnd {
    /// What it was and did. Holds no secrets.
    pub data: Map<String, Value>,
    /// Why it ended.
    pub reason: &'static str,
    /// How long it lasted.
    pub took: Duration,
}

impl CallContext {
    /// An id for files and units of this call. Unlike the id of the request, which its sender chooses, no other sender's request has it.
    pub fn work_id(&self) -> Uuid {
        let sender = self.sender.as_ref();
        sender.map_or(self.request, |sender| work_id(&sender.key.to_string(), self.request))
    }

    /// The user to whom the request belongs.
    pub fn owner(&self) -> RequestOwner {
        let role = self.sender.as_ref().map_or(UserRole::Caller, |sender| sender.role);
        RequestOwner { name: self.caller.clone(), role }
    }

    /// The time until the deadline.
    pub fn time_left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Emits a progress event if the caller requested progress; see [`ProgressSink::emit_event`]. Never waits.
    pub fn emit_event(&self, event: Value) {
        self.progress.emit_event(event);
    }

    /// Emits a one-sentence progress message if the caller requested progress. Never waits.
    pub fn report_progress(&self, message: impl Into<String>) {
        if self.progress.is_wanted() {
            self.emit_event(json!({ "message": message.into() }));
        }
    }

    /// Runs blocking work on a separate thread. The flag passed to the work is set when the call is cancelled; programs started through the system
    /// stop then. A result that arrives after cancellation still counts while the host waits, so that the caller learns what was already done.
    pub async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(CancelFlag) -> T + Send + 'static,
    ) -> Result<T, ActionError> {
        let cancel = CancelFlag::default();
        let _cancel_guard = CallCancelGuard(cancel.clone());
        let flag = cancel.clone();
        let mut worker = tokio::task::spawn_blocking(move || work(cancel));
        let result = tokio::select! {
            result = &mut worker => result,
            () = self.cancel.cancelled() => {
                flag.cancel();
                worker.await
            }
        };
        result.map_err(|error| ActionError::internal_error(error.to_string()))
    }

    /// Runs blocking work that can fail as [`Self::run_blocking`] does, with the context of the call.
    pub async fn run_blocking_in_context<T: Send + 'static>(
        &self,
        work: impl FnOnce(&BlockingContext) -> Result<T, ActionError> + Send + 'static,
    ) -> Result<T, ActionError> {
        let call = self.clone();
        self.run_blocking(move |cancel_flag| work(&BlockingContext { call, cancel_flag })).await?
    }
}

/// The context of an action that runs on the pool for blocking work.
#[derive(Debug)]
pub struct BlockingContext {
    call: CallContext,
    /// Set when the call is cancelled or its deadline passes. Programs started with it are stopped then.
    pub cancel_flag: CancelFlag,
}

impl Deref for BlockingContext {
    type Target = CallContext;

    fn deref(&self) -> &CallContext {
        &self.call
    }
}

/// Sets the flag when the call ends, including when it is dropped at its deadline.
struct CallCancelGuard(CancelFlag);

impl Drop for CallCancelGuard {
    fn drop(&mut self) {
        self.0.cancel();
    }
}
