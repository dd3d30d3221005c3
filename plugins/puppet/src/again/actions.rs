//! The actions: ask for a run, cancel it, clear limits, list, history. What they change is on disk when they reply.

use muster_api::base::unix_millis_now;
use muster_api::{ActionError, BlockingContext, EmptyInput};
use muster_contract::again::{
    AgainCancelInput, AgainChangeOutput, AgainHistoryInput, AgainHistoryOutput, AgainListOutput,
    AgainRequestInput, AgainRequestOutput, AgainResetInput,
};
use uuid::Uuid;

use crate::again::accept::is_cancellable;
use crate::again::barrier::describe_barriers;
use crate::again::describe::{describe_entry, describe_request, describe_state};
use crate::again::monitor::{AgainMonitor, JournalError};
use crate::again::plan::event::AgainEvent;
use crate::again::plan::request::AgainRequest;
use crate::again::plan::state::AgainState;

/// Entries of a history, if the caller does not say.
const DEFAULT_HISTORY: u64 = 20;

pub(crate) fn request_run(
    monitor: &AgainMonitor,
    cx: &BlockingContext,
    input: AgainRequestInput,
) -> Result<AgainRequestOutput, ActionError> {
    let inner = &monitor.0;
    let (id, now) = (Uuid::now_v7(), unix_millis_now());
    let millis = |seconds: u64| seconds.saturating_mul(1000);
    if let (Some(min), Some(max)) = (input.min_delay, input.max_delay)
        && min > max
    {
        let problem = format!("min_delay {min} is greater than max_delay {max}");
        return Err(ActionError::invalid_input(problem));
    }
    let request = AgainRequest {
        id,
        requester: cx.caller.to_string(),
        reason: input.reason,
        min_delay: input.min_delay.map(millis).unwrap_or_default(),
        max_delay: input.max_delay.map(millis),
        group: input.group,
        not_before: input.not_before.map(millis),
        deadline: input.deadline.map(|seconds| now.saturating_add(millis(seconds))),
        // A caller is no part of a run, so there is no end of a run to wait for.
        start_timer_now: true,
        noop: input.noop == Some(true),
        requested_at: now,
        process: None,
        when: None,
    };
    inner.accept_request(request, None).map_err(journal_error)?;
    inner.wake.notify_one();
    let waiting = inner.waiting();
    let describe = |state: &AgainState| {
        describe_request(state, &inner.policy, inner.now(), waiting.as_deref(), id)
    };
    inner.with_state(describe).ok_or_else(not_open)
}

pub(crate) fn cancel_run(
    monitor: &AgainMonitor,
    cx: &BlockingContext,
    input: AgainCancelInput,
) -> Result<AgainChangeOutput, ActionError> {
    let inner = &monitor.0;
    let AgainCancelInput { group, noop } = input;
    let (group, is_noop) = (group.as_deref(), noop == Some(true));
    let changed = if is_noop {
        inner.with_state(|state| is_cancellable(state, group)).ok_or_else(not_open)?
    } else {
        let cancelled = inner.cancel_pending(group, cx.caller.as_str());
        inner.wake.notify_one();
        cancelled.map_err(journal_error)?
    };
    let text = match (changed, is_noop) {
        (false, _) => "no run is pending",
        (true, true) => "the pending run would be cancelled",
        (true, false) => "the pending run is cancelled",
    };
    Ok(AgainChangeOutput { changed, text: text.to_owned() })
}

pub(crate) fn reset_limits(
    monitor: &AgainMonitor,
    cx: &BlockingContext,
    AgainResetInput { noop }: AgainResetInput,
) -> Result<AgainChangeOutput, ActionError> {
    let inner = &monitor.0;
    let is_limited = |state: &AgainState| state.oscillating.is_some() || !state.starts.is_empty();
    let changed = inner.with_state(is_limited).ok_or_else(not_open)?;
    let is_noop = noop == Some(true);
    if changed && !is_noop {
        let (at, by) = (inner.now(), cx.caller.to_string());
        inner.record(&AgainEvent::Reset { at, by }).map_err(journal_error)?;
        inner.wake.notify_one();
    }
    let text = match (changed, is_noop) {
        (false, _) => "no limit applies",
        (true, true) => "limits and the state `oscillating` would be cleared",
        (true, false) => "limits and the state `oscillating` are cleared",
    };
    Ok(AgainChangeOutput { changed, text: text.to_owned() })
}

pub(crate) fn list_pending(
    monitor: &AgainMonitor,
    _: &BlockingContext,
    _: EmptyInput,
) -> Result<AgainListOutput, ActionError> {
    let inner = &monitor.0;
    let waiting = inner.waiting();
    let describe = |state: &AgainState| {
        let mut output = describe_state(state, &inner.policy, inner.now(), waiting.as_deref());
        if let Some(pending) = &state.pending {
            output.barriers = describe_barriers(pending, &inner.missing);
        }
        output
    };
    inner.with_state(describe).ok_or_else(not_open)
}

pub(crate) fn list_history(
    monitor: &AgainMonitor,
    _: &BlockingContext,
    AgainHistoryInput { count }: AgainHistoryInput,
) -> Result<AgainHistoryOutput, ActionError> {
    let count = usize::try_from(count.unwrap_or(DEFAULT_HISTORY)).unwrap_or(usize::MAX);
    let describe = |state: &AgainState| AgainHistoryOutput {
        entries: state.history.iter().rev().take(count).map(describe_entry).collect(),
    };
    monitor.0.with_state(describe).ok_or_else(not_open)
}

pub(crate) fn not_open() -> ActionError {
    journal_error(JournalError::NotOpen)
}

pub(crate) fn journal_error(error: JournalError) -> ActionError {
    ActionError::from_cause(error)
}
