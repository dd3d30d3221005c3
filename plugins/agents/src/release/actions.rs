//! `promote`, `plan`, `apply`, `status` and `held`.

use std::sync::Arc;

use muster_api::wire::token::UserRole;
use muster_api::{ActionError, BlockingContext, CallContext, EmptyInput};
use muster_contract::catalog::CatalogRunOutcome;
use muster_contract::release::{
    ReleaseApplyInput, ReleaseHeldInput, ReleaseHeldOutput, ReleaseHeldRow, ReleasePlanInput,
    ReleasePromoteInput, ReleaseRunOutcome, ReleaseStatusOutput,
};
use muster_wire::catalog::release::{ApplyTimes, Release, ReleasedEntry};

use super::error::ReleaseError;
use super::follow::{Promoted, ReleaseFollower};
use super::parts::ReleaseMachine;
use super::run::{EventSink, ReleaseRun};
use crate::catalog::runs::{RunMode, cause_of_call, report_event};

/// Takes a release, and applies its catalog unless the caller says otherwise.
pub(super) async fn promote(
    follower: ReleaseFollower,
    cx: CallContext,
    input: ReleasePromoteInput,
) -> Result<ReleaseRunOutcome, ActionError> {
    let entry = ReleasedEntry { promotion: input.promotion, release: input.release };
    let (_, trust) = follower.link()?;
    let opened = trust.open_promotion(&entry).map_err(ReleaseError::Refused)?;
    // The policy has decided about the caller of this request, so it must be the promoter.
    let is_caller = cx.sender.as_ref().is_some_and(|sender| sender.role == UserRole::Caller);
    if opened.promotion.author != cx.caller || !is_caller {
        let (author, caller) = (&opened.promotion.author, &cx.caller);
        let text = format!(
            "{author} signed the promotion, and {caller} sent it; both must be the same user"
        );
        return Err(ActionError::denied_by_rule(text, "the promoter sends the promotion"));
    }
    let machine = machine_of(&cx);
    let promoted = follower.promote(&machine, &opened, &entry).await?;
    let name = opened.release.name.to_string();
    match promoted {
        Promoted::Absent => Ok(without_run("absent", name, None)),
        Promoted::Catalog(catalog) if input.apply == Some(false) => {
            Ok(without_run("promoted", name, Some(catalog.to_string())))
        }
        Promoted::Catalog(_) => {
            let cancel = cx.cancel.child_token();
            let _over = cancel.clone().drop_guard();
            let run = follower.apply(&machine, RunMode::Apply, &cancel, event_sink(&cx)).await?;
            report_run(run)
        }
    }
}

pub(super) async fn plan(
    follower: ReleaseFollower,
    cx: CallContext,
    input: ReleasePlanInput,
) -> Result<ReleaseRunOutcome, ActionError> {
    let release = Release::read_unverified(&input.release).map_err(ReleaseError::Refused)?;
    let name = release.name.to_string();
    let (machine, cancel) = (machine_of(&cx), cx.cancel.child_token());
    let _over = cancel.clone().drop_guard();
    let run = follower.plan(&machine, release, &input.release, &cancel, event_sink(&cx)).await?;
    run.map_or_else(|| Ok(without_run("absent", name, None)), report_run)
}

pub(super) async fn apply(
    follower: ReleaseFollower,
    cx: CallContext,
    input: ReleaseApplyInput,
) -> Result<ReleaseRunOutcome, ActionError> {
    let mode = if input.noop == Some(true) { RunMode::Noop } else { RunMode::Apply };
    let cancel = cx.cancel.child_token();
    let _over = cancel.clone().drop_guard();
    report_run(follower.apply(&machine_of(&cx), mode, &cancel, event_sink(&cx)).await?)
}

pub(super) fn status(
    follower: &ReleaseFollower,
    _: &BlockingContext,
    _: EmptyInput,
) -> Result<ReleaseStatusOutput, ActionError> {
    let state = follower.read_state()?;
    let mut output = ReleaseStatusOutput {
        problem: follower.problem().map(Into::into),
        ..ReleaseStatusOutput::default()
    };
    if let Some(held) = state.current() {
        let (promotion, release) = held.read().map_err(ReleaseError::Refused)?;
        output.release = Some(release.name.to_string());
        output.environment = Some(release.environment.into());
        output.code = Some(release.code.into());
        output.catalog = Some(held.catalog.to_string());
        output.promoted_by = Some(promotion.author.to_string());
        output.promoted_at = Some(promotion.issued_at);
        output.applies = Some(describe_times(promotion.apply.as_ref()).into());
    }
    if let Some(held) = state.previous() {
        let (_, release) = held.read().map_err(ReleaseError::Refused)?;
        output.previous = Some(release.name.to_string());
    }
    if let Some(run) = state.last_run {
        output.last_status = Some(run.status.into());
        output.last_noop = Some(run.noop);
        output.last_changed = Some(run.changed);
        output.last_run_at = Some(run.at);
    }
    Ok(output)
}

pub(super) fn held(
    follower: &ReleaseFollower,
    _: &BlockingContext,
    input: ReleaseHeldInput,
) -> Result<ReleaseHeldOutput, ActionError> {
    let (wanted, mut output) = (input.name, ReleaseHeldOutput::default());
    for held in follower.read_state()?.held {
        let (promotion, release) = held.read().map_err(ReleaseError::Refused)?;
        if wanted.as_deref() == Some(release.name.as_str()) {
            output.release = Some(held.entry.release);
        }
        output.releases.push(ReleaseHeldRow {
            name: release.name.to_string(),
            environment: release.environment.into(),
            code: release.code.into(),
            catalog: held.catalog.to_string(),
            promoted_by: promotion.author.to_string(),
            promoted_at: promotion.issued_at,
        });
    }
    Ok(output)
}

/// When the node applies its catalog by itself, as text.
fn describe_times(times: Option<&ApplyTimes>) -> String {
    match times {
        None => "never".to_owned(),
        Some(times) if times.windows.is_empty() => "always".to_owned(),
        Some(ApplyTimes { windows, time_zone }) => {
            format!("{} {}", windows.join(", "), time_zone.as_deref().unwrap_or("UTC"))
        }
    }
}

fn machine_of(cx: &CallContext) -> ReleaseMachine {
    let (system, node) = (Arc::clone(&cx.system), Arc::clone(&cx.node));
    ReleaseMachine { system, node, cause: cause_of_call(cx) }
}

fn event_sink(cx: &CallContext) -> EventSink {
    let cx = cx.clone();
    Box::new(move |event| report_event(&cx, event))
}

fn report_run(run: ReleaseRun) -> Result<ReleaseRunOutcome, ActionError> {
    let outcome = ReleaseRunOutcome {
        release: run.release.name.to_string(),
        catalog: Some(run.catalog.to_string()),
        noop: run.noop,
        run: run.outcome,
    };
    match run.failure {
        None => Ok(outcome),
        Some(failure) => Err(ActionError::failed(failure).with_output(&outcome)),
    }
}

fn without_run(status: &str, release: String, catalog: Option<String>) -> ReleaseRunOutcome {
    ReleaseRunOutcome {
        release,
        catalog,
        noop: false,
        run: CatalogRunOutcome { status: status.to_owned(), ..CatalogRunOutcome::default() },
    }
}
