//! `request`: requests a restart when no run is in progress; replies at once, or after the outcome is known. `status`: the state of a restart.

use std::sync::Arc;
use std::time::Duration;

use muster_api::system::System;
use muster_api::{ActionError, BlockingContext, CallContext};
use muster_contract::restart::{
    RestartRequestInput, RestartRequestOutput, RestartStatusInput, RestartStatusOutput,
};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use crate::restart::cycle::{AcceptedRestart, RestartCycle, RestartOptions, RestartState};
use crate::restart::instance::DaemonInstance;
use crate::restart::manager::RestartManager;
use crate::restart::restart_methods::RestartFailure;
use crate::restart::target::RestartTarget;
use crate::restart::target_status::query_target;

/// Interval at which the outcome of a restart is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// The reply to a noop, which has no effect: `pending` is the restart that the request would share.
fn describe_plan(pending: Option<&RestartCycle>) -> RestartRequestOutput {
    let text = match pending {
        Some(cycle) => format!("would share the restart in progress ({})", cycle.text),
        None => "would be restarted".to_owned(),
    };
    RestartRequestOutput {
        state: "planned".to_owned(),
        text,
        id: pending.map(|cycle| cycle.id.to_string()).unwrap_or_default(),
        merged: pending.is_some(),
        changed: pending.is_none(),
        requests: pending.map_or(0, |cycle| cycle.requests),
        pid: None,
    }
}

fn describe_request(cycle: &RestartCycle, accepted: AcceptedRestart) -> RestartRequestOutput {
    RestartRequestOutput {
        state: cycle.state.as_str().to_owned(),
        text: cycle.text.clone(),
        id: accepted.id.to_string(),
        merged: accepted.merged,
        changed: !accepted.merged,
        requests: cycle.requests,
        pid: cycle.after.map(|process| process.pid),
    }
}

pub(crate) async fn request_restart(
    restarts: Arc<RestartManager>,
    cx: CallContext,
    input: RestartRequestInput,
) -> Result<RestartRequestOutput, ActionError> {
    let target = parse_unit(&input.unit)?;
    let should_wait = input.wait.unwrap_or(false);
    if should_wait && target.is_daemon() {
        return Err(ActionError::invalid_input(
            "rpcd cannot wait for its own restart; omit `wait`, and call `status` afterwards",
        ));
    }
    let defaults = RestartOptions::default();
    let options = RestartOptions {
        when_idle: input.when_idle.unwrap_or(defaults.when_idle),
        deadline: input.deadline.map_or(defaults.deadline, Duration::from_secs),
        force: input.force.unwrap_or(defaults.force),
        verify_bus: input.verify_bus.map(Duration::from_secs),
        pid_file: None,
    };
    if input.noop == Some(true) {
        return plan_restart(&restarts, &cx, target).await;
    }
    let (manager, requested) = (Arc::clone(&restarts), target.clone());
    let accepted = cx
        .run_blocking_in_context(move |cx| {
            check_known(&manager, &cx.system, &requested)?;
            manager.request_restart(&requested, &options).map_err(ActionError::from_cause)
        })
        .await?;
    if should_wait {
        return await_outcome(&restarts, &cx, target, accepted).await;
    }
    let cycle = find_cycle(&restarts, &cx, target, accepted.id).await?;
    Ok(describe_request(&cycle, accepted))
}

/// The reply to a noop: whether the service exists, and whether its restart is in progress.
async fn plan_restart(
    restarts: &Arc<RestartManager>,
    cx: &CallContext,
    target: RestartTarget,
) -> Result<RestartRequestOutput, ActionError> {
    let manager = Arc::clone(restarts);
    cx.run_blocking_in_context(move |cx| {
        check_known(&manager, &cx.system, &target)?;
        let cycle = manager.find_cycle(&target, None)?;
        let pending = cycle.filter(|cycle| !cycle.state.is_finished());
        Ok(describe_plan(pending.as_ref()))
    })
    .await
}

/// Waits for the outcome. The restart continues even if the caller stops waiting.
async fn await_outcome(
    restarts: &Arc<RestartManager>,
    cx: &CallContext,
    target: RestartTarget,
    accepted: AcceptedRestart,
) -> Result<RestartRequestOutput, ActionError> {
    let mut reported = None;
    loop {
        let cycle = find_cycle(restarts, cx, target.clone(), accepted.id).await?;
        if reported != Some((cycle.state, cycle.text.clone())) {
            cx.report_progress(format!("{}: {}", cycle.state.as_str(), cycle.text));
            reported = Some((cycle.state, cycle.text.clone()));
        }
        let output = describe_request(&cycle, accepted);
        if cycle.state == RestartState::Ok {
            return Ok(output);
        }
        if cycle.state.is_finished() {
            return Err(ActionError::failed(cycle.text).with_output(&output));
        }
        if Instant::now() >= cx.deadline {
            let problem =
                format!("the restart has not ended yet ({}); call `status` later", cycle.text);
            return Err(ActionError::failed(problem).with_output(&output));
        }
        tokio::select! {
            () = sleep(POLL_INTERVAL) => {}
            () = cx.cancel.cancelled() => return Err(ActionError::cancelled()),
        }
    }
}

async fn find_cycle(
    restarts: &Arc<RestartManager>,
    cx: &CallContext,
    target: RestartTarget,
    id: Uuid,
) -> Result<RestartCycle, ActionError> {
    let restarts = Arc::clone(restarts);
    let found = cx.run_blocking(move |_| restarts.find_cycle(&target, Some(id))).await??;
    found.ok_or_else(|| ActionError::failed("the record of the restart no longer exists"))
}

/// Fails if the machine has no such service, so that the caller gets the error at once. A daemon that runs is known.
fn check_known(
    restarts: &RestartManager,
    system: &Arc<dyn System>,
    target: &RestartTarget,
) -> Result<(), ActionError> {
    if target.is_daemon()
        && DaemonInstance::read_from(restarts.store()).is_ok_and(|found| found.is_some())
    {
        return Ok(());
    }
    let found = query_target(system, target, None)
        .map_err(|error| ActionError::failed(error.one_line_message()))?;
    match found.missing {
        None => Ok(()),
        Some(path) => Err(ActionError::from_cause(RestartFailure::unknown_service(&path))),
    }
}

/// Shows the state of a service's restart, or the outcome of the last one.
pub(crate) fn query_status(
    restarts: &Arc<RestartManager>,
    _: &BlockingContext,
    RestartStatusInput { unit }: RestartStatusInput,
) -> Result<RestartStatusOutput, ActionError> {
    let Some(cycle) = restarts.find_cycle(&parse_unit(&unit)?, None)? else {
        return Ok(RestartStatusOutput {
            state: "none".to_owned(),
            text: "no restart was requested".to_owned(),
            ..RestartStatusOutput::default()
        });
    };
    Ok(RestartStatusOutput {
        state: cycle.state.as_str().to_owned(),
        id: Some(cycle.id.to_string()),
        requests: cycle.requests,
        requested: Some(cycle.requested.wall),
        ended: cycle.finished_at().map(|at| at.wall),
        pid: cycle.after.map(|process| process.pid),
        text: cycle.text,
    })
}

/// Parses the name of a service.
fn parse_unit(name: &str) -> Result<RestartTarget, ActionError> {
    RestartTarget::parse_unit(name).map_err(|error| ActionError::invalid_input(error.to_string()))
}
