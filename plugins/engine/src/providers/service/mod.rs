//! Service managers: start, stop and query background services.

pub mod base;
pub mod choice;
pub mod init;
pub mod supervised;
pub mod systemd;

use std::fmt;

use muster_system::{Command, CommandOutput};

use crate::error::{DescribeOperation as _, EngineError, Result};
use crate::resource::Resource;
use crate::resource_type::BoundResource;

/// Set by an undo, and no attribute of a request: `enable=false` removes a mask, too.
pub(crate) const UNMASK: &str = "unmask";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceState {
    /// `None` if the service exists; otherwise the places that were searched.
    pub missing: Option<String>,
    pub running: bool,
    /// `true`, `false`, `mask`, or the tool's own term for a service that cannot be enabled.
    pub enable: String,
}

impl ServiceState {
    /// Returns `self`, or an error listing the places searched.
    pub fn require_known(self, resource: &Resource) -> Result<Self> {
        match &self.missing {
            None => Ok(self),
            Some(searched) => Err(EngineError::failed(
                resource,
                format!("there is no such service: looked for {searched}"),
            )),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServiceOperation {
    Start,
    Stop,
    /// Stop it and start it, or only start it if it is not running.
    Restart,
    /// Start it at boot.
    Enable,
    /// Do not start it at boot.
    Disable,
    /// Prevent it from being started at all.
    Mask,
}

pub trait ServiceProvider: fmt::Debug {
    fn query_service(&self, resource: &BoundResource<'_>) -> Result<ServiceState>;

    fn run_operation(
        &self,
        resource: &BoundResource<'_>,
        operation: ServiceOperation,
    ) -> Result<()>;

    /// The names of all services; none by default.
    fn list_names(&self, _: &BoundResource<'_>) -> Result<Vec<String>> {
        Ok(Vec::new())
    }
}

/// Runs a program; the caller checks the exit code.
pub(super) fn run_program(resource: &BoundResource<'_>, argv: &[&str]) -> Result<CommandOutput> {
    let mut command = Command::new(argv.iter().copied());
    command.cancel = resource.cx.cancel.clone();
    resource
        .cx
        .system
        .run_command(&command)
        .during(resource, format_args!("running {}", argv.join(" ")))
}

/// Whether the command line in `status` says that the service is running; `None` without one.
fn query_status_line(resource: &BoundResource<'_>) -> Result<Option<bool>> {
    let run = |line| run_program(resource, &["/bin/sh", "-c", line]);
    Ok(resource.get_text("status").map(run).transpose()?.map(|output| output.is_success()))
}

/// The state of a service that cannot be started at boot; without a status line, it runs if its process is found.
fn query_unmanaged(
    resource: &BoundResource<'_>,
    has_process: impl FnOnce() -> Result<bool>,
) -> Result<ServiceState> {
    let running = query_status_line(resource)?.map_or_else(has_process, Ok)?;
    Ok(ServiceState { missing: None, running, enable: "unmanaged".to_owned() })
}

/// Runs a command line in a shell and fails on a non-zero exit code.
fn run_line(resource: &BoundResource<'_>, line: &str) -> Result<()> {
    run_checked(resource, &["/bin/sh", "-c", line])
}

/// The line that starts a service without a script.
fn start_line(resource: &Resource) -> Result<&str> {
    resource.get_text("start").or(resource.get_text("binary")).ok_or_else(|| {
        let problem = "Services must specify a start command or a binary";
        EngineError::failed(resource, problem)
    })
}

/// Matches the command lines of the processes of a service.
fn process_pattern(resource: &Resource) -> Result<regex::Regex> {
    let given = resource.get_text("pattern").or(resource.get_text("binary"));
    regex::Regex::new(given.unwrap_or(&resource.name)).map_err(|error| {
        let problem = format!("is not a valid regular expression: {error}");
        EngineError::invalid_value(resource, "pattern", problem)
    })
}

/// Runs a program and fails on a non-zero exit code.
pub(super) fn run_checked(resource: &BoundResource<'_>, argv: &[&str]) -> Result<()> {
    let output = run_program(resource, argv)?;
    if output.is_success() {
        return Ok(());
    }
    Err(EngineError::failed(resource, output.failure_text(&argv.join(" "))))
}
