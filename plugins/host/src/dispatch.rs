//! Runs one call: acquires a permit, runs the action in a separate task with a deadline, and checks the reply against the schema.
//!
//! An action that replies from memory needs neither task nor deadline and runs inline ([`AgentRegistry::answer_immediately`]).

use muster_api::base::{duration_millis, format_duration, round_limit};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt as _;
use muster_api::{ActionError, ActionHandler, CallContext};
use muster_wire::request::REPLY_GRACE;
use muster_wire::status::{ReplyReason, ReplyStatus};
use serde_json::{Map, Value};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinError;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::limits::CallLimits;
use crate::registry::{AgentRegistry, AgentSlot};

/// How long the host waits for a cancelled action to report what it did. Longer than the time a program has between TERM and KILL.
const CANCEL_GRACE: Duration = Duration::from_secs(4);

/// The inputs are validated and the caller is authorised.
#[derive(Debug)]
pub struct ActionCall {
    /// The context; supplies agent, action and deadline.
    pub context: CallContext,
    pub input: Map<String, Value>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct CallOutcome {
    pub status: ReplyStatus,
    /// `OK`, or the error message.
    pub message: String,
    /// Detail that the status code does not carry.
    pub reason: Option<ReplyReason>,
    pub data: Map<String, Value>,
    /// How long the call waited for a permit.
    pub queued: Duration,
    /// How long the action ran; zero when it never started.
    pub took: Duration,
}

impl CallOutcome {
    /// The outcome of a call whose action did not start.
    pub fn new_refusal(status: ReplyStatus, message: String, reason: Option<ReplyReason>) -> Self {
        Self::from_error(ActionError { status, message, reason, data: Map::new() }, Duration::ZERO)
    }

    pub fn from_result(result: Result<Map<String, Value>, ActionError>, took: Duration) -> Self {
        match result {
            Ok(data) => Self {
                status: ReplyStatus::Ok,
                message: "OK".to_owned(),
                reason: None,
                data,
                queued: Duration::ZERO,
                took,
            },
            Err(error) => Self::from_error(error, took),
        }
    }

    /// Whether the call was rejected because the agent's slots and queue are full.
    pub fn was_rejected_busy(&self) -> bool {
        self.took.is_zero() && matches!(self.reason, Some(ReplyReason::Busy { .. }))
    }

    fn from_error(error: ActionError, took: Duration) -> Self {
        let ActionError { status, message, reason, data } = error;
        Self { status, message, reason, data, queued: Duration::ZERO, took }
    }
}

impl AgentRegistry {
    /// Always returns an outcome: a panic, a timeout, an oversized reply and an invalid reply each map to one.
    pub async fn dispatch_call(&self, call: ActionCall) -> CallOutcome {
        let agent = call.context.agent.as_str().to_owned();
        let action = call.context.action.as_str().to_owned();
        let Some(slot) = self.find_slot(&agent) else {
            let message = format!("this node has no agent {agent}");
            return CallOutcome::new_refusal(ReplyStatus::UnknownAction, message, None);
        };
        let Some(handler) = slot.agent.find_handler(&action) else {
            let message = format!("agent {agent} has no action {action}");
            return CallOutcome::new_refusal(ReplyStatus::UnknownAction, message, None);
        };
        let deadline = call.context.deadline;
        let withdrawn = call.context.withdrawn.clone();
        let queued_at = Instant::now();
        let acquired = slot.acquire_permit(deadline, &withdrawn).await;
        let queued = queued_at.elapsed();
        let permit = match acquired {
            Ok(permit) => permit,
            Err(outcome) => return CallOutcome { queued, ..outcome },
        };
        let grace = if slot.agent.ends_at_deadline(&action) { REPLY_GRACE } else { Duration::ZERO };
        let outcome = run_action(Arc::clone(handler), call, grace, permit).await;
        let outcome = slot.check_outcome(&action, outcome);
        CallOutcome { queued, ..outcome }
    }
}

impl AgentRegistry {
    /// Whether this action replies from memory.
    pub fn answers_immediately(&self, agent: &str, action: &str) -> bool {
        let handler = self.find_slot(agent).and_then(|slot| slot.agent.find_handler(action));
        handler.is_some_and(|handler| handler.answers_immediately())
    }

