//! `bootstrap_puppet` and `run_puppet`: one run of Puppet, and its result.

use std::sync::Arc;
use std::time::{Duration, Instant};

use muster_api::base::{duration_millis, error_chain, with_causes};
use muster_api::system::{StateDir, SystemError};
use muster_api::wire::identity::SubjectName;
use muster_api::wire::status::ReplyReason;
use muster_api::{ActionError, CallContext};
use muster_contract::provision::{RunPuppetInput, RunPuppetOutput};
use muster_contract::puppet::PuppetRunClass;
use muster_contract::write_values;
use muster_engine::lock::{CatalogRunLock, LockError};
use muster_puppet::permits::{Permit, PermitRequest};

use super::server_arguments;
use crate::outcome::{ProcessExit, ProvisionRunEvidence, classify_run};
use crate::puppet::{PuppetRunner, printable_tail};
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

pub(crate) async fn bootstrap_puppet(
    context: Arc<StepContext>,
    cx: CallContext,
    mut input: RunPuppetInput,
) -> Result<RunPuppetOutput, ActionError> {
    let configured = || context.options.bootstrap_environment.clone();
    input.environment.get_or_insert_with(configured);
    run_puppet(context, cx, input).await
}

pub(crate) async fn run_puppet(
    context: Arc<StepContext>,
    mut cx: CallContext,
    input: RunPuppetInput,
) -> Result<RunPuppetOutput, ActionError> {
    let mut args: Vec<String> = RUN_ARGUMENTS.iter().map(|arg| (*arg).to_owned()).collect();
    args.extend(server_arguments(input.server.as_deref(), input.port)?);
    if let Some(environment) = &input.environment {
        args.extend(["--environment".to_owned(), environment.clone()]);
    }
    // Acquire the node's lock before the permit, so that this node holds no permit while it waits.
    let step = Arc::clone(&context);
    let lock = cx.run_blocking_in_context(move |cx| {
        step.admit_step(cx, input.fence)?;
        acquire_run_lock(&step).map_err(|error| match error {
            LockError::Running { .. } => {
                run_error(PuppetRunClass::Locked, "another run is in progress on this node")
            }
            error => ActionError::from_cause(error),
        })
    });
    let lock = lock.await?;
    let permit = acquire_permit(&context, &cx).await?;
    // The run ends with the call, and when the permit is lost.
    let run_cancel = cx.cancel.child_token();
    cx.cancel = run_cancel.clone();
    let work = cx.run_blocking_in_context(move |cx| {
        context.admit_step(cx, input.fence)?;
        let _lock = lock;
        run_once(&context.puppet_runner(cx, context.options.run_timeout), &args)
    });
    let Some(permit) = permit else { return work.await };
    tokio::pin!(work);
    let reason = tokio::select! {
        result = &mut work => {
            permit.release().await;
            return result;
        }
        () = permit.lost_token().cancelled() => "the permit of the run was lost; the run was stopped",
    };
    run_cancel.cancel();
    let result = work.await;
    permit.release().await;
    result.map_err(|error| run_error(PuppetRunClass::Stopped, reason).with_data(error.data))
}

/// Without a configured limit the run keeps the limits of others, and needs no permit where none can be stored.
async fn acquire_permit(
    context: &StepContext,
    cx: &CallContext,
) -> Result<Option<Permit>, ActionError> {
    let limit = context.options.limit;
    if limit.is_none() && !context.permits.is_connected() {
        return Ok(None);
    }
    let pool = SubjectName::parse(&context.options.pool).map_err(|error| {
        ActionError::failed(with_causes(
            "`pool` in [plugins.provision] is not a valid name",
            &error,
        ))
    })?;
    let timeout = Duration::from_secs(context.options.permit_wait);
    let request = match limit {
        Some(limit) => PermitRequest::new(pool, limit, cx.request, timeout),
        None => PermitRequest::without_limit(pool, cx.request, timeout),
    };
    cx.report_progress("waiting for a permit");
    match context.permits.acquire_permit(request, &cx.cancel).await {
        Ok(permit) => Ok(Some(permit)),
        Err(error) if limit.is_none() && error.is_store_failure() => {
            cx.report_progress(format!(
                "the run is not counted in its pool: {}",
                error_chain(&error)
            ));
            Ok(None)
        }
        Err(error) => Err(run_error(PuppetRunClass::NoPermit, &error_chain(&error))),
    }
}

/// Acquires the engine's run lock only; Puppet takes its own lock.
fn acquire_run_lock(context: &StepContext) -> Result<CatalogRunLock, LockError> {
    let state = StateDir::open(&context.engine)?;
    CatalogRunLock::acquire(&state, &[], Duration::ZERO)
}

/// An unsuccessful run is an error that carries the class and the known values.
fn run_once(puppet: &PuppetRunner<'_>, args: &[String]) -> Result<RunPuppetOutput, ActionError> {
    let settings = puppet.read_settings()?;
    let disabled = puppet.disabled_reason(&settings);
    let before = puppet.summary_version(&settings);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let started = Instant::now();
    let (exit, text, output) = match puppet.run(&args) {
        Ok(output) => {
            (ProcessExit::Code(output.code), output.combined_text(), printable_tail(&output))
        }
        Err(SystemError::Timeout { .. }) => (ProcessExit::Timeout, String::new(), String::new()),
        Err(SystemError::Cancelled { .. }) => {
            (ProcessExit::Cancelled, String::new(), String::new())
        }
        Err(error) => return Err(error.into()),
    };
    let after = puppet.summary_version(&settings);
    let summary =
        (after.is_some() && after != before).then(|| puppet.read_summary(&settings)).flatten();
    let (class, problem) = classify_run(&ProvisionRunEvidence {
        exit,
        summary: summary.as_ref(),
        disabled: disabled.as_deref(),
        is_locked: matches!(exit, ProcessExit::Code(1)) && puppet.is_locked(&settings),
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
        duration: started.elapsed().as_secs_f64(),
        output,
    };
    if class.is_success() {
        return Ok(answer);
    }
    let mut error = run_error(class, &problem);
    error.data = write_values(&answer);
    error.reason = match exit {
        ProcessExit::Timeout => {
            Some(ReplyReason::Timeout { after_ms: duration_millis(puppet.timeout()) })
        }
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
