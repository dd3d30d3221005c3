//! Services started directly by this engine, for containers and tests without an init system: a process in its own session
//! that outlives the daemon, identified by pid and start time.
//!
//! State is stored in `/var/lib/muster/services/NAME`: the file `process`, and the first bytes of
//! each output stream. A process that exits is not restarted until the next run.

use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_system::error::found_or_none;
use muster_system::process::wait_until;
use muster_system::{Command, FileAttributes, ProcessId, ProcessSpool, Signal};

use super::{
    ServiceOperation, ServiceProvider, ServiceState, query_unmanaged, run_line, start_line,
};
use crate::error::{DescribeOperation as _, EngineError, Result};
use crate::providers::paths;
use crate::resource::Resource;
use crate::resource_type::BoundResource;

const SERVICES_DIRECTORY: &str = "/var/lib/muster/services";
const MAX_STATE_FILE_BYTES: u64 = 64 * 1024;
/// Maximum number of bytes kept per output stream.
const MAX_STREAM_BYTES: u64 = 1024 * 1024;
/// How long a busy machine may take until the shell that starts the program runs.
const SHELL_START_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a new process is watched; an exit during this time counts as a failed start.
const STARTUP_WATCH_TIME: Duration = Duration::from_millis(300);
/// Time between TERM and KILL.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub struct SupervisedServiceProvider;

impl ServiceProvider for SupervisedServiceProvider {
    fn query_service(&self, resource: &BoundResource<'_>) -> Result<ServiceState> {
        query_unmanaged(resource, || Ok(find_process(resource)?.is_some()))
    }

    fn run_operation(
        &self,
        resource: &BoundResource<'_>,
        operation: ServiceOperation,
    ) -> Result<()> {
        match operation {
            ServiceOperation::Start => start_service(resource),
            ServiceOperation::Stop => stop_service(resource),
            ServiceOperation::Restart => {
                if let Some(line) = resource.get_text("restart") {
                    return run_line(resource, line);
                }
                stop_service(resource)?;
                start_service(resource)
            }
            ServiceOperation::Enable | ServiceOperation::Disable | ServiceOperation::Mask => {
                let problem =
                    "a supervised service is started by catalog runs and cannot be enabled at boot";
                Err(EngineError::failed(resource, problem))
            }
        }
    }

    fn list_names(&self, resource: &BoundResource<'_>) -> Result<Vec<String>> {
        let operation = format!("listing {SERVICES_DIRECTORY}");
        found_or_none(resource.cx.system.read_dir(Path::new(SERVICES_DIRECTORY)))
            .map(Option::unwrap_or_default)
            .during(resource, operation)
    }
}

fn service_directory(resource: &Resource) -> PathBuf {
    Path::new(SERVICES_DIRECTORY).join(&resource.name)
}

/// The process, if it is running.
fn find_process(resource: &BoundResource<'_>) -> Result<Option<ProcessId>> {
    let path = service_directory(resource).join("process");
    let operation = format!("reading {}", path.display());
    let bytes = found_or_none(resource.cx.system.read_file(&path, MAX_STATE_FILE_BYTES))
        .during(resource, operation)?;
    // An unreadable file was not written completely; treat the process as gone.
    let process: Option<ProcessId> = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    Ok(process.filter(|process| resource.cx.system.is_running(process)))
}

fn start_service(resource: &BoundResource<'_>) -> Result<()> {
    let cx = resource.cx;
    let line = start_line(resource)?;
    let state_directory = service_directory(resource);
    let doing = format_args!("starting {line}");
    let process_file = state_directory.join("process");
    let private = FileAttributes::with_mode(0o700);
    paths::create_dirs(cx.system, &state_directory, &private).during(resource, doing)?;
    cx.system.remove_file(&process_file).during(resource, doing)?;
    let spool =
        ProcessSpool { directory: cx.system.host_path(&state_directory), limit: MAX_STREAM_BYTES };
    let command = Command::new(["/bin/sh", "-c", line]);
    let process = cx.system.start_detached(&command, &spool).during(resource, doing)?;
    let text = serde_json::to_vec(&process)
        .map_err(|error| EngineError::failed(resource, error.to_string()))?;
    let owner_only = FileAttributes::with_mode(0o600);
    cx.system.write_file(&process_file, &text, &owner_only).during(resource, doing)?;
    let has_ended = || !cx.system.is_running(&process);
    let pid_file = state_directory.join(ProcessSpool::PID);
    let is_started = || cx.system.metadata(&pid_file).is_ok_and(|found| found.is_some());
    wait_until(SHELL_START_TIMEOUT, || is_started() || has_ended());
    if wait_until(STARTUP_WATCH_TIME, has_ended) {
        let read_output = |name| {
            // The error of the start is reported with whatever output there is.
            let bytes = cx.system.read_file(&state_directory.join(name), MAX_STREAM_BYTES);
            let bytes = bytes.unwrap_or_default();
            String::from_utf8_lossy(&bytes).trim().to_owned()
        };
        let problem = format!(
            "`{line}` ended immediately with code {}: {}",
            read_output(ProcessSpool::EXIT),
            read_output(ProcessSpool::STDERR)
        );
        return Err(EngineError::failed(resource, problem));
    }
    Ok(())
}

/// Terminates the process; kills it after the timeout.
fn stop_service(resource: &BoundResource<'_>) -> Result<()> {
    let cx = resource.cx;
    if let Some(line) = resource.get_text("stop") {
        return run_line(resource, line);
    }
    let Some(process) = find_process(resource)? else { return Ok(()) };
    let doing = "stopping its process";
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        cx.system.signal_process(&process, signal, true).during(resource, doing)?;
        if wait_until(STOP_TIMEOUT, || !cx.system.is_running(&process)) {
            let path = service_directory(resource).join("process");
            return cx.system.remove_file(&path).during(resource, doing);
        }
    }
    let problem = format!("process {} is still running after SIGKILL", process.pid);
    Err(EngineError::failed(resource, problem))
}
