//! `bootstrap_puppet` and `run_puppet`: one run of Puppet, and its result.

use std::sync::Arc;
use std::time::{Duration, Instant};

use muster_api::system::error::{error_chain, with_causes};
use muster_api::system::{StateDir, SystemError};
use muster_api::wire::identity::SubjectName;
use muster_api::wire::status::ReplyReason;
use muster_api::{ActionError, AgentAction, CallContext};
use muster_contract::provision::RunPuppetOutput;
use muster_contract::puppet::PuppetRunClass;
use muster_contract::write_values;
use muster_engine::lock::{CatalogRunLock, LockError};
use muster_permits::{Permit, PermitRequest};
use serde::Deserialize;

use super::server_arguments;
use crate::outcome::{ProcessExit, ProvisionRunEvidence, classify_run};
use crate::puppet::{PuppetRunner, printable_tail, to_action_error};
use crate::step_context::StepContext;
use crate::summary::ProvisionRunSummary;

/// Arguments of a single run in the foreground, with full output and detailed exit codes.
const RUN_ARGUMENTS: [&str; 9] = [
    "agent",
    "--onetime",
    "--no-daemonize",
    "--no-usecacheonfailure",
    "--no-splay",
    "--verbose",
    "--detailed-exitcodes",
    "--color=false",
    "--waitforcert=0",
];

pub(crate) struct BootstrapPuppetAction(pub(crate) Arc<StepContext>);
pub(crate) struct RunPuppetAction(pub(crate) Arc<StepContext>);

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct RunPuppetInput {
    environment: Option<String>,
    server: Option<String>,
    port: Option<u64>,
    fence: Option<u64>,
}

impl AgentAction for BootstrapPuppetAction {
    const NAME: &'static str = "bootstrap_puppet";
    type Input = RunPuppetInput;
    type Output = RunPuppetOutput;

    async fn run(
        &self,
        cx: &CallContext,
        mut input: RunPuppetInput,
    ) -> Result<RunPuppetOutput, ActionError> {
        let configured = || self.0.options.bootstrap_environment.clone();
        input.environment.get_or_insert_with(configured);
        run_puppet(&self.0, cx, input).await
    }
}

impl AgentAction for RunPuppetAction {
    const NAME: &'static str = "run_puppet";
    type Input = RunPuppetInput;
    type Output = RunPuppetOutput;

    async fn run(
        &self,
        cx: &CallContext,
        input: RunPuppetInput,
    ) -> Result<RunPuppetOutput, ActionError> {
        run_puppet(&self.0, cx, input).await
    }
}

async fn run_puppet(
    desk: &Arc<StepContext>,
    cx: &CallContext,
    input: RunPuppetInput,
) -> Result<RunPuppetOutput, ActionError> {
    let mut words: Vec<String> = RUN_ARGUMENTS
        .iter()
        .map(|word| (*word).to_owned())
        .collect();
    words.extend(server_arguments(input.server.as_deref(), input.port)?);
    if let Some(environment) = &input.environment {
        words.extend(["--environment".to_owned(), environment.clone()]);
    }
    // Acquire the node's lock before the permit, so that this node holds no permit while it waits.
    let lock = desk
        .run_step(cx, input.fence, |desk, _, _| match acquire_run_lock(desk) {
            Ok(lock) => Ok(lock),
            Err(LockError::Running { .. }) => Err(run_error(
                PuppetRunClass::Locked,
                "another run is in progress on this node",
            )),
            Err(error) => Err(ActionError::failed(error_chain(&error))),
        })
        .await?;
    let permit = acquire_permit(desk, cx).await?;
    // The run ends with the call, and when the permit is lost.
    let mut call = cx.clone();
    call.cancel = cx.cancel.child_token();
    let work = desk.run_step(&call, input.fence, move |desk, cx, cancel| {
        let _lock = lock;
        run_once(
            &desk.puppet_runner(cx, cancel, desk.options.run_timeout),
            &words,
        )
    });
    let Some(permit) = permit else {
        return work.await;
    };
    tokio::pin!(work);
    let lost = tokio::select! {
        done = &mut work => {
            permit.release().await;
            return done;
        }
        () = permit.lost_token().cancelled() => "the permit of the run was lost; the run was stopped",
    };
    call.cancel.cancel();
    let stopped = work.await;
    permit.release().await;
    stopped.map_err(|error| run_error(PuppetRunClass::Stopped, lost).with_data(error.data))
}

