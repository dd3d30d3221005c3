//! Stage 7: runs the action within its limits, on this node's system.

use std::sync::Arc;

use muster_api::progress::ProgressSink;
use muster_api::{CallContext, CallSender, NodeHandle};
use muster_host::{ActionCall, CallOutcome};
use muster_wire::status::{ReplyReason, ReplyStatus};
use muster_wire::trace::StageName;
use tokio::task::JoinError;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::passed_values::AcceptedRequest;
use crate::core::DaemonCore;
use crate::core::seen::SeenError;

/// Why a request that changes the node is not run.
#[derive(Debug, thiserror::Error)]
enum JournalSyncError {
    #[error("the journal of seen requests cannot be written")]
    NotWritten,
    #[error(transparent)]
    Sync(#[from] SeenError),
    #[error(transparent)]
    Task(#[from] JoinError),
}

/// Runs the action to an outcome, and returns whether it started. A request that changes the node is first synced to the journals, so that after a
/// crash it cannot run twice, and the next daemon replies.
pub(super) async fn run_action(
    core: &Arc<DaemonCore>,
    accepted: &mut AcceptedRequest,
    stopping: &CancellationToken,
    progress: ProgressSink,
) -> (CallOutcome, bool) {
    if !accepted.read_only {
        let synced = sync_seen_journal(core, accepted.verified.journaled).await;
        accepted.verified.timer.end_stage(StageName::Journal);
        if let Err(error) = synced {
            accepted.verified.timer.mark_refused();
            core.request_metrics.record_refusal(StageName::Journal, "");
            let message = format!(
                "refused, because the node could not store the request in its journal: {error}"
            );
            return (CallOutcome::new_refusal(ReplyStatus::Other, message, None), false);
        }
    }
    let registry = Arc::clone(&accepted.registry);
    let cancel = accepted.running_guard.cancel_token().clone();
    let dispatched = registry.dispatch_call(build_call(core, accepted, progress));
    tokio::pin!(dispatched);
    let outcome = tokio::select! {
        outcome = &mut dispatched => outcome,
        () = stopping.cancelled() => {
            cancel.cancel();
            dispatched.await
        }
    };
    accepted.verified.timer.record_dispatch(&outcome);
    let started = !outcome.was_rejected_busy();
    if !started {
        core.request_metrics.record_refusal(StageName::Queue, "busy");
    }
    if outcome.reason == Some(ReplyReason::Cancelled) && stopping.is_cancelled() {
        let message = "the daemon stopped before the action was done".to_owned();
        let stopped = CallOutcome { message, reason: Some(ReplyReason::Stopping), ..outcome };
        return (stopped, started);
    }
    (outcome, started)
}

/// Runs an action inline if it replies from memory and changes nothing; `None` if it is another action, or no permit is free.
pub(super) fn run_immediately(
    core: &Arc<DaemonCore>,
    accepted: &mut AcceptedRequest,
) -> Option<CallOutcome> {
    let request = &accepted.verified.request;
    let (agent, action) = (request.agent.as_str(), request.action.as_str());
    let fits = accepted.read_only && accepted.registry.answers_immediately(agent, action);
    if !fits {
        return None;
    }
    let call = build_call(core, accepted, ProgressSink::default());
    let outcome = accepted.registry.answer_immediately(call).ok()?;
    accepted.verified.timer.record_dispatch(&outcome);
    Some(outcome)
}

fn build_call(
    core: &Arc<DaemonCore>,
    accepted: &AcceptedRequest,
    progress: ProgressSink,
) -> ActionCall {
    let request = &accepted.verified.request;
    let node: Arc<dyn NodeHandle> = Arc::clone(core) as _;
    let context = CallContext {
        request: request.id,
        caller: request.caller.clone(),
        sender: Some(CallSender {
            key: accepted.verified.caller.key,
            role: accepted.verified.caller.role,
            rights: accepted.verified.caller.rights(),
            collective: request.collective.clone(),
            token_issued_at: accepted.verified.caller.issued_at,
            token_expires: accepted.verified.caller.expires,
        }),
        agent: request.agent.clone(),
        action: request.action.clone(),
        trace: request.traceparent,
        deadline: Instant::now() + accepted.timeout,
        cancel: accepted.running_guard.cancel_token().clone(),
        withdrawn: accepted.running_guard.withdrawn_token().clone(),
        system: Arc::clone(&core.node.system),
        node,
        progress,
        reply_wanted: request.reply,
    };
    ActionCall { context, input: accepted.input.clone() }
}

async fn sync_seen_journal(
    core: &Arc<DaemonCore>,
    journaled: bool,
) -> Result<(), JournalSyncError> {
    if !journaled {
        return Err(JournalSyncError::NotWritten);
    }
    let (seen, begun) = (Arc::clone(core), Arc::clone(core));
    // Both at once: a journaling file system then commits both files together.
    let seen = tokio::task::spawn_blocking(move || seen.journals.seen.sync());
    let begun = tokio::task::spawn_blocking(move || begun.journals.begun.sync());
    let (seen, begun) = tokio::join!(seen, begun);
    begun?;
    Ok(seen??)
}
