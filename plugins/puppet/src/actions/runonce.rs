//! `runonce`: runs Puppet once, and replies with the result.
//!
//! A request with the identity of an existing run attaches to that run, or gets its result if it has ended. A retry is therefore safe.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use muster_api::base::unix_millis;
use muster_api::wire::history::RunCause;
use muster_api::wire::identity::SubjectName;
use muster_api::{ActionError, CallContext};
use muster_contract::puppet::{
    PuppetRunClass, PuppetRunOnceInput, PuppetRunOutcome, PuppetRunProgress,
};
use muster_contract::write_values;
use serde_json::Value;
use tokio::sync::watch;
use uuid::Uuid;

use super::parse_run_id;
use crate::arguments::PuppetRunOptions;
use crate::options::CatalogEngine;
use crate::permit::PermitParameters;
use crate::runs::{BeginRunResult, PuppetRunManager, PuppetRunRequest, RunWaiter};

pub(crate) async fn run_once(
    runs: Arc<PuppetRunManager>,
    cx: CallContext,
    input: PuppetRunOnceInput,
) -> Result<PuppetRunOutcome, ActionError> {
    let request = parse_request(&cx, &runs, input)?;
    let in_background = request.in_background;
    let (manager, system) = (Arc::clone(&runs), Arc::clone(&cx.system));
    match cx.run_blocking(move |_| manager.begin_run(request, &system)).await?? {
        BeginRunResult::Finished(outcome) => check_outcome(*outcome),
        BeginRunResult::Active(waiter, was_running) if in_background => {
            let mut outcome = waiter.active_run().outcome.borrow().clone();
            outcome.attached = was_running;
            Ok(outcome)
        }
        BeginRunResult::Active(waiter, was_running) => {
            wait_for_outcome(&runs, &cx, &waiter, was_running).await
        }
    }
}

/// Waits for the end of the run, and sends progress.
async fn wait_for_outcome(
    runs: &PuppetRunManager,
    cx: &CallContext,
    waiter: &RunWaiter,
    was_running: bool,
) -> Result<PuppetRunOutcome, ActionError> {
    let active_run = waiter.active_run();
    let mut updates = active_run.outcome.subscribe();
    let report_state = |outcome: &PuppetRunOutcome| {
        let progress = PuppetRunProgress {
            state: outcome.state,
            run: outcome.run.clone(),
            at: unix_millis(cx.system.now()),
            elapsed: active_run.since.elapsed().as_secs_f64(),
        };
        cx.emit_event(Value::Object(write_values(&progress)));
    };
    report_state(&updates.borrow_and_update());
    let mut is_withdrawn = false;
    loop {
        tokio::select! {
            outcome = next_outcome(&mut updates) => {
                report_state(&outcome);
                if outcome.state.is_over() {
                    return check_outcome(PuppetRunOutcome { attached: was_running, ..outcome });
                }
            }
            () = tokio::time::sleep_until(cx.deadline) => return Err(still_running_error(&active_run.outcome.borrow(), "the request reached its deadline")),
            () = runs.stopping.cancelled() => return Err(still_running_error(&active_run.outcome.borrow(), "the daemon is stopping")),
            () = cx.withdrawn.cancelled(), if !is_withdrawn => {
                is_withdrawn = true;
                waiter.withdraw_run();
            }
            () = cx.cancel.cancelled() => {
                waiter.cancel_run();
                let outcome = updates.wait_for(|outcome| outcome.state.is_over()).await;
                let outcome = outcome.map(|outcome| outcome.clone());
                return check_outcome(outcome.map_err(|_| ActionError::cancelled())?);
            }
        }
    }
}

async fn next_outcome(updates: &mut watch::Receiver<PuppetRunOutcome>) -> PuppetRunOutcome {
    // The sender lives as long as this waiter is attached.
    let _ = updates.changed().await;
    updates.borrow_and_update().clone()
}

fn check_outcome(outcome: PuppetRunOutcome) -> Result<PuppetRunOutcome, ActionError> {
    if outcome.is_success() {
        return Ok(outcome);
    }
    let summary = outcome.summary.clone().unwrap_or_default();
    let class = outcome.class.as_ref().map_or("", PuppetRunClass::as_str);
    Err(error_with_outcome(format!("{class}: {summary}"), &outcome))
}

