//! The actions of `service`, and its data source: `service("sshd")`.

use muster_api::{ActionError, BlockingContext, NoState};
use muster_contract::service::{
    ServiceChangeInput, ServiceChangeOutput, ServiceNameInput, ServiceRunState, ServiceStatusOutput,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::engine_error::from_engine_error;
use crate::service::SelfRestart;
use crate::service::node_service::NodeService;

/// Whether a service exists, runs, and starts at boot.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ServiceDataOutput {
    present: bool,
    running: bool,
    status: String,
    enabled: Option<bool>,
}

/// Shows whether a service runs. Changes nothing.
pub(crate) fn query_service(
    _: &NoState,
    cx: &BlockingContext,
    input: ServiceNameInput,
) -> Result<ServiceStatusOutput, ActionError> {
    let status = NodeService::new(cx, input.service).query_state().map_err(from_engine_error)?;
    Ok(ServiceStatusOutput { status })
}

/// Stops a running service. Refuses to stop the daemon.
pub(crate) fn stop_service(
    restart: &SelfRestart,
    cx: &BlockingContext,
    input: ServiceChangeInput,
) -> Result<ServiceChangeOutput, ActionError> {
    if restart.for_service(&input.service).is_some() {
        return Err(ActionError::invalid_input(
            "rpcd cannot stop itself: it could not reply, and rpc could not start it again; stop it on the node",
        ));
    }
    change_state(cx, input, ServiceRunState::Stopped)
}

/// Starts a stopped service, or stops a running one.
pub(crate) fn change_state(
    cx: &BlockingContext,
    input: ServiceChangeInput,
    desired: ServiceRunState,
) -> Result<ServiceChangeOutput, ActionError> {
    let noop = input.noop == Some(true);
    NodeService::new(cx, input.service).ensure_state(desired, noop).map_err(from_engine_error)
}

/// Stops and starts a service. The daemon itself is restarted after the reply: an action that waited for it would keep it from stopping.
pub(crate) fn restart_service(
    restart: &SelfRestart,
    cx: &BlockingContext,
    input: ServiceChangeInput,
) -> Result<ServiceChangeOutput, ActionError> {
    let noop = input.noop == Some(true);
    if let Some(restarter) = restart.for_service(&input.service) {
        if !noop {
            restarter.request_restart()?;
        }
        return Ok(ServiceChangeOutput { status: ServiceRunState::Running, changed: true });
    }
    let status = NodeService::new(cx, input.service).restart(noop).map_err(from_engine_error)?;
    Ok(ServiceChangeOutput { status, changed: true })
}

pub(crate) fn find_service(
    _: &NoState,
    cx: &BlockingContext,
    name: &str,
) -> Result<ServiceDataOutput, ActionError> {
    let found = NodeService::new(cx, name.to_owned()).query_status().map_err(from_engine_error)?;
    let (present, running) = (found.missing.is_none(), found.running);
    let status = match (present, running) {
        (false, _) => "absent",
        (true, true) => "running",
        (true, false) => "stopped",
    };
    Ok(ServiceDataOutput {
        present,
        running: present && running,
        status: status.to_owned(),
        enabled: match found.enable.as_str() {
            "true" if present => Some(true),
            "false" | "mask" if present => Some(false),
            _ => None,
        },
    })
}
