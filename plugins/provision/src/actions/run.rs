//! `bootstrap_puppet` and `run_puppet`: one run of Puppet, and what became of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use muster_api::system::error::{chain, with_causes};
use muster_api::system::{StateDir, SystemError};
use muster_api::wire::identity::Name;
use muster_api::wire::status::Reason;
use muster_api::{Action, ActionError, Context};
use muster_engine::lock::{LockError, RunLock};
use muster_permits::{Ask, Permit};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::server;
use crate::desk::Desk;
use crate::outcome::{Class, Evidence, Exit, judge};
use crate::puppet::{Puppet, failed, shown};
use crate::summary::Summary;

/// A run in the foreground, once, with everything said and the detailed exit code.
const RUN: [&str; 9] = [
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

pub(crate) struct BootstrapPuppet(pub(crate) Arc<Desk>);
pub(crate) struct RunPuppet(pub(crate) Arc<Desk>);

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Input {
    environment: Option<String>,
    server: Option<String>,
    port: Option<u64>,
    fence: Option<u64>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(Deserialize, schemars::JsonSchema))]
pub(crate) struct Ran {
    class: Class,
    exitcode: i32,
    resources: Map<String, Value>,
    config_version: String,
    environment: String,
    /// In seconds.
    duration: f64,
    output: String,
}

impl Action for BootstrapPuppet {
    const NAME: &'static str = "bootstrap_puppet";
    type Input = Input;
    type Output = Ran;

    async fn run(&self, cx: &Context, mut input: Input) -> Result<Ran, ActionError> {
        let configured = || self.0.options.bootstrap_environment.clone();
        input.environment.get_or_insert_with(configured);
        run(&self.0, cx, input).await
    }
}

impl Action for RunPuppet {
    const NAME: &'static str = "run_puppet";
    type Input = Input;
    type Output = Ran;

    async fn run(&self, cx: &Context, input: Input) -> Result<Ran, ActionError> {
        run(&self.0, cx, input).await
    }
}

async fn run(desk: &Arc<Desk>, cx: &Context, input: Input) -> Result<Ran, ActionError> {
    let mut words: Vec<String> = RUN.iter().map(|word| (*word).to_owned()).collect();
    words.extend(server(input.server.as_deref(), input.port)?);
    if let Some(environment) = &input.environment {
        words.extend(["--environment".to_owned(), environment.clone()]);
    }
    // First the node's own lock, then a place among the nodes, so that nobody waits for us who could run.
    let lock = desk
        .step(cx, input.fence, |desk, _, _| match lock(desk) {
            Ok(lock) => Ok(lock),
            Err(LockError::Running { .. }) => {
                Err(refused(Class::Locked, "another run goes on on this node"))
            }
            Err(error) => Err(ActionError::failed(chain(&error))),
        })
        .await?;
    let permit = permit(desk, cx).await?;
    // Ends with the call, and with the permit.
    let mut call = cx.clone();
    call.cancel = cx.cancel.child_token();
    let work = desk.step(&call, input.fence, move |desk, cx, cancel| {
        let _lock = lock;
        once(&desk.puppet(cx, cancel, desk.options.run_timeout), &words)
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
        () = permit.lost().cancelled() => "the run's permit was lost, and the run was stopped",
    };
    call.cancel.cancel();
    let stopped = work.await;
    permit.release().await;
    stopped.map_err(|error| refused(Class::Stopped, lost).with_data(error.data))
}

/// A place among the nodes that may run at once, where the operator wants that.
async fn permit(desk: &Desk, cx: &Context) -> Result<Option<Permit>, ActionError> {
    let Some(limit) = desk.options.limit else {
        return Ok(None);
    };
    let pool = Name::parse(&desk.options.pool).map_err(|error| {
        ActionError::failed(with_causes(
            "pool in [plugins.provision] is no name",
            &error,
        ))
    })?;
    let patience = Duration::from_secs(desk.options.permit_wait);
    let ask = Ask::new(pool, limit, cx.request, patience);
    cx.progress("waiting for a permit");
    let entered = desk.permits.enter(ask, &cx.cancel).await;
    entered
        .map(Some)
        .map_err(|error| refused(Class::NoPermit, &chain(&error)))
}

/// Our own lock of runs. Puppet's is Puppet's to take.
fn lock(desk: &Desk) -> Result<RunLock, LockError> {
    let state = StateDir::open(&desk.engine)?;
    RunLock::take(&state, &[], Duration::ZERO)
}

/// One run. What did not end well is an error that carries what is known.
fn once(puppet: &Puppet<'_>, words: &[String]) -> Result<Ran, ActionError> {
    let places = puppet.places()?;
    let disabled = puppet.disabled(&places);
    let before = puppet.summary_mark(&places);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let begun = Instant::now();
    let (exit, text, output) = match puppet.run(&words) {
        Ok(output) => (Exit::Code(output.code), output.text(), shown(&output)),
        Err(SystemError::Timeout { .. }) => (Exit::Timeout, String::new(), String::new()),
        Err(SystemError::Cancelled { .. }) => (Exit::Cancelled, String::new(), String::new()),
        Err(error) => return Err(failed(&error)),
    };
    let after = puppet.summary_mark(&places);
    let summary = (after.is_some() && after != before)
        .then(|| puppet.summary(&places))
        .flatten();
    let (class, problem) = judge(&Evidence {
        exit,
        summary: summary.as_ref(),
        disabled: disabled.as_deref(),
        is_locked: matches!(exit, Exit::Code(1)) && puppet.is_locked(&places),
        text: &text,
    });
    let answer = Ran {
        class,
        exitcode: match exit {
            Exit::Code(code) => code,
            Exit::Timeout | Exit::Cancelled => -1,
        },
        config_version: summary
            .as_ref()
            .and_then(Summary::config_version)
            .unwrap_or_default(),
        environment: summary
            .as_ref()
            .and_then(Summary::environment)
            .unwrap_or_default(),
        resources: summary.map(|it| it.resources).unwrap_or_default(),
        duration: begun.elapsed().as_secs_f64(),
        output,
    };
    if class.is_good() {
        return Ok(answer);
    }
    let mut error = refused(class, &problem);
    if let Ok(Value::Object(data)) = serde_json::to_value(&answer) {
        error.data = data;
    }
    error.reason = match exit {
        Exit::Timeout => Some(Reason::Timeout {
            after_ms: u64::try_from(puppet.timeout().as_millis()).unwrap_or(u64::MAX),
        }),
        Exit::Cancelled => Some(Reason::Cancelled),
        Exit::Code(_) => None,
    };
    Err(error)
}

/// A run that was none, or failed.
fn refused(class: Class, problem: &str) -> ActionError {
    let data = serde_json::to_value(class).map(|class| ("class".to_owned(), class));
    ActionError::failed(problem).with_data(data.into_iter().collect())
}
