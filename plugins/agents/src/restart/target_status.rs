//! Queries the target of a restart: whether it runs, and its main process.

use std::path::Path;
use std::sync::Arc;

use muster_api::system::command::CancelFlag;
use muster_api::system::{Command, ProcessId, System};
use muster_engine::providers::service::choice::choose_provider;
use muster_engine::{EngineError, ResourceContext, ResourceEngine};

use crate::restart::target::RestartTarget;

/// Largest PID file in bytes.
const MAX_PID_FILE_BYTES: u64 = 4096;
/// PID files of daemons with init scripts. `NAME` stands for the service's name.
const PID_FILES: [&str; 5] = [
    "/run/NAME.pid",
    "/run/NAME/NAME.pid",
    "/run/NAME/agent.pid",
    "/var/run/NAME.pid",
    "/var/run/NAME/NAME.pid",
];
/// Exists if systemd is the init system.
const SYSTEMD_DIRECTORY: &str = "/run/systemd/system";

/// Status of a target.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TargetStatus {
    /// Where the target was searched, if the machine has no such target.
    pub(crate) missing: Option<String>,
    /// Whether it runs.
    pub(crate) running: bool,
    /// Its main process, if it can be determined.
    pub(crate) process: Option<ProcessId>,
}

/// Whether systemd is the init system.
pub(crate) fn has_systemd(system: &dyn System) -> bool {
    matches!(system.metadata(Path::new(SYSTEMD_DIRECTORY)), Ok(Some(_)))
}

/// Queries the target. `pid_file` is the PID file given by the caller, if any.
pub(crate) fn query_target(
    machine: &Arc<dyn System>,
    target: &RestartTarget,
    pid_file: Option<&Path>,
) -> Result<TargetStatus, EngineError> {
    let system = &**machine;
    let process = pid_file.and_then(|path| process_from_file(system, path));
    let RestartTarget::Unit(name) = target else {
        return Ok(TargetStatus { missing: None, running: process.is_some(), process });
    };
    let resource = ResourceEngine::new(Arc::clone(machine)).empty_resource("service", name)?;
    let cx = ResourceContext::new(system, CancelFlag::default());
    let found = choose_provider(&cx.bind(&resource))?.query_service(&cx.bind(&resource))?;
    let main = || {
        if has_systemd(system) {
            main_pid(system, name)
        } else {
            let paths = PID_FILES.iter().map(|path| path.replace("NAME", name));
            let mut found = paths.filter_map(|path| process_from_file(system, Path::new(&path)));
            found.next()
        }
    };
    Ok(TargetStatus {
        missing: found.missing,
        running: found.running,
        process: if pid_file.is_some() { process } else { main() },
    })
}

fn process_from_file(system: &dyn System, path: &Path) -> Option<ProcessId> {
    let text = system.read_file(path, MAX_PID_FILE_BYTES).ok()?;
    ProcessId::from_pid(String::from_utf8_lossy(&text).trim().parse().ok()?)
}

/// The main process as reported by systemd.
fn main_pid(system: &dyn System, name: &str) -> Option<ProcessId> {
    let argv = ["systemctl", "show", "--property=MainPID", "--", &systemd_unit(name)];
    let output = system.run_command(&Command::new(argv)).ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let pid = text.trim().strip_prefix("MainPID=")?.parse().ok()?;
    // systemd reports 0 if there is no main process.
    (pid != 0).then(|| ProcessId::from_pid(pid)).flatten()
}

/// systemd unit name of a service.
pub(crate) fn systemd_unit(name: &str) -> String {
    let kinds = [".socket", ".timer", ".target", ".mount", ".path"];
    if kinds.iter().any(|kind| name.ends_with(kind)) {
        name.to_owned()
    } else {
        format!("{name}.service")
    }
}
