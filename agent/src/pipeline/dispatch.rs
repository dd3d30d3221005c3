//! Stage 7: the action runs, within its limits, on this node's system.

use std::sync::Arc;
use std::time::Duration;

use muster_api::progress::Sink;
use muster_api::{Context, Node};
use muster_host::{Call, Outcome};
use muster_wire::status::{Reason, Status};
use muster_wire::trace::StageName;
use serde_json::Map;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Accepted;
use crate::core::Core;

/// Runs the action to an outcome, and says whether it began. What changes the node is first remembered on disk, so that it cannot run a second time even after
/// a crash.
pub(super) async fn run(
    core: &Arc<Core>,
    accepted: &mut Accepted,
    stopping: &CancellationToken,
    progress: Sink,
) -> (Outcome, bool) {
    if !accepted.read_only {
        let remembered = remember(core, accepted.asked.remembered).await;
        accepted.asked.watch.lap(StageName::Journal);
        if let Err(message) = remembered {
            accepted.asked.watch.refused();
            core.tallies.refused(StageName::Journal, "");
            let refused = Outcome {
                status: Status::Other,
                message,
                reason: None,
                data: Map::new(),
                queued: Duration::ZERO,
                took: Duration::ZERO,
            };
            return (refused, false);
        }
    }
    let registry = Arc::clone(&accepted.registry);
    let cancel = accepted.ticket.cancel().clone();
    let dispatched = registry.dispatch(call(core, accepted, progress));
    tokio::pin!(dispatched);
    let outcome = tokio::select! {
        outcome = &mut dispatched => outcome,
        () = stopping.cancelled() => {
            cancel.cancel();
            dispatched.await
        }
    };
    accepted.asked.watch.dispatched(&outcome);
    let began = !outcome.never_had_its_turn();
    if !began {
        core.tallies.refused(StageName::Queue, "busy");
    }
    if outcome.reason == Some(Reason::Cancelled) && stopping.is_cancelled() {
        let message = "the daemon stopped before the action was done".to_owned();
        let stopped = Outcome {
            message,
            reason: Some(Reason::Stopping),
            ..outcome
        };
        return (stopped, began);
    }
    (outcome, began)
}

/// Runs an action that answers from memory and changes nothing, here and now; nothing if it is another, or must wait for its turn.
pub(super) fn at_once(core: &Arc<Core>, accepted: &mut Accepted) -> Option<Outcome> {
    let request = &accepted.asked.request;
    let (agent, action) = (request.agent.as_str(), request.action.as_str());
    let fits = accepted.read_only && accepted.registry.answers_at_once(agent, action);
    if !fits {
        return None;
    }
    let call = call(core, accepted, Sink::default());
    let outcome = accepted.registry.answer_at_once(call).ok()?;
    accepted.asked.watch.dispatched(&outcome);
    Some(outcome)
}

/// The call, and all that its action may know.
fn call(core: &Arc<Core>, accepted: &Accepted, progress: Sink) -> Call {
    let request = &accepted.asked.request;
    let node: Arc<dyn Node> = Arc::clone(core) as _;
    let context = Context {
        request: request.id,
        caller: request.caller.clone(),
        agent: request.agent.clone(),
        action: request.action.clone(),
        trace: request.traceparent,
        deadline: Instant::now() + accepted.timeout,
        cancel: accepted.ticket.cancel().clone(),
        system: Arc::clone(&core.system),
        node,
        progress,
    };
    Call {
        context,
        input: accepted.input.clone(),
    }
}

async fn remember(core: &Arc<Core>, noted: bool) -> Result<(), String> {
    let refused = |why: &dyn std::fmt::Display| {
        format!("refused, because the node could not remember the request: {why}")
    };
    if !noted {
        return Err(refused(&"its journal of seen requests cannot be written"));
    }
    let keeper = Arc::clone(core);
    match tokio::task::spawn_blocking(move || keeper.seen.sync()).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(refused(&error)),
        Err(error) => Err(refused(&error)),
    }
}