fn still_running_error(outcome: &PuppetRunOutcome, reason: &str) -> ActionError {
    let message = format!(
        "{reason}; run {} is {}: request it again with this ID as `run` to get its result",
        outcome.run,
        outcome.state.as_str()
    );
    error_with_outcome(message, outcome)
}

fn error_with_outcome(message: String, outcome: &PuppetRunOutcome) -> ActionError {
    ActionError::failed(message).with_output(outcome)
}

fn parse_request(
    cx: &CallContext,
    runs: &PuppetRunManager,
    input: PuppetRunOnceInput,
) -> Result<PuppetRunRequest, ActionError> {
    let options = &runs.options;
    if input.server.is_some() && !options.allow_server_override {
        return Err(ActionError::denied_by_rule(
            "this node does not allow callers to choose the server: [plugins.puppet] allow_server_override",
            "plugins.puppet.allow_server_override",
        ));
    }
    let id = input.run.as_deref().map(parse_run_id).transpose()?;
    let rollout = input.rollout.as_deref().map(parse_run_id).transpose()?;
    let pool = match input.pool.as_deref() {
        None => runs.pool.clone(),
        Some(pool) => SubjectName::parse(pool)
            .map_err(|error| ActionError::invalid_input(format!("pool `{pool}`: {error}")))?,
    };
    let limit = match input.limit {
        None => NonZeroU32::new(options.limit),
        Some(limit) => {
            Some(u32::try_from(limit).ok().and_then(NonZeroU32::new).ok_or_else(|| {
                ActionError::invalid_input(format!("limit {limit} is not between 1 and 4294967295"))
            })?)
        }
    };
    let run_options = PuppetRunOptions {
        noop: input.noop,
        tags: split_words(input.tags),
        skip_tags: split_words(input.skip_tags),
        environment: input.environment,
        splay: input.splay,
        splaylimit: input.splaylimit.map(|value| parse_seconds("splaylimit", value)).transpose()?,
        server: input.server,
        ignoreschedules: input.ignoreschedules,
        use_cached_catalog: input.use_cached_catalog,
        force: input.force == Some(true),
    };
    if options.engine == CatalogEngine::Native {
        refuse_puppet_inputs(&run_options)?;
    }
    let wait = input.wait.map(|value| parse_seconds("wait", value)).transpose()?;
    let priority = input.priority.unwrap_or_default();
    Ok(PuppetRunRequest {
        id: id.unwrap_or_else(Uuid::now_v7),
        request: cx.request,
        caller: cx.caller.to_string(),
        cause: RunCause {
            request: Some(cx.request),
            caller: Some(cx.caller.to_string()),
            ..RunCause::default()
        },
        trace: cx.trace.as_ref().map(ToString::to_string),
        host: cx.node.identity().to_string(),
        run_options,
        catalog: None,
        permit_parameters: PermitParameters {
            pool,
            limit,
            priority: i8::try_from(priority).map_err(|_| {
                ActionError::invalid_input(format!(
                    "priority {priority} is not between -128 and 127"
                ))
            })?,
            rollout,
            timeout: Duration::from_secs(wait.unwrap_or(options.wait)),
        },
        in_background: input.background == Some(true),
    })
}

/// Rejects inputs that the native engine does not support.
fn refuse_puppet_inputs(run_options: &PuppetRunOptions) -> Result<(), ActionError> {
    let given = [
        ("environment", run_options.environment.is_some()),
        ("server", run_options.server.is_some()),
        ("splay", run_options.splay == Some(true)),
        ("splaylimit", run_options.splaylimit.is_some()),
        ("use_cached_catalog", run_options.use_cached_catalog == Some(false)),
    ];
    match given.iter().find(|(_, is_given)| *is_given) {
        Some((name, _)) => Err(ActionError::invalid_input(format!(
            "{name} is not supported: [plugins.puppet] engine is `native`"
        ))),
        None => Ok(()),
    }
}

fn parse_seconds(name: &str, value: i64) -> Result<u64, ActionError> {
    u64::try_from(value).ok().filter(|value| *value <= 86_400).ok_or_else(|| {
        ActionError::invalid_input(format!("{name} {value} is not between 0 and 86400 seconds"))
    })
}

/// Splits a comma-separated list.
fn split_words(text: Option<String>) -> Vec<String> {
    let text = text.unwrap_or_default();
    let words = text.split(',').map(str::trim);
    words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
}
