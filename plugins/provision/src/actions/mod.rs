//! The actions, one file for each kind of step.

pub(crate) mod certificate;
pub(crate) mod configure;
pub(crate) mod daemonize;
pub(crate) mod hosts;
pub(crate) mod lock;
pub(crate) mod markers;
pub(crate) mod run;

use muster_api::ActionError;

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
