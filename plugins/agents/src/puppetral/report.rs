//! Replies about changes: what changed, what failed, and what an undo did not restore.

use muster_api::ActionError;
use muster_engine::apply::ApplyOutcome;
use muster_engine::event::{ChangeEvent, ChangeEventStatus};
use muster_engine::undo::RestoreConflict;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::puppetral::engines::from_engine_error;

/// Maximum number of events in a reply. A `tidy` can remove more files than a message can list.
const MAX_EVENTS: usize = 500;
/// Maximum number of events in the sentence of a reply.
const MAX_SUMMARISED: usize = 10;

/// How it went.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ChangeReport {
    /// Whether anything changed; in a plan, whether anything would, or could where the resource was not evaluated.
    pub(crate) changed: bool,
    pub(crate) result: String,
    #[schemars(with = "Vec<Value>")]
    pub(crate) events: Vec<ChangeEvent>,
    pub(crate) resource: String,
    pub(crate) log: Vec<String>,
}

/// How it went, for callers that may change the node and so may see the content of files.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
pub(crate) struct AppliedChange {
    #[serde(flatten)]
    pub(crate) report: ChangeReport,
    /// The unified diff of the content of a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) diff: Option<String>,
}

/// The outcome of a request.
pub(crate) struct ChangeOutcome {
    pub(crate) outcome: ApplyOutcome,
    /// What an undo did not restore, and why.
    pub(crate) unrestored: Vec<String>,
}

/// The reply, or the error with the same output.
pub(crate) fn build_report(change: ChangeOutcome) -> Result<AppliedChange, ActionError> {
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
    let report = ChangeReport { changed, result, events, resource, log };
    let Some(failure) = failure else {
        return Ok(AppliedChange { report, diff });
    };
    let failed = ActionError::failed(format!("{}: {failure}", report.resource));
    Err(failed.with_output(&AppliedChange { report, diff }))
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
    let report =
        ChangeReport { result: "nothing was undone".to_owned(), ..ChangeReport::default() };
    let diff = (!diffs.is_empty()).then(|| diffs.join("\n"));
    ActionError::failed(problem).with_output(&AppliedChange { report, diff })
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
