//! `locks`: the run locks of the node and their holders.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use muster_api::system::{StateDir, System};
use muster_api::{ActionError, BlockingContext, EmptyInput};
use muster_contract::puppet::{PuppetLockRow, PuppetLocksOutput};
use muster_engine::lock::{LockError, MusterRunLock};

use super::find_paths;
use crate::files::activity::{LockHolder, disabled_reason, lock_holder};
use crate::paths::PuppetPaths;
use crate::runs::PuppetRunManager;

pub(crate) fn list_locks(
    runs: &Arc<PuppetRunManager>,
    cx: &BlockingContext,
    _: EmptyInput,
) -> Result<PuppetLocksOutput, ActionError> {
    let mut locks = vec![engine_lock_row(runs)?];
    if let Ok(paths) = find_paths(&runs.options, &*cx.system) {
        locks.extend(puppet_lock_rows(&*cx.system, &paths)?);
    }
    let held = locks.iter().filter(|lock| lock.state == "held").count();
    Ok(PuppetLocksOutput { held, locks })
}

fn lock_row(name: &str, path: &Path, state: &str) -> PuppetLockRow {
    PuppetLockRow {
        name: name.to_owned(),
        path: path.display().to_string(),
        state: state.to_owned(),
        pid: None,
        holder: None,
        message: None,
    }
}

/// The lock file has no content, so the lock is probed by acquiring it.
fn engine_lock_row(runs: &PuppetRunManager) -> Result<PuppetLockRow, ActionError> {
    let directory = runs.engine_dir();
    let state = StateDir::open(&directory)?;
    let is_held = match MusterRunLock::acquire(&state, Duration::ZERO) {
        Ok(_) => false,
        Err(LockError::Running { .. }) => true,
        Err(error) => return Err(ActionError::from_cause(error)),
    };
    let path = directory.join("run.lock");
    let mut lock = lock_row("run", &path, if is_held { "held" } else { "free" });
    lock.message = runs
        .current_outcome()
        .map(|outcome| format!("run {} is {}", outcome.run, outcome.state.as_str()));
    Ok(lock)
}

fn puppet_lock_rows(
    system: &dyn System,
    paths: &PuppetPaths,
) -> Result<Vec<PuppetLockRow>, ActionError> {
    let mut locks = Vec::new();
    let ssl = paths.ssldir.join("ssl.lock");
    for (name, path) in [("puppet", paths.run_lock_path()), ("ssl", ssl)] {
        let found = lock_holder(system, &path)?;
        let state = match found {
            LockHolder::Nobody => continue,
            LockHolder::Stale(_) => "stale",
            LockHolder::Process(_) => "held",
        };
        let mut lock = lock_row(name, &path, state);
        lock.pid = found.pid();
        lock.holder = match found {
            LockHolder::Process(pid) => process_name(system, pid),
            _ => None,
        };
        locks.push(lock);
    }
    if let Some(reason) = disabled_reason(system, paths)? {
        let mut lock = lock_row("disabled", &paths.disabled_lock_path(), "held");
        lock.message = Some(reason);
        locks.push(lock);
    }
    Ok(locks)
}

/// Name of a process, from `/proc/PID/comm`.
fn process_name(system: &dyn System, pid: u32) -> Option<String> {
    let name = system.read_file(format!("/proc/{pid}/comm").as_ref(), 4096).ok()?;
    Some(String::from_utf8_lossy(&name).trim().to_owned())
}
