//! Services that we start ourselves, for containers and tests where no init system runs: a process in a session of its own
//! that outlives the daemon, known for certain by its number and start.
//!
//! What is known of it is on the disk, in `/var/lib/muster/services/NAME`: `process`, and what it printed, the first bytes of
//! each stream. Nobody starts it again when it ends by itself; the next run does.

use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_system::process::wait_until;
use muster_system::{Attributes, Command, ProcessId, Signal, Spool};

use super::{Action, Service, Services, must, run};
use crate::error::EngineError;
use crate::providers::paths;
use crate::resource::Resource;
use crate::resource_type::Cx;

const PLACE: &str = "/var/lib/muster/services";
/// Longest file of ours that is read, in bytes.
const LIMIT: u64 = 64 * 1024;
/// Bytes of each output stream that are kept.
const KEPT: u64 = 1024 * 1024;
/// How long a new process is watched: one that ends meanwhile has not started.
const WATCHED: Duration = Duration::from_millis(300);
/// How long a process has to end before it is killed.
const GRACE: Duration = Duration::from_secs(10);

/// The provider.
#[derive(Debug)]
pub struct Supervised;

impl Services for Supervised {
    fn query(&self, cx: &Cx<'_>, resource: &Resource) -> Result<Service, EngineError> {
        let running = match resource.text("status") {
            Some(line) => run(cx, resource, &["/bin/sh", "-c", line])?.success(),
            None => process(cx, resource)?.is_some(),
        };
        Ok(Service {
            missing: None,
            running,
            enable: "unmanaged".to_owned(),
        })
    }

    fn act(&self, cx: &Cx<'_>, resource: &Resource, action: Action) -> Result<(), EngineError> {
        match action {
            Action::Start => start(cx, resource),
            Action::Stop => stop(cx, resource),
            Action::Restart => {
                if let Some(line) = resource.text("restart") {
                    return must(cx, resource, &["/bin/sh", "-c", line]);
                }
                stop(cx, resource)?;
                start(cx, resource)
            }
            Action::Enable | Action::Disable | Action::Mask => Err(EngineError::failed(
                resource,
                "a supervised service is started by runs, and not at boot",
            )),
        }
    }

    fn names(&self, cx: &Cx<'_>, resource: &Resource) -> Result<Vec<String>, EngineError> {
        match cx.system.read_dir(Path::new(PLACE)) {
            Ok(names) => Ok(names),
            Err(error) if error.is_not_found() => Ok(Vec::new()),
            Err(error) => Err(EngineError::during(resource, format!("listing {PLACE}"))(
                error,
            )),
        }
    }
}

fn directory(resource: &Resource) -> PathBuf {
    Path::new(PLACE).join(&resource.name)
}

/// The process, if it still runs.
fn process(cx: &Cx<'_>, resource: &Resource) -> Result<Option<ProcessId>, EngineError> {
    let path = directory(resource).join("process");
    let bytes = match cx.system.read(&path, LIMIT) {
        Ok(bytes) => bytes,
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error) => {
            let reading = format!("reading {}", path.display());
            return Err(EngineError::during(resource, reading)(error));
        }
    };
    // What cannot be read is as good as gone: it was not written to its end.
    let process: Option<ProcessId> = serde_json::from_slice(&bytes).ok();
    Ok(process.filter(|process| cx.system.is_running(process)))
}

fn start(cx: &Cx<'_>, resource: &Resource) -> Result<(), EngineError> {
    let line = resource.text("start").or(resource.text("binary"));
    let line = line.ok_or_else(|| {
        let problem = "Services must specify a start command or a binary";
        EngineError::failed(resource, problem)
    })?;
    let place = directory(resource);
    let failing = || EngineError::during(resource, format!("starting {line}"));
    let private = Attributes {
        mode: Some(0o700),
        ..Attributes::default()
    };
    paths::create_dirs(cx.system, &place, &private).map_err(failing())?;
    cx.system
        .remove_file(&place.join("process"))
        .map_err(failing())?;
    let inside = place.strip_prefix("/").unwrap_or(&place);
    let spool = Spool {
        directory: cx.system.root().join(inside),
        limit: KEPT,
    };
    let command = Command::new(["/bin/sh", "-c", line]);
    let process = cx.system.start(&command, &spool).map_err(failing())?;
    // A number and a time always make a JSON text.
    let text = serde_json::to_vec(&process).unwrap_or_default();
    let owner_only = Attributes {
        mode: Some(0o600),
        ..Attributes::default()
    };
    cx.system
        .write(&place.join("process"), &text, &owner_only)
        .map_err(failing())?;
    if wait_until(WATCHED, || !cx.system.is_running(&process)) {
        let said = |name| {
            let bytes = cx.system.read(&place.join(name), KEPT).unwrap_or_default();
            String::from_utf8_lossy(&bytes).trim().to_owned()
        };
        let problem = format!(
            "`{line}` ended at once with {}: {}",
            said(Spool::EXIT),
            said(Spool::STDERR)
        );
        return Err(EngineError::failed(resource, problem));
    }
    Ok(())
}

/// Asks it to end, and ends it if it does not.
fn stop(cx: &Cx<'_>, resource: &Resource) -> Result<(), EngineError> {
    if let Some(line) = resource.text("stop") {
        return must(cx, resource, &["/bin/sh", "-c", line]);
    }
    let Some(process) = process(cx, resource)? else {
        return Ok(());
    };
    let failing = || EngineError::during(resource, "stopping its process");
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        cx.system
            .signal(&process, signal, true)
            .map_err(failing())?;
        if wait_until(GRACE, || !cx.system.is_running(&process)) {
            let path = directory(resource).join("process");
            return cx.system.remove_file(&path).map_err(failing());
        }
    }
    let problem = format!(
        "its process {} does not end, not even when killed",
        process.pid
    );
    Err(EngineError::failed(resource, problem))
}
