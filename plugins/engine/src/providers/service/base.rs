//! Services without a service manager: started, stopped and queried as the resource specifies. The minimum is
//! `binary`, which also identifies the process.

use super::{
    ServiceOperation, ServiceProvider, ServiceState, process_pattern, query_status_line,
    run_checked, run_line, run_program, start_line,
};
use crate::error::{EngineError, Result};
use crate::resource::Resource;
use crate::resource_type::ResourceContext;

#[derive(Debug)]
pub struct BaseServiceProvider;

impl ServiceProvider for BaseServiceProvider {
    fn query_service(&self, cx: &ResourceContext<'_>, resource: &Resource) -> Result<ServiceState> {
        Ok(ServiceState::unmanaged(match query_status_line(cx, resource)? {
            Some(running) => running,
            None => find_process(cx, resource)?.is_some(),
        }))
    }

    fn run_operation(
        &self,
        cx: &ResourceContext<'_>,
        resource: &Resource,
        operation: ServiceOperation,
    ) -> Result<()> {
        let line = |name| resource.get_text(name);
        match operation {
            ServiceOperation::Start => run_line(cx, resource, start_line(resource)?),
            ServiceOperation::Stop => match line("stop") {
                Some(line) => run_line(cx, resource, line),
                None => match find_process(cx, resource)? {
                    Some(pid) => run_checked(cx, resource, &["kill", &pid]),
                    None => Ok(()),
                },
            },
            ServiceOperation::Restart => {
                if let Some(line) = line("restart") {
                    return run_line(cx, resource, line);
                }
                self.run_operation(cx, resource, ServiceOperation::Stop)?;
                self.run_operation(cx, resource, ServiceOperation::Start)
            }
            ServiceOperation::Enable | ServiceOperation::Disable | ServiceOperation::Mask => {
                let problem = "the provider `base` cannot enable or disable services at boot";
                Err(EngineError::failed(resource, problem))
            }
        }
    }
}

/// Pid of the first process whose line in the process table matches.
fn find_process(cx: &ResourceContext<'_>, resource: &Resource) -> Result<Option<String>> {
    let pattern = process_pattern(resource)?;
    let table = run_program(cx, resource, &["ps", "-eo", "pid=,args="])?.stdout_text();
    let matching_pid = |line: &str| {
        let (pid, args) = line.trim_start().split_once(' ')?;
        pattern.is_match(args).then(|| pid.to_owned())
    };
    Ok(table.lines().find_map(matching_pid))
}
