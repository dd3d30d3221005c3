//! Describes the state of a node for replies. Pure.

use muster_api::wire::Millis;
use muster_contract::again::{
    AgainHistoryRow, AgainListOutput, AgainReasonRow, AgainRequestOutput,
};
use uuid::Uuid;

use crate::again::plan::delay::next_allowed_start;
use crate::again::plan::event::CausingRun;
use crate::again::plan::next::NextStep;
use crate::again::plan::request::{AgainReason, PendingRun};
use crate::again::plan::state::{AgainState, HistoryEnd, HistoryEntry};
use crate::again::policy::AgainPolicy;

/// The state as the outputs of `list`.
pub(crate) fn describe_state(
    state: &AgainState,
    policy: &AgainPolicy,
    now: Millis,
    waiting: Option<&str>,
) -> AgainListOutput {
    let mut output = AgainListOutput {
        oscillating: state.oscillating.is_some(),
        recent: u64::try_from(state.starts.len()).unwrap_or_default(),
        ..AgainListOutput::default()
    };
    if let Some(running) = &state.running {
        fill_pending(&mut output, &running.pending);
        output.run = Some(running.run.to_string());
    } else if let Some(pending) = &state.pending {
        fill_pending(&mut output, pending);
    }
    let (name, text) = state_text(state, policy, now, waiting);
    (output.state, output.text) = (name.into(), text.into());
    output
}

/// The name of the state, and a sentence.
fn state_text(
    state: &AgainState,
    policy: &AgainPolicy,
    now: Millis,
    waiting: Option<&str>,
) -> (&'static str, String) {
    let in_seconds = |time: Millis| time.saturating_sub(now).div_ceil(1000);
    match state.next_step(policy, now) {
        NextStep::Idle if state.oscillating.is_some() => (
            "none",
            "successive runs make the same changes; `rpc again reset` permits further runs"
                .to_owned(),
        ),
        NextStep::Idle => ("none", "no run was asked for".to_owned()),
        NextStep::AwaitRun(run) => ("running", format!("run {run} was begun")),
        NextStep::AwaitRunEnd => ("pending", "the run that asked has not ended".to_owned()),
        NextStep::AwaitNodes { until } => ("pending", nodes_text(state, in_seconds(until))),
        NextStep::ExpireBarriers => ("pending", "a condition on other nodes timed out".to_owned()),
        NextStep::Wait { until, is_limited: false } => {
            ("pending", format!("due in {} s", in_seconds(until)))
        }
        NextStep::Wait { is_limited: true, .. } => {
            let allowed = next_allowed_start(&state.starts, &policy.limits);
            let seconds = in_seconds(allowed);
            ("limited", format!("the limits of the node permit the next run in {seconds} s"))
        }
        NextStep::Start => {
            let reason = waiting.unwrap_or("it begins now");
            ("due", reason.to_owned())
        }
        NextStep::Suppress(reason) => ("due", format!("it does not begin: {}", reason.as_str())),
    }
}

/// What a run waits for that has conditions.
fn nodes_text(state: &AgainState, seconds: u64) -> String {
    let pending = state.pending.as_ref();
    let mut open = pending.into_iter().flat_map(PendingRun::open_barriers);
    let query = open.next().map(|barrier| barrier.condition.query.as_str()).unwrap_or_default();
    let more = match open.count() {
        0 => String::new(),
        more => format!(" (and {more} more conditions)"),
    };
    format!("waits at most {seconds} s until the nodes of `{query}` have run{more}")
}

fn fill_pending(output: &mut AgainListOutput, pending: &PendingRun) {
    output.id = Some(pending.id.to_string());
    (output.cause_run, output.cause_transaction) =
        describe_cause(pending.cause.clone().unwrap_or_default());
    output.since = Some(pending.since);
    output.due = pending.due;
    output.deadline = Some(pending.deadline);
    output.requests = pending.requests;
    output.reasons = describe_reasons(&pending.reasons);
}

fn describe_cause(cause: CausingRun) -> (Option<String>, Option<String>) {
    (cause.run.map(|run| run.to_string()), cause.transaction)
}

fn describe_reasons(reasons: &[AgainReason]) -> Vec<AgainReasonRow> {
    let row = |AgainReason { requester, reason, requests }: &AgainReason| AgainReasonRow {
        requester: requester.as_str().into(),
        reason: reason.as_str().into(),
        requests: *requests,
    };
    reasons.iter().map(row).collect()
}

/// The outputs of `request`, for the request with this id.
pub(crate) fn describe_request(
    state: &AgainState,
    policy: &AgainPolicy,
    now: Millis,
    waiting: Option<&str>,
    request: Uuid,
) -> AgainRequestOutput {
    let described = describe_state(state, policy, now, waiting);
    let ended = state.history.iter().rev().find(|entry| entry.id == request);
    if ended.is_some() || state.pending.is_none() && state.running.is_none() {
        let ended = ended.or(state.history.back()).map(describe_entry);
        let detail = ended.map(|row| row.detail).unwrap_or_default();
        let text = match detail.raw() {
            "noop" => "would run again".to_owned(),
            detail => format!("no run begins: {detail}"),
        };
        return AgainRequestOutput {
            state: "suppressed".into(),
            text: text.into(),
            ..AgainRequestOutput::default()
        };
    }
    let id = state.pending.as_ref().map(|pending| pending.id);
    let merged = id != Some(request);
    AgainRequestOutput {
        state: described.state,
        text: described.text,
        id: id.map(|id| id.to_string()),
        merged,
        changed: !merged,
    }
}

pub(crate) fn describe_entry(entry: &HistoryEntry) -> AgainHistoryRow {
    let (end, detail, by) = match &entry.end {
        HistoryEnd::Ran { outcome } => ("ran", outcome.as_str(), None),
        HistoryEnd::Suppressed { reason, by } => ("suppressed", reason.as_str(), by.as_deref()),
    };
    let (cause_run, cause_transaction) = describe_cause(entry.cause.clone());
    AgainHistoryRow {
        id: entry.id.to_string(),
        end: end.into(),
        detail: detail.into(),
        by: by.map(Into::into),
        run: entry.run.map(|run| run.to_string()),
        cause_run,
        cause_transaction,
        since: entry.since,
        at: entry.at,
        requests: entry.requests,
        barrier: entry.barrier.as_deref().map(Into::into),
        reasons: describe_reasons(&entry.reasons),
    }
}
