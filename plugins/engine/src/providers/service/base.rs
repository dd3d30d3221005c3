//! Services without a service manager: started, stopped and queried as the resource specifies. The minimum is
//! `binary`, which also identifies the process.

use super::{ServiceOperation, ServiceProvider, ServiceState, run_checked, run_program};
use crate::error::{EngineError, Result};
use crate::resource::Resource;
use crate::resource_type::ResourceContext;

/// Value of `enable`: starting at boot is not supported.
const UNMANAGED_ENABLE: &str = "unmanaged";

/// The base provider.
#[derive(Debug)]
pub struct BaseServiceProvider;

impl ServiceProvider for BaseServiceProvider {
    fn query_service(&self, cx: &ResourceContext<'_>, resource: &Resource) -> Result<ServiceState> {
        let running = match resource.get_text("status") {
            Some(line) => run_program(cx, resource, &["/bin/sh", "-c", line])?.is_success(),
            None => find_process(cx, resource)?.is_some(),
        };
        Ok(ServiceState { missing: None, running, enable: UNMANAGED_ENABLE.to_owned() })
    }

    fn run_operation(
        &self,
        cx: &ResourceContext<'_>,
        resource: &Resource,
        operation: ServiceOperation,
    ) -> Result<()> {
        match operation {
            ServiceOperation::Start => {
                match resource.get_text("start").or(resource.get_text("binary")) {
                    Some(line) => run_checked(cx, resource, &["/bin/sh", "-c", line]),
                    None => Err(EngineError::failed(
                        resource,
                        "Services must specify a start command or a binary",
                    )),
                }
            }
            ServiceOperation::Stop => match resource.get_text("stop") {
                Some(line) => run_checked(cx, resource, &["/bin/sh", "-c", line]),
                None => match find_process(cx, resource)? {
                    Some(pid) => run_checked(cx, resource, &["kill", &pid]),
                    None => Ok(()),
                },
            },
            ServiceOperation::Restart => {
                if let Some(line) = resource.get_text("restart") {
                    return run_checked(cx, resource, &["/bin/sh", "-c", line]);
                }
                self.run_operation(cx, resource, ServiceOperation::Stop)?;
                self.run_operation(cx, resource, ServiceOperation::Start)
            }
            ServiceOperation::Enable | ServiceOperation::Disable | ServiceOperation::Mask => {
                Err(EngineError::failed(
                    resource,
                    "the provider `base` cannot enable or disable services at boot",
                ))
            }
        }
    }

    fn list_names(&self, _: &ResourceContext<'_>, _: &Resource) -> Result<Vec<String>> {
        Ok(Vec::new())
    }
}

/// Pid of the first process whose line in the process table matches.
fn find_process(cx: &ResourceContext<'_>, resource: &Resource) -> Result<Option<String>> {
    let given = resource.get_text("pattern").or(resource.get_text("binary"));
    let pattern = given.unwrap_or(&resource.name);
    let pattern = regex::Regex::new(pattern).map_err(|error| {
        let problem = format!("is not a valid regular expression: {error}");
        EngineError::invalid_value(resource, "pattern", problem)
    })?;
    let output = run_program(cx, resource, &["ps", "-eo", "pid=,args="])?;
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    let matching_pid = |line: &str| {
        let (pid, args) = line.trim_start().split_once(' ')?;
        pattern.is_match(args).then(|| pid.to_owned())
    };
    Ok(table.lines().find_map(matching_pid))
}