    /// Runs a call of an action that replies from memory inline. Returns the call unchanged if the action is of another kind, or if no permit is
    /// free.
    #[expect(clippy::result_large_err, reason = "the error returns the call unchanged")]
    pub fn answer_immediately(&self, call: ActionCall) -> Result<CallOutcome, ActionCall> {
        let ActionCall { context, input } = call;
        let Some(slot) = self.find_slot(context.agent.as_str()) else {
            return Err(ActionCall { context, input });
        };
        let handler = slot.agent.find_handler(context.action.as_str());
        let handler = handler.filter(|handler| handler.answers_immediately());
        let permit = Arc::clone(&slot.running).try_acquire_owned();
        let (Some(handler), Ok(_permit), false) = (handler, permit, context.cancel.is_cancelled())
        else {
            return Err(ActionCall { context, input });
        };
        let started_at = Instant::now();
        // `AssertUnwindSafe` is sound here: only this call owns the state that a panic leaves behind, and it is dropped.
        let run = || handler.call(&context, input).now_or_never();
        let call_result = catch_unwind(AssertUnwindSafe(run));
        let outcome = immediate_outcome(call_result, started_at.elapsed());
        Ok(slot.check_outcome(context.action.as_str(), outcome))
    }
}

/// The outcome of an action that runs inline.
fn immediate_outcome(
    call_result: std::thread::Result<Option<Result<Map<String, Value>, ActionError>>>,
    took: Duration,
) -> CallOutcome {
    match call_result {
        Ok(Some(result)) => CallOutcome::from_result(result, took),
        Ok(None) => {
            let message = "the action is declared to reply immediately, but did not";
            CallOutcome::from_error(ActionError::internal_error(message), took)
        }
        // The panic hook logs the panic message; the caller only gets the fact that it panicked.
        Err(_) => panic_outcome(took),
    }
}

impl AgentSlot {
    /// Waits for a permit, if the queue has a free place. A call that is cancelled while it waits never starts.
    async fn acquire_permit(
        &self,
        deadline: Instant,
        cancel: &CancellationToken,
    ) -> Result<OwnedSemaphorePermit, CallOutcome> {
        if cancel.is_cancelled() {
            return Err(cancelled_before_start());
        }
        if let Ok(permit) = Arc::clone(&self.running).try_acquire_owned() {
            return Ok(permit);
        }
        let queue_length = self.waiting.fetch_add(1, Ordering::AcqRel);
        let queue_guard = QueueGuard(self);
        if queue_length >= self.limits.queue {
            return Err(self.busy_outcome());
        }
        let acquire = tokio::time::timeout_at(deadline, Arc::clone(&self.running).acquire_owned());
        let permit = tokio::select! {
            permit = acquire => permit,
            () = cancel.cancelled() => {
                drop(queue_guard);
                return Err(cancelled_before_start());
            }
        };
        drop(queue_guard);
        match permit {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) | Err(_) => Err(self.busy_outcome()),
        }
    }

    fn busy_outcome(&self) -> CallOutcome {
        let CallLimits { concurrency, queue, retry_after, .. } = self.limits;
        let message = format!(
            "agent {} is busy: {concurrency} calls may run and {queue} may wait at a time",
            self.agent.name()
        );
        let retry_after_ms = duration_millis(retry_after);
        CallOutcome::new_refusal(
            ReplyStatus::Other,
            message,
            Some(ReplyReason::Busy { retry_after_ms }),
        )
    }

    /// Checks a reply against the schema and the size limit.
    fn check_outcome(&self, action: &str, outcome: CallOutcome) -> CallOutcome {
        let outcome = self.check_schema(action, outcome);
        let limit = self.limits.output_bytes;
        let mut counter = ByteCounter(0);
        // Encoding a JSON object fails only if the writer fails, and the counter does not.
        let _ = serde_json::to_writer(&mut counter, &outcome.data);
        if counter.0 <= limit {
            return outcome;
        }
        let bytes = counter.0 as u64;
        let message = format!(
            "the outputs have {bytes} bytes; at most {limit} can be sent, so they were dropped"
        );
        let reason = Some(ReplyReason::Oversized { bytes });
        CallOutcome {
            queued: outcome.queued,
            took: outcome.took,
            ..CallOutcome::new_refusal(ReplyStatus::Other, message, reason)
        }
    }

