//! Services without a service manager: started, stopped and queried as the resource specifies. The minimum is
//! `binary`, which also identifies the process.

use super::{
    ServiceOperation, ServiceProvider, ServiceState, process_pattern, query_unmanaged, run_checked,
    run_line, run_program, start_line,
};
use crate::error::{EngineError, Result};
use crate::resource_type::BoundResource;

#[derive(Debug)]
pub struct BaseServiceProvider;

impl ServiceProvider for BaseServiceProvider {
    fn query_service(&self, resource: &BoundResource<'_>) -> Result<ServiceState> {
        query_unmanaged(resource, || Ok(find_process(resource)?.is_some()))
    }

    fn run_operation(
        &self,
        resource: &BoundResource<'_>,
        operation: ServiceOperation,
    ) -> Result<()> {
        let line = |name| resource.get_text(name);
        match operation {
            ServiceOperation::Start => run_line(resource, start_line(resource)?),
            ServiceOperation::Stop => match line("stop") {
                Some(line) => run_line(resource, line),
                None => match find_process(resource)? {
                    Some(pid) => run_checked(resource, &["kill", &pid]),
                    None => Ok(()),
                },
            },
            ServiceOperation::Restart => {
                if let Some(line) = line("restart") {
                    return run_line(resource, line);
                }
                self.run_operation(resource, ServiceOperation::Stop)?;
                self.run_operation(resource, ServiceOperation::Start)
            }
            ServiceOperation::Enable | ServiceOperation::Disable | ServiceOperation::Mask => {
                let problem = "the provider `base` cannot enable or disable services at boot";
                Err(EngineError::failed(resource, problem))
            }
        }
    }
}

/// Pid of the first process whose line in the process table matches.
fn find_process(resource: &BoundResource<'_>) -> Result<Option<String>> {
    let pattern = process_pattern(resource)?;
    let table = run_program(resource, &["ps", "-eo", "pid=,args="])?.stdout_text();
    let matching_pid = |line: &str| {
        let (pid, args) = line.trim_start().split_once(' ')?;
        pattern.is_match(args).then(|| pid.to_owned())
    };
    Ok(table.lines().find_map(matching_pid))
}
