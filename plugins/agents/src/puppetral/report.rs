//! Replies about changes: what changed, what failed, and what an undo did not restore.

use std::time::SystemTime;

use muster_api::{ActionError, CallContext};
use muster_contract::puppetral::{PropertyChangeRow, PuppetralDoOutput};
use muster_contract::write_values;
use muster_engine::apply::ApplyOutcome;
use muster_engine::event::{ChangeEvent, ChangeEventStatus};
use muster_engine::report::{ResourceEvent, ResourceStatus, format_timestamp};
use muster_engine::undo::RestoreConflict;
use muster_wire::history::HistoryEvent;
use serde::Serialize;
use serde_json::{Value, json};

use crate::engine_error::from_engine_error;

/// Maximum number of events in a reply. A `tidy` can remove more files than a message can list.
const MAX_EVENTS: usize = 500;
/// Maximum number of events in the sentence of a reply.
const MAX_SUMMARISED: usize = 10;

/// The outcome of a request.
pub(crate) struct ChangeOutcome {
    pub(crate) outcome: ApplyOutcome,
    /// What an undo did not restore, and why.
    pub(crate) unrestored: Vec<String>,
}

/// The reply, or the error with the same output.
pub(crate) fn build_report(change: ChangeOutcome) -> Result<PuppetralDoOutput, ActionError> {
    let ChangeOutcome { outcome, unrestored } = change;
    let ApplyOutcome { resource, mut events, diff, mut log, not_evaluated, error } = outcome;
    let not_evaluated = not_evaluated.map(|reason| format!("not evaluated: {reason}"));
    let failed_event = events.iter().find(|event| event.status == ChangeEventStatus::Failure);
    let failure = match (failed_event, error) {
        (None, None) => None,
        (None, Some(error)) if error.is_invalid() => return Err(from_engine_error(error)),
        (None, Some(error)) => Some(error.reason()),
        (Some(event), _) => Some(describe_event(&resource, event)),
    };
    let changed = not_evaluated.is_some()
        || events.iter().any(|event| event.status != ChangeEventStatus::Failure);
    let unrestored = match unrestored.as_slice() {
        [] => None,
        lines => Some(format!("not restored: {}", limit_sentences(lines))),
    };
    log.extend(unrestored.clone());
    let summary = || summarise_events(&resource, &events);
    let failure = match (failure, unrestored) {
        (Some(failure), Some(unrestored)) => Some(format!("{failure}; {unrestored}")),
        (Some(failure), None) => Some(failure),
        (None, Some(unrestored)) if events.is_empty() => Some(unrestored),
        (None, Some(unrestored)) => Some(format!("{}; {unrestored}", summary())),
        (None, None) => None,
    };
    let result = failure.clone().or(not_evaluated).unwrap_or_else(summary);
    if events.len() > MAX_EVENTS {
        log.push(format!("{} further changes are not listed", events.len() - MAX_EVENTS));
        // Failures are listed first.
        events.sort_by_key(|event| event.status != ChangeEventStatus::Failure);
        events.truncate(MAX_EVENTS);
    }
    let events = events.into_iter().map(build_row).collect();
    let output = PuppetralDoOutput { changed, result, events, resource, diff, log };
    let Some(failure) = failure else { return Ok(output) };
    let failed = ActionError::failed(format!("{}: {failure}", output.resource));
    Err(failed.with_output(&output))
}

/// Records in the fleet's history what a request changed, as a run would.
pub(crate) fn record_changes(cx: &CallContext, outcome: &ApplyOutcome) {
    for change in outcome.events.iter().take(MAX_EVENTS) {
        let mut status =
            ResourceStatus { resource: change.resource.clone(), ..ResourceStatus::default() };
        let event = ResourceEvent {
            audited: false,
            property: Some(change.property.clone()),
            previous_value: json!(change.previous_value),
            desired_value: json!(change.desired_value),
            historical_value: Value::Null,
            message: change.message.clone(),
            name: format!("{}_changed", change.property),
            status: status_name(change.status),
            time: format_timestamp(SystemTime::now()),
            redacted: None,
            corrective_change: false,
        };
        status.add_event(event);
        let status = write_values(&status);
        cx.node.history().record(HistoryEvent::Resource { run: cx.request, status });
    }
}

/// The refusal of an undo that would overwrite later changes.
pub(crate) fn conflict_error(conflicts: Vec<RestoreConflict>) -> ActionError {
    let diffs: Vec<String> =
        conflicts.iter().filter_map(|conflict| conflict.diff.clone()).collect();
    let descriptions: Vec<String> =
        conflicts.into_iter().map(|conflict| conflict.description).collect();
    let problem = format!(
        "changed after the change that is to be undone: {}; nothing was undone; use `force=true` (`rpc job undo --force`) to undo it and lose these changes",
        limit_sentences(&descriptions)
    );
    // The message has the reason.
    let output = PuppetralDoOutput {
        result: "nothing was undone".to_owned(),
        diff: (!diffs.is_empty()).then(|| diffs.join("\n")),
        ..PuppetralDoOutput::default()
    };
    ActionError::failed(problem).with_output(&output)
}

fn build_row(event: ChangeEvent) -> PropertyChangeRow {
    let ChangeEvent { resource, property, previous_value, desired_value, status, message } = event;
    PropertyChangeRow {
        resource,
        property,
        previous_value: to_json(&previous_value),
        desired_value: to_json(&desired_value),
        status: status_name(status).to_owned(),
        message,
    }
}

fn status_name(status: ChangeEventStatus) -> &'static str {
    match status {
        ChangeEventStatus::Success => "success",
        ChangeEventStatus::Failure => "failure",
        ChangeEventStatus::Noop => "noop",
    }
}

fn to_json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

/// The events as one sentence.
fn summarise_events(resource: &str, events: &[ChangeEvent]) -> String {
    if events.is_empty() {
        return "no changes".to_owned();
    }
    let messages: Vec<String> =
        events.iter().map(|event| describe_event(resource, event)).collect();
    limit_sentences(&messages)
}

/// The message of an event; with its resource if that is not the requested one.
fn describe_event(requested: &str, event: &ChangeEvent) -> String {
    let message = match event.status {
        ChangeEventStatus::Noop => format!("{}: {}", event.property, event.message),
        ChangeEventStatus::Success | ChangeEventStatus::Failure => event.message.clone(),
    };
    if event.resource == requested { message } else { format!("{}: {message}", event.resource) }
}

fn limit_sentences(sentences: &[String]) -> String {
    let shown = sentences.iter().take(MAX_SUMMARISED).cloned().collect::<Vec<_>>().join("; ");
    match sentences.len().saturating_sub(MAX_SUMMARISED) {
        0 => shown,
        more => format!("{shown}; and {more} more"),
    }
}