    fn check_schema(&self, action: &str, mut outcome: CallOutcome) -> CallOutcome {
        if outcome.status != ReplyStatus::Ok {
            return outcome;
        }
        let Some(schema) = self.agent.ddl().find_action(action) else { return outcome };
        match schema.validate_output(&outcome.data) {
            Ok(data) => outcome.data = data,
            Err(error) => {
                let message = format!("the action's outputs do not match its DDL: {error}");
                outcome =
                    CallOutcome::from_error(ActionError::internal_error(message), outcome.took);
            }
        }
        outcome
    }
}

/// Counts the bytes written to it.
struct ByteCounter(usize);

impl std::io::Write for ByteCounter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Leaves the queue on drop, however the wait ends.
struct QueueGuard<'a>(&'a AgentSlot);

impl Drop for QueueGuard<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Runs the action in a separate task, until its deadline and the grace time for its reply. The permit is released when the task ends, not when the
/// caller stops waiting.
async fn run_action(
    handler: Arc<dyn ActionHandler>,
    call: ActionCall,
    grace: Duration,
    permit: OwnedSemaphorePermit,
) -> CallOutcome {
    let ActionCall { context, input } = call;
    let (deadline, cancel) = (context.deadline, context.cancel.clone());
    let started_at = Instant::now();
    let action = async move {
        let _slot = permit;
        handler.call(&context, input).await
    };
    // Log events of the separate task keep the request's span.
    let mut task = tokio::spawn(action.in_current_span());
    let join_result = tokio::select! {
        join_result = &mut task => join_result,
        () = tokio::time::sleep_until(deadline + grace) => {
            cancel.cancel();
            task.abort();
            let limit = round_limit(deadline.saturating_duration_since(started_at));
            return timeout_outcome(limit, started_at.elapsed());
        }
        () = cancel.cancelled() => {
            let Ok(join_result) = tokio::time::timeout(CANCEL_GRACE, &mut task).await else {
                task.abort();
                return CallOutcome::from_error(ActionError::cancelled(), started_at.elapsed());
            };
            return mark_cancelled(task_outcome(join_result, started_at.elapsed()));
        }
    };
    task_outcome(join_result, started_at.elapsed())
}

/// A cancelled action that completed keeps its outcome; one that failed is reported as cancelled.
fn mark_cancelled(outcome: CallOutcome) -> CallOutcome {
    match (outcome.status, &outcome.reason) {
        (ReplyStatus::Ok, _) | (_, Some(_)) => outcome,
        _ => CallOutcome {
            status: ReplyStatus::Other,
            reason: Some(ReplyReason::Cancelled),
            ..outcome
        },
    }
}

fn cancelled_before_start() -> CallOutcome {
    CallOutcome {
        message: "cancelled before the action started".to_owned(),
        ..CallOutcome::from_error(ActionError::cancelled(), Duration::ZERO)
    }
}

fn task_outcome(
    join_result: Result<Result<Map<String, Value>, ActionError>, JoinError>,
    took: Duration,
) -> CallOutcome {
    match join_result {
        Ok(result) => CallOutcome::from_result(result, took),
        Err(error) => {
            // The panic hook logs the panic message; the caller only gets the fact that it panicked.
            tracing::error!(%error, "an action panicked");
            panic_outcome(took)
        }
    }
}

fn panic_outcome(took: Duration) -> CallOutcome {
    let message = "the action panicked; see the node's log";
    CallOutcome::from_error(ActionError::internal_error(message), took)
}

/// `limit` is what the way to the action has left of the timeout.
fn timeout_outcome(limit: Duration, took: Duration) -> CallOutcome {
    let after_ms = duration_millis(limit);
    let message = format!("the action did not end within {}", format_duration(limit));
    let reason = Some(ReplyReason::Timeout { after_ms });
    CallOutcome { took, ..CallOutcome::new_refusal(ReplyStatus::Other, message, reason) }
}