/// Acquires a permit, if a limit is configured.
async fn acquire_permit(
    desk: &StepContext,
    cx: &CallContext,
) -> Result<Option<Permit>, ActionError> {
    let Some(limit) = desk.options.limit else {
        return Ok(None);
    };
    let pool = SubjectName::parse(&desk.options.pool).map_err(|error| {
        ActionError::failed(with_causes(
            "`pool` in [plugins.provision] is not a valid name",
            &error,
        ))
    })?;
    let patience = Duration::from_secs(desk.options.permit_wait);
    let ask = PermitRequest::new(pool, limit, cx.request, patience);
    cx.report_progress("waiting for a permit");
    let entered = desk.permits.acquire_permit(ask, &cx.cancel).await;
    entered
        .map(Some)
        .map_err(|error| run_error(PuppetRunClass::NoPermit, &error_chain(&error)))
}

/// Acquires the engine's run lock only; Puppet takes its own lock.
fn acquire_run_lock(desk: &StepContext) -> Result<CatalogRunLock, LockError> {
    let state = StateDir::open(&desk.engine)?;
    CatalogRunLock::acquire(&state, &[], Duration::ZERO)
}

/// Runs Puppet once. An unsuccessful run is an error that carries the class and the known values.
fn run_once(puppet: &PuppetRunner<'_>, words: &[String]) -> Result<RunPuppetOutput, ActionError> {
    let places = puppet.read_settings()?;
    let disabled = puppet.disabled_reason(&places);
    let before = puppet.summary_version(&places);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let begun = Instant::now();
    let (exit, text, output) = match puppet.run(&words) {
        Ok(output) => (
            ProcessExit::Code(output.code),
            output.combined_text(),
            printable_tail(&output),
        ),
        Err(SystemError::Timeout { .. }) => (ProcessExit::Timeout, String::new(), String::new()),
        Err(SystemError::Cancelled { .. }) => {
            (ProcessExit::Cancelled, String::new(), String::new())
        }
        Err(error) => return Err(to_action_error(&error)),
    };
    let after = puppet.summary_version(&places);
    let summary = (after.is_some() && after != before)
        .then(|| puppet.read_summary(&places))
        .flatten();
    let (class, problem) = classify_run(&ProvisionRunEvidence {
        exit,
        summary: summary.as_ref(),
        disabled: disabled.as_deref(),
        is_locked: matches!(exit, ProcessExit::Code(1)) && puppet.is_locked(&places),
        text: &text,
    });
    let answer = RunPuppetOutput {
        class: Some(class.clone()),
        exitcode: match exit {
            ProcessExit::Code(code) => code,
            ProcessExit::Timeout | ProcessExit::Cancelled => -1,
        },
        config_version: summary
            .as_ref()
            .and_then(ProvisionRunSummary::config_version)
            .unwrap_or_default(),
        environment: summary
            .as_ref()
            .and_then(ProvisionRunSummary::environment)
            .unwrap_or_default(),
        resources: summary.map(|it| it.resources).unwrap_or_default(),
        duration: begun.elapsed().as_secs_f64(),
        output,
    };
    if class.is_success() {
        return Ok(answer);
    }
    let mut error = run_error(class, &problem);
    error.data = write_values(&answer);
    error.reason = match exit {
        ProcessExit::Timeout => Some(ReplyReason::Timeout {
            after_ms: u64::try_from(puppet.timeout().as_millis()).unwrap_or(u64::MAX),
        }),
        ProcessExit::Cancelled => Some(ReplyReason::Cancelled),
        ProcessExit::Code(_) => None,
    };
    Err(error)
}

/// Error for a run that failed or did not take place.
fn run_error(class: PuppetRunClass, problem: &str) -> ActionError {
    let data = serde_json::to_value(class).map(|class| ("class".to_owned(), class));
    ActionError::failed(problem).with_data(data.into_iter().collect())
}
