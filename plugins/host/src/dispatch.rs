//! One call: a slot, the action in a task of its own, a deadline, and an answer that its schema allows.
//!
//! An action that answers from memory needs neither task nor deadline: it is run where it is called ([`Registry::answer_at_once`]).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt as _;
use muster_api::{ActionError, Context, Handler};
use muster_wire::status::{Reason, Status};
use serde_json::{Map, Value};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinError;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::limits::Limits;
use crate::registry::{Registry, Slot};

/// How long a cancelled action may still say what it has done: longer than a program has between TERM and KILL.
const LAST_WORDS: Duration = Duration::from_secs(4);

/// What is called. The inputs are validated, the caller is authorised.
#[derive(Debug)]
pub struct Call {
    /// The circumstances; agent, action and deadline are taken from it.
    pub context: Context,
    /// The inputs.
    pub input: Map<String, Value>,
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The field's code.
    pub status: Status,
    /// `OK`, or what went wrong.
    pub message: String,
    /// What the code cannot say.
    pub reason: Option<Reason>,
    /// The outputs.
    pub data: Map<String, Value>,
    /// How long it waited for its turn.
    pub queued: Duration,
    /// How long the action ran; zero when it never started.
    pub took: Duration,
}

impl Outcome {
    fn refused(status: Status, message: String, reason: Option<Reason>) -> Self {
        Self {
            status,
            message,
            reason,
            data: Map::new(),
            queued: Duration::ZERO,
            took: Duration::ZERO,
        }
    }

    /// Whether it was refused because too many others run and wait.
    pub fn never_had_its_turn(&self) -> bool {
        self.took.is_zero() && matches!(self.reason, Some(Reason::Busy { .. }))
    }

    fn of_error(error: ActionError, took: Duration) -> Self {
        let ActionError {
            status,
            message,
            reason,
            data,
        } = error;
        Self {
            status,
            message,
            reason,
            data,
            queued: Duration::ZERO,
            took,
        }
    }
}

impl Registry {
    /// Runs one call to its end, and always has an answer: a panic, a hang, a flood and an illegal answer are outcomes like others.
    pub async fn dispatch(&self, call: Call) -> Outcome {
        let agent = call.context.agent.as_str().to_owned();
        let action = call.context.action.as_str().to_owned();
        let Some(slot) = self.slot(&agent) else {
            let message = format!("this node has no agent {agent}");
            return Outcome::refused(Status::UnknownAction, message, None);
        };
        let Some(handler) = slot.agent.handler(&action) else {
            let message = format!("agent {agent} has no action {action}");
            return Outcome::refused(Status::UnknownAction, message, None);
        };
        let deadline = call.context.deadline;
        let cancel = call.context.cancel.clone();
        let came = Instant::now();
        let entered = slot.enter(deadline, &cancel).await;
        let queued = came.elapsed();
        let permit = match entered {
            Ok(permit) => permit,
            Err(outcome) => return Outcome { queued, ..outcome },
        };
        let outcome = run(Arc::clone(handler), call, permit).await;
        let outcome = slot.judge(&action, outcome);
        Outcome { queued, ..outcome }
    }
}

impl Registry {
    /// Whether this action answers from memory.
    pub fn answers_at_once(&self, agent: &str, action: &str) -> bool {
        let handler = self.slot(agent).and_then(|slot| slot.agent.handler(action));
        handler.is_some_and(|handler| handler.at_once())
    }

    /// Runs a call of an action that answers from memory, here and now. Gives it back if the action is another, or has to wait for
    /// its turn.
    #[expect(clippy::result_large_err, reason = "the call is given back as it came")]
    pub fn answer_at_once(&self, call: Call) -> Result<Outcome, Call> {
        let Call { context, input } = call;
        let Some(slot) = self.slot(context.agent.as_str()) else {
            return Err(Call { context, input });
        };
        let handler = slot.agent.handler(context.action.as_str());
        let handler = handler.filter(|handler| handler.at_once());
        let permit = Arc::clone(&slot.running).try_acquire_owned();
        let (Some(handler), Ok(_permit), false) = (handler, permit, context.cancel.is_cancelled())
        else {
            return Err(Call { context, input });
        };
        let begun = Instant::now();
        // What is left behind by a panic is the call's own: nobody sees it again.
        let run = || handler.call(&context, input).now_or_never();
        let ended = catch_unwind(AssertUnwindSafe(run));
        let outcome = concluded(ended, begun.elapsed());
        Ok(slot.judge(context.action.as_str(), outcome))
    }
}

/// How an action ended that was to answer at once.
fn concluded(
    ended: std::thread::Result<Option<Result<Map<String, Value>, ActionError>>>,
    took: Duration,
) -> Outcome {
    match ended {
        Ok(Some(result)) => of_result(result, took),
        Ok(None) => {
            let message = "the action did not answer at once, as it promises";
            Outcome::of_error(ActionError::broken(message), took)
        }
        // The panic's own text goes to the daemon's log by the panic hook; the caller learns that it happened.
        Err(_) => broke_off(took),
    }
}

