//! What is known of the thing that is restarted: whether it runs, and which process it is.

use std::path::Path;
use std::sync::Arc;

use muster_api::system::command::Cancel;
use muster_api::system::{Command, ProcessId, System};
use muster_engine::providers::service::choose;
use muster_engine::{Cx, Engine, EngineError};

use crate::target::Target;

/// Longest file with a process number that is read, in bytes.
const LIMIT: u64 = 4096;
/// Where init scripts' daemons write their process numbers; `NAME` is the service's name.
const PID_FILES: [&str; 5] = [
    "/run/NAME.pid",
    "/run/NAME/NAME.pid",
    "/run/NAME/agent.pid",
    "/var/run/NAME.pid",
    "/var/run/NAME/NAME.pid",
];
/// There when systemd is the first process.
const SYSTEMD: &str = "/run/systemd/system";

/// What is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Look {
    /// Where it was looked for, when the machine does not know it.
    pub(crate) missing: Option<String>,
    /// Whether it runs.
    pub(crate) running: bool,
    /// Its main process, where that can be known.
    pub(crate) process: Option<ProcessId>,
}

/// Whether systemd runs the machine.
pub(crate) fn has_systemd(system: &dyn System) -> bool {
    matches!(system.metadata(Path::new(SYSTEMD)), Ok(Some(_)))
}

/// Looks. `pid_file` is where the thing writes its process number, if it was said.
pub(crate) fn look(
    machine: &Arc<dyn System>,
    target: &Target,
    pid_file: Option<&Path>,
) -> Result<Look, EngineError> {
    let system = &**machine;
    let process = pid_file.and_then(|path| process_in(system, path));
    let Target::Unit(name) = target else {
        return Ok(Look {
            missing: None,
            running: process.is_some(),
            process,
        });
    };
    let resource = Engine::new(Arc::clone(machine)).named("service", name)?;
    let cx = Cx::new(system, Cancel::default());
    let found = choose(&cx, &resource)?.query(&cx, &resource)?;
    let main = || {
        if has_systemd(system) {
            main_pid(system, name)
        } else {
            let paths = PID_FILES.iter().map(|path| path.replace("NAME", name));
            let mut found = paths.filter_map(|path| process_in(system, Path::new(&path)));
            found.next()
        }
    };
    Ok(Look {
        missing: found.missing,
        running: found.running,
        process: if pid_file.is_some() { process } else { main() },
    })
}

fn process_in(system: &dyn System, path: &Path) -> Option<ProcessId> {
    let text = system.read(path, LIMIT).ok()?;
    ProcessId::of(String::from_utf8_lossy(&text).trim().parse().ok()?)
}

/// The main process, as systemd knows it.
fn main_pid(system: &dyn System, name: &str) -> Option<ProcessId> {
    let words = ["systemctl", "show", "--property=MainPID", "--", &unit(name)];
    let output = system.run(&Command::new(words)).ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let pid = text.trim().strip_prefix("MainPID=")?.parse().ok()?;
    // It says 0 when there is none.
    (pid != 0).then(|| ProcessId::of(pid)).flatten()
}

/// systemd's name of a service.
pub(crate) fn unit(name: &str) -> String {
    let kinds = [".socket", ".timer", ".target", ".mount", ".path"];
    if kinds.iter().any(|kind| name.ends_with(kind)) {
        name.to_owned()
    } else {
        format!("{name}.service")
    }
}
