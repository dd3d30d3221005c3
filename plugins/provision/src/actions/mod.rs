//! The actions, one file for each kind of step.

mod certificate;
mod daemonize;
mod hosts;
mod lock;
mod markers;
mod run;

pub(crate) use certificate::{HasCertAction, RequestCertificateAction};
pub(crate) use daemonize::DaemonizePuppetAction;
pub(crate) use hosts::SetPuppetHostAction;
pub(crate) use lock::{IsLockedAction, ProvisionLockAction, ProvisionUnlockAction};
pub(crate) use markers::{
    IsDisabledAction, ProvisionDisableAction, ProvisionReleaseAction, ReprovisionAction,
};
pub(crate) use run::{BootstrapPuppetAction, RunPuppetAction};

use muster_api::ActionError;
use serde::Deserialize;

/// The input of an action that needs nothing.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct EmptyProvisionInput {}

/// Puppet arguments that select the server.
fn server_arguments(server: Option<&str>, port: Option<u64>) -> Result<Vec<String>, ActionError> {
    let mut args = Vec::new();
    if let Some(server) = server {
        if server.starts_with('-') {
            return Err(ActionError::invalid_input(format!(
                "`{server}` is not a server name: it starts with `-`"
            )));
        }
        args.extend(["--server".to_owned(), server.to_owned()]);
    }
    if let Some(port) = port {
        let port = u16::try_from(port).ok().filter(|port| *port > 0);
        let port =
            port.ok_or_else(|| ActionError::invalid_input("port must be between 1 and 65535"))?;
        // Set the CA's port too: Puppet derives it from the server's port only if nothing else is configured.
        let port = port.to_string();
        args.extend(["--serverport".to_owned(), port.clone(), "--ca_port".to_owned(), port]);
    }
    Ok(args)
}
