//! `request`: requests a restart when no run is in progress. Replies at once, or after the outcome is known.

use std::sync::Arc;
use std::time::Duration;

use muster_api::base::error_chain;
use muster_api::system::System;
use muster_api::{ActionError, AgentAction, CallContext};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use super::parse_unit;
use crate::cycle::{RestartCycle, RestartOptions, RestartState};
use crate::instance::DaemonInstance;
use crate::manager::{AcceptedRestart, RestartManager};
use crate::target::RestartTarget;
use crate::target_status::query_target;
use crate::worker::unknown_service_message;

/// Interval at which the outcome of a restart is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Time reserved before the caller's deadline to send the reply.
const REPLY_MARGIN: Duration = Duration::from_secs(1);

pub(crate) struct RestartRequestAction(pub(crate) Arc<RestartManager>);

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct RestartRequestInput {
    unit: String,
    when_idle: Option<bool>,
    deadline: Option<u64>,
    force: Option<bool>,
    verify_bus: Option<u64>,
    wait: Option<bool>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct RestartRequestOutput {
    state: String,
    text: String,
    id: String,
    merged: bool,
    requests: u32,
    pid: Option<u32>,
}

impl RestartRequestOutput {
    fn new(cycle: &RestartCycle, accepted: AcceptedRestart) -> Self {
        Self {
            state: cycle.state.as_str().to_owned(),
            text: cycle.text.clone(),
            id: accepted.id.to_string(),
            merged: accepted.merged,
            requests: cycle.requests,
            pid: cycle.after.map(|process| process.pid),
        }
    }
}

impl AgentAction for RestartRequestAction {
    const NAME: &'static str = "request";
    type Input = RestartRequestInput;
    type Output = RestartRequestOutput;

    async fn run(
        &self,
        cx: &CallContext,
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
        let (restarts, system, checked_target) =
            (Arc::clone(&self.0), Arc::clone(&cx.system), target.clone());
        let accepted = cx
            .run_blocking(move |_| {
                let is_running_daemon = checked_target.is_daemon()
                    && DaemonInstance::read_from(restarts.store())
                        .is_ok_and(|found| found.is_some());
                if !is_running_daemon {
                    check_known(&system, &checked_target)?;
                }
                restarts
                    .request_restart(&checked_target, &options)
                    .map_err(|error| ActionError::failed(error_chain(&error)))
            })
            .await??;
        if should_wait {
            self.await_outcome(cx, target, accepted).await
        } else {
            let cycle = self.find_cycle(cx, target, accepted.id).await?;
            Ok(RestartRequestOutput::new(&cycle, accepted))
        }
    }
}

impl RestartRequestAction {
    /// Waits for the outcome. The restart continues even if the caller stops waiting.
    async fn await_outcome(
        &self,
        cx: &CallContext,
        target: RestartTarget,
        accepted: AcceptedRestart,
    ) -> Result<RestartRequestOutput, ActionError> {
        let reply_deadline = cx.deadline.checked_sub(REPLY_MARGIN).unwrap_or(cx.deadline);
        let mut reported = None;
        loop {
            let cycle = self.find_cycle(cx, target.clone(), accepted.id).await?;
            if reported != Some((cycle.state, cycle.text.clone())) {
                cx.report_progress(format!("{}: {}", cycle.state.as_str(), cycle.text));
                reported = Some((cycle.state, cycle.text.clone()));
            }
            let output = RestartRequestOutput::new(&cycle, accepted);
            if cycle.state == RestartState::Ok {
                return Ok(output);
            }
            let timed_out = Instant::now() >= reply_deadline;
            if cycle.state.is_finished() || timed_out {
                let problem = if cycle.state.is_finished() {
                    cycle.text
                } else {
                    format!("the restart has not ended yet ({}); call `status` later", cycle.text)
                };
                let data = match json!(output) {
                    Value::Object(data) => data,
                    _ => serde_json::Map::new(),
                };
                return Err(ActionError::failed(problem).with_data(data));
            }
            tokio::select! {
                () = sleep(POLL_INTERVAL) => {}
                () = cx.cancel.cancelled() => return Err(ActionError::cancelled()),
            }
        }
    }

    async fn find_cycle(
        &self,
        cx: &CallContext,
        target: RestartTarget,
        id: Uuid,
    ) -> Result<RestartCycle, ActionError> {
        let restarts = Arc::clone(&self.0);
        let found = cx.run_blocking(move |_| restarts.find_cycle(&target, Some(id))).await?;
        let found = found.map_err(|error| ActionError::failed(error_chain(&error)))?;
        found.ok_or_else(|| ActionError::failed("the record of the restart no longer exists"))
    }
}

/// Fails if the machine has no such service, so that the caller gets the error at once.
fn check_known(system: &Arc<dyn System>, target: &RestartTarget) -> Result<(), ActionError> {
    let found = query_target(system, target, None)
        .map_err(|error| ActionError::failed(error.one_line_message()))?;
    match found.missing {
        None => Ok(()),
        Some(path) => Err(ActionError::failed(unknown_service_message(&path))),
    }
}
