//! The actions for scheduled checks: list, run now, acknowledge, maintenance.

use std::time::Duration;

use muster_api::wire::Millis;
use muster_api::{ActionError, CallContext};
use muster_contract::nrpe::{
    AcknowledgeInput, CheckAcknowledgement, CheckChangeOutput, CheckNameInput, MaintenanceInput,
    MaintenanceWindow, ScheduledCheckRow, ScheduledChecksInput, ScheduledChecksOutput,
};

use super::monitor::CheckMonitor;
use super::monitor_state::MonitorState;

/// Longest acknowledgement or maintenance.
const MAX_SECONDS: u64 = 366 * 24 * 60 * 60;
/// Most bytes of the rows in a reply: longer outputs are left out.
const MAX_ROWS_BYTES: usize = 256 * 1024;
/// How often is looked whether a triggered check has ended.
const TRIGGER_POLL: Duration = Duration::from_millis(50);

pub(crate) async fn list_checks(
    monitor: CheckMonitor,
    _: CallContext,
    input: ScheduledChecksInput,
) -> Result<ScheduledChecksOutput, ActionError> {
    let mut checks = monitor.rows();
    if let Some(name) = &input.check {
        checks.retain(|row| row.check == *name);
        if checks.is_empty() {
            return Err(unknown_check(name));
        }
    }
    bound_rows(&mut checks);
    let problems = monitor.problems().borrow().clone();
    Ok(ScheduledChecksOutput { checks, problems })
}

/// Runs a check now, and returns it with the result.
pub(crate) async fn trigger_check(
    monitor: CheckMonitor,
    cx: CallContext,
    input: CheckNameInput,
) -> Result<CheckChangeOutput, ActionError> {
    let started = {
        let mut state = monitor.lock();
        find_check(&state, &input.check)?;
        state.triggered.insert(input.check.clone());
        state.run_count(&input.check)
    };
    monitor.wake();
    loop {
        if monitor.lock().run_count(&input.check) != started {
            return Ok(change_output(&monitor, Some(&input.check)));
        }
        tokio::select! {
            () = tokio::time::sleep(TRIGGER_POLL) => {}
            () = cx.cancel.cancelled() => return Err(ActionError::cancelled()),
        }
        if cx.time_left().is_zero() {
            let message = format!("{} has not ended yet; its result will be recorded", input.check);
            return Err(ActionError::failed(message));
        }
    }
}

pub(crate) async fn acknowledge_check(
    monitor: CheckMonitor,
    cx: CallContext,
    input: AcknowledgeInput,
) -> Result<CheckChangeOutput, ActionError> {
    let AcknowledgeInput { check, comment, seconds } = input;
    let end = seconds.map(check_seconds).transpose()?;
    let author = cx.caller.to_string();
    monitor
        .change(|state, now| {
            find_check(state, &check)?;
            let until = end.map(|millis| now.saturating_add(millis));
            let acknowledgement = CheckAcknowledgement { author, comment, time: now, until };
            let is_problem = state.book.change(&check, now, |record, _| {
                Vec::from_iter(record.acknowledge(acknowledgement))
            });
            require(is_problem, || format!("{check} has no problem to acknowledge"))
        })
        .await?;
    Ok(change_output(&monitor, Some(&check)))
}

pub(crate) async fn unacknowledge_check(
    monitor: CheckMonitor,
    cx: CallContext,
    input: CheckNameInput,
) -> Result<CheckChangeOutput, ActionError> {
    let (check, author) = (input.check, cx.caller.to_string());
    monitor
        .change(|state, now| {
            find_check(state, &check)?;
            let was_acknowledged = state.book.change(&check, now, |record, _| {
                Vec::from_iter(record.unacknowledge(Some(author)))
            });
            require(was_acknowledged, || format!("{check} is not acknowledged"))
        })
        .await?;
    Ok(change_output(&monitor, Some(&check)))
}

/// Begins a maintenance of a check or of the node, or changes its end.
pub(crate) async fn begin_maintenance(
    monitor: CheckMonitor,
    cx: CallContext,
    input: MaintenanceInput,
) -> Result<CheckChangeOutput, ActionError> {
    let length = check_seconds(input.seconds)?;
    let (check, comment) = (input.check, input.comment.unwrap_or_default());
    let author = cx.caller.to_string();
    monitor
        .change(|state, now| {
            let until = now.saturating_add(length);
            let window = MaintenanceWindow { author, comment, time: now, until };
            let Some(check) = &check else {
                state.book.begin_maintenance(window, now);
                return Ok(());
            };
            find_check(state, check)?;
            state.book.change(check, now, |record, _| vec![record.begin_maintenance(window)]);
            Ok::<_, ActionError>(())
        })
        .await?;
    Ok(change_output(&monitor, check.as_deref()))
}

/// Ends a maintenance of a check or of the node.
pub(crate) async fn end_maintenance(
    monitor: CheckMonitor,
    cx: CallContext,
    input: ScheduledChecksInput,
) -> Result<CheckChangeOutput, ActionError> {
    let (check, author) = (input.check, Some(cx.caller.to_string()));
    monitor
        .change(|state, now| {
            let Some(check) = &check else {
                let has_ended = state.book.end_maintenance(author, now);
                return require(has_ended, || "the node is not in maintenance".to_owned());
            };
            find_check(state, check)?;
            let has_ended = state
                .book
                .change(check, now, |record, quiet| record.end_maintenance(author, now, quiet));
            require(has_ended, || format!("{check} is not in maintenance"))
        })
        .await?;
    Ok(change_output(&monitor, check.as_deref()))
}

impl MonitorState {
    /// Changes with each run of the check that has ended.
    fn run_count(&self, check: &str) -> Option<Millis> {
        self.book.records.get(check).and_then(|record| record.last_check)
    }
}

/// The checks that were changed: one, or all.
fn change_output(monitor: &CheckMonitor, check: Option<&str>) -> CheckChangeOutput {
    let mut checks = monitor.rows();
    checks.retain(|row| check.is_none_or(|check| row.check == check));
    bound_rows(&mut checks);
    CheckChangeOutput { checks }
}

fn bound_rows(rows: &mut [ScheduledCheckRow]) {
    let limit = MAX_ROWS_BYTES / rows.len().max(1);
    for row in rows {
        for text in [&mut row.output, &mut row.perfdata, &mut row.notes] {
            let end = text.floor_char_boundary(limit / 4);
            text.truncate(end);
        }
    }
}

fn require(is_met: bool, problem: impl FnOnce() -> String) -> Result<(), ActionError> {
    if is_met { Ok(()) } else { Err(ActionError::failed(problem())) }
}

fn find_check(state: &MonitorState, check: &str) -> Result<(), ActionError> {
    if state.active.contains(check) { Ok(()) } else { Err(unknown_check(check)) }
}

fn unknown_check(check: &str) -> ActionError {
    ActionError::failed(format!("this node has no scheduled check {check}"))
}

fn check_seconds(seconds: u64) -> Result<Millis, ActionError> {
    if !(1..=MAX_SECONDS).contains(&seconds) {
        let message = format!("seconds is {seconds}: use 1 to {MAX_SECONDS}");
        return Err(ActionError::invalid_input(message));
    }
    Ok(seconds * 1000)
}
