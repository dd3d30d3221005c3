//! Activity of Puppet's agent and results of its last run, from the files that Puppet writes.
//!
//! A lock counts only while a live Puppet process holds it, by the same test as Puppet's own, and not if an earlier process with the same id has
//! left it. Paths are the node's own.

use std::path::Path;

use muster_api::system::pid_lock::is_left_over;
use muster_api::system::{System, SystemResult};
use serde::Deserialize;

use super::last_run::{LastRun, read_last_run};
use super::report::{self, PuppetRunReport};
use super::summary::PuppetRunSummary;
use crate::paths::PuppetPaths;

const MAX_LOCK_BYTES: u64 = 16 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LockHolder {
    Nobody,
    /// The lock is stale: Puppet would take it over.
    Stale(Option<u32>),
    /// A process that Puppet recognises as a Puppet.
    Process(u32),
}

impl LockHolder {
    pub(crate) fn pid(self) -> Option<u32> {
        match self {
            Self::Nobody => None,
            Self::Stale(pid) => pid,
            Self::Process(pid) => Some(pid),
        }
    }

    pub(crate) fn is_held(self) -> bool {
        matches!(self, Self::Process(_))
    }
}

#[derive(Debug, Clone)]
pub(crate) struct AgentActivity {
    pub(crate) disabled: Option<String>,
    pub(crate) run: LockHolder,
    pub(crate) daemon_present: bool,
    pub(crate) last_run: Option<LastRun>,
}

impl AgentActivity {
    pub(crate) fn summary(&self) -> Option<&PuppetRunSummary> {
        self.last_run.as_ref().map(|run| &run.summary)
    }

    pub(crate) fn is_idling(&self) -> bool {
        self.daemon_present && !self.run.is_held()
    }

    /// Status name of `MCollective`'s `puppet` agent; the first that applies.
    pub(crate) fn status_name(&self) -> &'static str {
        match (&self.disabled, self.run.is_held(), self.daemon_present) {
            (Some(_), ..) => "disabled",
            (None, true, _) => "applying a catalog",
            (None, false, true) => "idling",
            (None, false, false) => "stopped",
        }
    }
}

/// Reads locks, pid files and the last run. `paths` are those of Puppet, if it is installed; `engine` is the directory of the engine.
pub(crate) fn read_activity(
    system: &dyn System,
    paths: Option<&PuppetPaths>,
    engine: &Path,
) -> SystemResult<AgentActivity> {
    let last_run = read_last_run(system, paths, engine)?;
    let Some(paths) = paths else {
        let run = LockHolder::Nobody;
        return Ok(AgentActivity { disabled: None, run, daemon_present: false, last_run });
    };
    let mut daemon_present = false;
    for directory in &paths.rundirs {
        daemon_present |= lock_holder(system, &directory.join("agent.pid"))?.is_held();
    }
    Ok(AgentActivity {
        disabled: disabled_reason(system, paths)?,
        run: lock_holder(system, &paths.run_lock_path())?,
        daemon_present,
        last_run,
    })
}

/// An empty or malformed lock disables without a reason.
pub(crate) fn disabled_reason(
    system: &dyn System,
    paths: &PuppetPaths,
) -> SystemResult<Option<String>> {
    #[derive(Deserialize)]
    struct DisabledLockFile {
        disabled_message: String,
    }
    let lock = read_bounded(system, &paths.disabled_lock_path(), MAX_LOCK_BYTES)?;
    Ok(lock.map(|lock| {
        serde_json::from_str(&lock).map_or_else(
            |_| "reason not specified".to_owned(),
            |DisabledLockFile { disabled_message }| disabled_message,
        )
    }))
}

/// Holder of a lock file that contains a process id.
pub(crate) fn lock_holder(system: &dyn System, path: &Path) -> SystemResult<LockHolder> {
    let Some(text) = read_bounded(system, path, MAX_LOCK_BYTES)? else {
        return Ok(LockHolder::Nobody);
    };
    let Ok(pid) = text.trim().parse::<u32>() else { return Ok(LockHolder::Stale(None)) };
    let proc =
        |file: &str| read_bounded(system, format!("/proc/{pid}/{file}").as_ref(), MAX_LOCK_BYTES);
    let name = proc("comm")?.unwrap_or_default();
    let name = name.trim_end();
    let is_puppet = name.ends_with("puppet")
        || name.contains("puppet-")
        || (name.contains("ruby")
            && proc("cmdline")?.is_some_and(|words| words.contains("puppet")));
    let is_held = is_puppet && !is_left_over(&system.host_path(path), pid);
    Ok(if is_held { LockHolder::Process(pid) } else { LockHolder::Stale(Some(pid)) })
}

/// A partially written one counts as missing.
pub(crate) fn read_report(
    system: &dyn System,
    paths: &PuppetPaths,
) -> SystemResult<Option<PuppetRunReport>> {
    let text = read_bounded(system, &paths.report_path(), report::MAX_REPORT_BYTES)?;
    Ok(text.as_deref().and_then(PuppetRunReport::parse))
}

/// Reads a file as text; `None` if it does not exist or was removed meanwhile.
pub(crate) fn read_bounded(
    system: &dyn System,
    path: &Path,
    limit: u64,
) -> SystemResult<Option<String>> {
    match system.read_file(path, limit) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if system.metadata(path)?.is_some() => Err(error),
        Err(_) => Ok(None),
    }
}
