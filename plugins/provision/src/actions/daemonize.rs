//! `daemonize_puppet`: starts Puppet's agent as a background service, and enables it at boot.

use std::sync::Arc;
use std::time::Duration;

use muster_api::system::Command;
use muster_api::system::command::CancelFlag;
use muster_api::{ActionError, AgentAction, CallContext};
use muster_contract::provision::FencedStepInput;
use muster_engine::ResourceEngine;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::outcome::first_error_line;
use crate::puppet::{printable_tail, to_action_error};
use crate::step_context::StepContext;

pub(crate) struct DaemonizePuppetAction(pub(crate) Arc<StepContext>);

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct DaemonizePuppetOutput {
    changed: bool,
    output: String,
}

impl AgentAction for DaemonizePuppetAction {
    const NAME: &'static str = "daemonize_puppet";
    type Input = FencedStepInput;
    type Output = DaemonizePuppetOutput;

    async fn run(
        &self,
        cx: &CallContext,
        input: FencedStepInput,
    ) -> Result<DaemonizePuppetOutput, ActionError> {
        self.0
            .run_step(cx, input.fence, |context, cx, cancel| {
                if context.options.daemon_command.is_empty() {
                    start_service(context, cx, cancel)
                } else {
                    run_daemon_command(context, cx, cancel)
                }
            })
            .await
    }
}

/// Starts the service through the machine's init system.
fn start_service(
    context: &StepContext,
    cx: &CallContext,
    cancel: CancelFlag,
) -> Result<DaemonizePuppetOutput, ActionError> {
    let engine = ResourceEngine::new(Arc::clone(&cx.system));
    let properties = Map::from_iter([
        ("ensure".to_owned(), Value::from("running")),
        ("enable".to_owned(), Value::from("true")),
    ]);
    let service = &context.options.service;
    let resource = engine
        .check_resource("service", service, &properties)
        .map_err(|error| ActionError::failed(error.one_line_message()))?;
    let outcome = engine.apply_resource(&resource, cancel, false);
    let changed = outcome.has_changed();
    match outcome.error {
        Some(error) => Err(ActionError::failed(error.one_line_message())),
        None => Ok(DaemonizePuppetOutput { changed, output: String::new() }),
    }
}

/// Starts it with the configured command.
fn run_daemon_command(
    context: &StepContext,
    cx: &CallContext,
    cancel: CancelFlag,
) -> Result<DaemonizePuppetOutput, ActionError> {
    let mut command = Command::new(context.options.daemon_command.clone());
    command.cancel = cancel;
    command.timeout = Some(Duration::from_secs(context.options.request_timeout));
    let output = cx.system.run_command(&command).map_err(|error| to_action_error(&error))?;
    if !output.is_success() {
        return Err(ActionError::failed(format!(
            "`{}` exited with code {}: {}",
            command.program_name(),
            output.code,
            first_error_line(&output.combined_text())
        )));
    }
    Ok(DaemonizePuppetOutput { changed: true, output: printable_tail(&output) })
}
