//! The actions by which the directory reports about conditions on other nodes. What a release changes is on disk when it replies.

use muster_api::wire::token::ServiceRight;
use muster_api::{ActionError, BlockingContext};
use muster_contract::again::{
    AgainChangeOutput, AgainMissingInput, AgainReleaseInput, MAX_MISSING_NAMES,
};
use uuid::Uuid;

use crate::again::actions::{journal_error, not_open};
use crate::again::monitor::{AgainMonitor, MonitorInner};
use crate::again::plan::barrier::BarrierEnd;
use crate::again::plan::event::AgainEvent;

/// The action `release`.
pub(crate) fn release_barrier(
    monitor: &AgainMonitor,
    cx: &BlockingContext,
    AgainReleaseInput { id }: AgainReleaseInput,
) -> Result<AgainChangeOutput, ActionError> {
    check_service(cx)?;
    let id = parse_id(&id)?;
    let inner = &monitor.0;
    let changed = awaits_release(inner, id)?;
    if changed {
        let (at, ids, end) = (inner.now(), vec![id], BarrierEnd::Released);
        inner.record(&AgainEvent::BarriersEnded { at, ids, end }).map_err(journal_error)?;
        inner.wake.notify_one();
    }
    Ok(change_output(changed, "the condition holds; the run no longer waits for it"))
}

pub(crate) fn note_missing(
    monitor: &AgainMonitor,
    cx: &BlockingContext,
    input: AgainMissingInput,
) -> Result<AgainChangeOutput, ActionError> {
    check_service(cx)?;
    let id = parse_id(&input.id)?;
    if input.nodes.len() > MAX_MISSING_NAMES {
        let problem = format!("nodes: at most {MAX_MISSING_NAMES}");
        return Err(ActionError::invalid_input(problem));
    }
    let inner = &monitor.0;
    let changed = awaits_release(inner, id)?;
    if changed {
        let open = inner.with_state(|state| {
            let pending = state.pending.as_ref();
            pending.map(|pending| pending.open_barriers().map(|barrier| barrier.id).collect())
        });
        let open: Vec<Uuid> = open.flatten().unwrap_or_default();
        inner.missing.note(id, input.count, input.nodes, &open);
    }
    Ok(change_output(changed, "`list` shows the nodes that the run waits for"))
}

fn change_output(changed: bool, text: &str) -> AgainChangeOutput {
    let text = if changed { text } else { "no run waits for this condition" };
    AgainChangeOutput { changed, text: text.to_owned() }
}

fn awaits_release(inner: &MonitorInner, id: Uuid) -> Result<bool, ActionError> {
    let awaits = inner.with_state(|state| {
        state.pending.as_ref().is_some_and(|pending| pending.awaits_release(id))
    });
    awaits.ok_or_else(not_open)
}

/// Refuses all but directories, which know all nodes. The policy decides which of them.
fn check_service(cx: &BlockingContext) -> Result<(), ActionError> {
    match &cx.sender {
        Some(sender) if sender.rights.contains(&ServiceRight::Directory) => Ok(()),
        _ => Err(ActionError::failed(format!(
            "`{}` is no directory: only the directory reports conditions on other nodes; `rpc again cancel` cancels the run",
            cx.caller
        ))),
    }
}

fn parse_id(text: &str) -> Result<Uuid, ActionError> {
    Uuid::try_parse(text)
        .map_err(|error| ActionError::invalid_input(format!("id: {text:?}: {error}")))
}
