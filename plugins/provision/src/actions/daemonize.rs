//! `daemonize_puppet`: Puppet's agent runs in the background, now and after a boot.

use std::sync::Arc;
use std::time::Duration;

use muster_api::system::Command;
use muster_api::system::command::Cancel;
use muster_api::{Action, ActionError, Context};
use muster_engine::Engine;
use serde::Serialize;
use serde_json::{Map, Value};

use super::Fenced;
use crate::desk::Desk;
use crate::outcome::reason;
use crate::puppet::{failed, shown};

pub(crate) struct DaemonizePuppet(pub(crate) Arc<Desk>);

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize, schemars::JsonSchema))]
pub(crate) struct Output {
    changed: bool,
    output: String,
}

impl Action for DaemonizePuppet {
    const NAME: &'static str = "daemonize_puppet";
    type Input = Fenced;
    type Output = Output;

    async fn run(&self, cx: &Context, input: Fenced) -> Result<Output, ActionError> {
        self.0
            .step(cx, input.fence, |desk, cx, cancel| {
                if desk.options.daemon_command.is_empty() {
                    serve(desk, cx, cancel)
                } else {
                    command(desk, cx, cancel)
                }
            })
            .await
    }
}

/// By the machine's own init system.
fn serve(desk: &Desk, cx: &Context, cancel: Cancel) -> Result<Output, ActionError> {
    let engine = Engine::new(Arc::clone(&cx.system));
    let wanted = Map::from_iter([
        ("ensure".to_owned(), Value::from("running")),
        ("enable".to_owned(), Value::from("true")),
    ]);
    let service = &desk.options.service;
    let resource = engine
        .check("service", service, &wanted)
        .map_err(|error| ActionError::failed(error.line()))?;
    let outcome = engine.apply(&resource, cancel, false);
    let changed = outcome.changed();
    match outcome.error {
        Some(error) => Err(ActionError::failed(error.line())),
        None => Ok(Output {
            changed,
            output: String::new(),
        }),
    }
}

/// By a command of the operator's.
fn command(desk: &Desk, cx: &Context, cancel: Cancel) -> Result<Output, ActionError> {
    let mut command = Command::new(desk.options.daemon_command.clone());
    command.cancel = cancel;
    command.timeout = Some(Duration::from_secs(desk.options.request_timeout));
    let output = cx.system.run(&command).map_err(|error| failed(&error))?;
    if !output.success() {
        return Err(ActionError::failed(format!(
            "`{}` ended with {}: {}",
            command.program(),
            output.code,
            reason(&output.text())
        )));
    }
    Ok(Output {
        changed: true,
        output: shown(&output),
    })
}
