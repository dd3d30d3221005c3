//! `daemonize_puppet`: starts Puppet's agent as a background service, and enables it at boot.

use std::sync::Arc;
use std::time::Duration;

use muster_api::system::Command;
use muster_api::{ActionError, BlockingContext};
use muster_contract::provision::{DaemonizePuppetInput, DaemonizePuppetOutput};
use muster_engine::ResourceEngine;
use serde_json::{Map, Value};

use crate::options::Options;
use crate::outcome::first_error_line;
use crate::puppet::printable_tail;
use crate::step_context::StepContext;

pub(crate) fn daemonize_puppet(
    context: &Arc<StepContext>,
    cx: &BlockingContext,
    DaemonizePuppetInput { noop, fence }: DaemonizePuppetInput,
) -> Result<DaemonizePuppetOutput, ActionError> {
    context.admit_step(cx, fence)?;
    if context.options.daemon_command.is_empty() {
        start_service(&context.options.service, cx, noop == Some(true))
    } else {
        run_daemon_command(&context.options, cx, noop == Some(true))
    }
}

/// Starts the service through the machine's init system.
fn start_service(
    service: &str,
    cx: &BlockingContext,
    is_noop: bool,
) -> Result<DaemonizePuppetOutput, ActionError> {
    let engine = ResourceEngine::new(Arc::clone(&cx.system));
    let properties = Map::from_iter([
        ("ensure".to_owned(), Value::from("running")),
        ("enable".to_owned(), Value::from("true")),
    ]);
    let resource = engine
        .check_resource("service", service, &properties)
        .map_err(|error| ActionError::failed(error.one_line_message()))?;
    let outcome = engine.apply_resource(&resource, cx.cancel_flag.clone(), is_noop);
    let changed = outcome.has_changed();
    match outcome.error {
        Some(error) => Err(ActionError::failed(error.one_line_message())),
        None => Ok(DaemonizePuppetOutput { changed, output: String::new() }),
    }
}

fn run_daemon_command(
    options: &Options,
    cx: &BlockingContext,
    is_noop: bool,
) -> Result<DaemonizePuppetOutput, ActionError> {
    let mut command = Command::configured(options.daemon_command.clone());
    command.cancel = cx.cancel_flag.clone();
    command.timeout = Some(Duration::from_secs(options.request_timeout));
    if is_noop {
        let output = format!("would run `{}`", command.program_name());
        return Ok(DaemonizePuppetOutput { changed: true, output });
    }
    let output = cx.system.run_command(&command)?;
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