impl Slot {
    /// Waits for a turn, if there is room to wait. What is taken back meanwhile never starts.
    async fn enter(
        &self,
        deadline: Instant,
        cancel: &CancellationToken,
    ) -> Result<OwnedSemaphorePermit, Outcome> {
        if cancel.is_cancelled() {
            return Err(never_started());
        }
        if let Ok(permit) = Arc::clone(&self.running).try_acquire_owned() {
            return Ok(permit);
        }
        let before = self.waiting.fetch_add(1, Ordering::AcqRel);
        let left = Leave(self);
        if before >= self.limits.queue {
            return Err(self.busy());
        }
        let turn = tokio::time::timeout_at(deadline, Arc::clone(&self.running).acquire_owned());
        let permit = tokio::select! {
            permit = turn => permit,
            () = cancel.cancelled() => {
                drop(left);
                return Err(never_started());
            }
        };
        drop(left);
        match permit {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) | Err(_) => Err(self.busy()),
        }
    }

    fn busy(&self) -> Outcome {
        let Limits {
            concurrency,
            queue,
            retry_after,
            ..
        } = self.limits;
        let message = format!(
            "agent {} is busy: {concurrency} calls run and {queue} may wait",
            self.agent.name()
        );
        let retry_after_ms = millis(retry_after);
        Outcome::refused(
            Status::Other,
            message,
            Some(Reason::Busy { retry_after_ms }),
        )
    }

    /// Holds an answer against schema and size.
    fn judge(&self, action: &str, outcome: Outcome) -> Outcome {
        let outcome = self.judge_schema(action, outcome);
        let mut bytes = Counted(0);
        let bytes = match serde_json::to_writer(&mut bytes, &outcome.data) {
            Ok(()) => bytes.0,
            Err(_) => 0,
        };
        if bytes <= self.limits.output_bytes {
            return outcome;
        }
        let limit = self.limits.output_bytes;
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        Outcome {
            status: Status::Other,
            message: format!(
                "the answer is {bytes} bytes, and {limit} may be sent; it was dropped"
            ),
            reason: Some(Reason::Oversized { bytes }),
            data: Map::new(),
            queued: outcome.queued,
            took: outcome.took,
        }
    }

    fn judge_schema(&self, action: &str, mut outcome: Outcome) -> Outcome {
        if outcome.status != Status::Ok {
            return outcome;
        }
        let Some(schema) = self.agent.ddl().action(action) else {
            return outcome;
        };
        match schema.validate_output(&outcome.data) {
            Ok(data) => outcome.data = data,
            Err(error) => {
                let message = format!("the action's answer is not what its DDL declares: {error}");
                let took = outcome.took;
                outcome = Outcome {
                    took,
                    ..Outcome::of_error(ActionError::broken(message), took)
                };
            }
        }
        outcome
    }
}

/// Counts what is written to it.
struct Counted(usize);

impl std::io::Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Leaves the queue, however the waiting ends.
struct Leave<'a>(&'a Slot);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Runs the action in a task of its own. The slot is given back when the task is over, not when we stop waiting.
async fn run(handler: Arc<dyn Handler>, call: Call, permit: OwnedSemaphorePermit) -> Outcome {
    let Call { context, input } = call;
    let (deadline, cancel) = (context.deadline, context.cancel.clone());
    let begun = Instant::now();
    let action = async move {
        let _slot = permit;
        handler.call(&context, input).await
    };
    // What it logs belongs to the request, though the task is another one.
    let mut task = tokio::spawn(action.in_current_span());
    let ended = tokio::select! {
        ended = &mut task => ended,
        () = tokio::time::sleep_until(deadline) => {
            cancel.cancel();
            task.abort();
            return timed_out(begun.elapsed());
        }
        () = cancel.cancelled() => {
            let Ok(ended) = tokio::time::timeout(LAST_WORDS, &mut task).await else {
                task.abort();
                return Outcome::of_error(ActionError::cancelled(), begun.elapsed());
            };
            return cancelled(finish(ended, begun.elapsed()));
        }
    };
    finish(ended, begun.elapsed())
}

/// An action that was done in spite of being taken back has done it; one that failed, failed because of that.
fn cancelled(outcome: Outcome) -> Outcome {
    match (outcome.status, &outcome.reason) {
        (Status::Ok, _) | (_, Some(_)) => outcome,
        _ => Outcome {
            status: Status::Other,
            reason: Some(Reason::Cancelled),
            ..outcome
        },
    }
}

fn never_started() -> Outcome {
    Outcome {
        message: "cancelled before it was started".to_owned(),
        ..Outcome::of_error(ActionError::cancelled(), Duration::ZERO)
    }
}

fn finish(
    ended: Result<Result<Map<String, Value>, ActionError>, JoinError>,
    took: Duration,
) -> Outcome {
    match ended {
        Ok(result) => of_result(result, took),
        Err(error) => {
            // The panic's own text goes to the daemon's log by the panic hook; the caller learns that it happened.
            tracing::error!(%error, "an action broke");
            broke_off(took)
        }
    }
}

fn of_result(result: Result<Map<String, Value>, ActionError>, took: Duration) -> Outcome {
    match result {
        Ok(data) => Outcome {
            status: Status::Ok,
            message: "OK".to_owned(),
            reason: None,
            data,
            queued: Duration::ZERO,
            took,
        },
        Err(error) => Outcome::of_error(error, took),
    }
}

fn broke_off(took: Duration) -> Outcome {
    let message = "the action broke off; the node's log says why";
    Outcome::of_error(ActionError::broken(message), took)
}

fn timed_out(took: Duration) -> Outcome {
    let after_ms = millis(took);
    Outcome {
        status: Status::Other,
        message: format!("the action did not end within {after_ms} ms"),
        reason: Some(Reason::Timeout { after_ms }),
        data: Map::new(),
        queued: Duration::ZERO,
        took,
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
