//! The ways in which machines start and stop what runs in the background.

pub mod base;
pub mod init;
pub mod supervised;
pub mod systemd;

use std::fmt;
use std::path::Path;

use muster_system::{Command, CommandOutput};

use crate::error::EngineError;
use crate::resource::Resource;
use crate::resource_type::ResourceContext;

/// What is known about one service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceState {
    /// Whether the machine knows a service of that name; if not, this is where it was looked for.
    pub missing: Option<String>,
    /// Whether it runs.
    pub running: bool,
    /// `true`, `false`, `mask`, or the tool's own word for what cannot be enabled.
    pub enable: String,
}

impl ServiceState {
    /// Itself, or the failure that says where it was looked for in vain.
    pub fn require_known(self, resource: &Resource) -> Result<Self, EngineError> {
        match &self.missing {
            None => Ok(self),
            Some(place) => Err(EngineError::failed(
                resource,
                format!("there is no such service: looked for {place}"),
            )),
        }
    }
}

/// What is to be done about a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServiceOperation {
    /// Start it now.
    Start,
    /// Stop it now.
    Stop,
    /// Stop it and start it, or only start it when it does not run.
    Restart,
    /// Start it at boot.
    Enable,
    /// Do not start it at boot.
    Disable,
    /// Let nobody start it.
    Mask,
}

/// A way to look services up and to change them.
pub trait ServiceProvider: fmt::Debug {
    /// What is known about one service.
    fn query_service(
        &self,
        cx: &ResourceContext<'_>,
        resource: &Resource,
    ) -> Result<ServiceState, EngineError>;

    /// Does it.
    fn run_operation(
        &self,
        cx: &ResourceContext<'_>,
        resource: &Resource,
        action: ServiceOperation,
    ) -> Result<(), EngineError>;

    /// The names of all services.
    fn list_names(
        &self,
        cx: &ResourceContext<'_>,
        resource: &Resource,
    ) -> Result<Vec<String>, EngineError>;
}

/// systemd where it runs, init scripts elsewhere; or the one that the resource names.
pub fn choose_provider(
    cx: &ResourceContext<'_>,
    resource: &Resource,
) -> Result<&'static dyn ServiceProvider, EngineError> {
    Ok(match resource.get_text("provider") {
        Some("systemd") => &systemd::SystemdServiceProvider,
        Some("base") => &base::BaseServiceProvider,
        Some("supervised") => &supervised::SupervisedServiceProvider,
        Some(_) => &init::InitServiceProvider,
        None => {
            let found = cx.system.metadata(Path::new("/run/systemd/system"));
            let looking = EngineError::during(resource, "looking for systemd");
            if found.map_err(looking)?.is_some() {
                &systemd::SystemdServiceProvider
            } else {
                &init::InitServiceProvider
            }
        }
    })
}

/// Runs a program; how it ended is for the caller to judge.
pub(super) fn run_program(
    cx: &ResourceContext<'_>,
    resource: &Resource,
    argv: &[&str],
) -> Result<CommandOutput, EngineError> {
    let mut command = Command::new(argv.iter().copied());
    command.cancel = cx.cancel.clone();
    cx.system.run_command(&command).map_err(EngineError::during(
        resource,
        format!("running {}", argv.join(" ")),
    ))
}

/// Runs a program that must succeed.
pub(super) fn run_checked(
    cx: &ResourceContext<'_>,
    resource: &Resource,
    argv: &[&str],
) -> Result<(), EngineError> {
    let output = run_program(cx, resource, argv)?;
    if output.is_success() {
        return Ok(());
    }
    let problem = format!(
        "`{}` ended with {}: {}",
        argv.join(" "),
        output.code,
        output.combined_text().trim()
    );
    Err(EngineError::failed(resource, problem))
}
