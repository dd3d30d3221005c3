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
use crate::resource_type::ResourceContext;

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
    /// A service that cannot be started at boot.
    fn unmanaged(running: bool) -> Self {
        Self { missing: None, running, enable: "unmanaged".to_owned() }
    }

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
    fn query_service(&self, cx: &ResourceContext<'_>, resource: &Resource) -> Result<ServiceState>;

    fn run_operation(
        &self,
        cx: &ResourceContext<'_>,
        resource: &Resource,
        operation: ServiceOperation,
    ) -> Result<()>;

    /// The names of all services; none by default.
    fn list_names(&self, _: &ResourceContext<'_>, _: &Resource) -> Result<Vec<String>> {
        Ok(Vec::new())
    }
}

/// Runs a program; the caller checks the exit code.
pub(super) fn run_program(
    cx: &ResourceContext<'_>,
    resource: &Resource,
    argv: &[&str],
) -> Result<CommandOutput> {
    let mut command = Command::new(argv.iter().copied());
    command.cancel = cx.cancel.clone();
    cx.system.run_command(&command).during(resource, format_args!("running {}", argv.join(" ")))
}

/// Whether the command line in `status` says that the service is running; `None` without one.
fn query_status_line(cx: &ResourceContext<'_>, resource: &Resource) -> Result<Option<bool>> {
    let run = |line| run_program(cx, resource, &["/bin/sh", "-c", line]);
    Ok(resource.get_text("status").map(run).transpose()?.map(|output| output.is_success()))
}

/// Runs a command line in a shell and fails on a non-zero exit code.
fn run_line(cx: &ResourceContext<'_>, resource: &Resource, line: &str) -> Result<()> {
    run_checked(cx, resource, &["/bin/sh", "-c", line])
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
pub(super) fn run_checked(
    cx: &ResourceContext<'_>,
    resource: &Resource,
    argv: &[&str],
) -> Result<()> {
    let output = run_program(cx, resource, argv)?;
    if output.is_success() {
        return Ok(());
    }
    Err(EngineError::failed(resource, output.failure_text(&argv.join(" "))))
}
