//! Activity of Puppet's agent and results of its last run, from the files that Puppet writes.
//!
//! A lock counts only while a live Puppet process holds it, by the same test as Puppet's own, and not if an earlier process with the same id has
//! left it. Paths are the node's own.

use std::path::{Path, PathBuf};

use muster_api::base::unix_millis;
use muster_api::system::pid_lock::is_left_over;
use muster_api::system::{System, SystemError};
use serde::Deserialize;

use super::report::{self, PuppetRunReport};
use super::summary::{self, PuppetRunSummary};
use crate::paths::PuppetPaths;

/// Largest lock or pid file, in bytes.
const MAX_LOCK_BYTES: u64 = 16 * 1024;
/// Longest time between the end of a run, as its summary states it, and the time of the summary's file, in seconds.
const MAX_WRITE_SECONDS: u64 = 5;

/// Holder of one of Puppet's lock files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LockHolder {
    /// There is no lock file.
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

/// Current activity of Puppet.
#[derive(Debug, Clone)]
pub(crate) struct AgentActivity {
    pub(crate) disabled: Option<String>,
    pub(crate) run: LockHolder,
    pub(crate) daemon_present: bool,
    pub(crate) summary: Option<PuppetRunSummary>,
    /// When the last run ended, in milliseconds since 1970.
    pub(crate) last_run_end: Option<u64>,
}

impl AgentActivity {
    /// Activity of a machine without Puppet.
    pub(crate) fn without_puppet() -> Self {
        Self {
            disabled: None,
            run: LockHolder::Nobody,
            daemon_present: false,
            summary: None,
            last_run_end: None,
        }
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

/// Reads all locks and pid files.
pub(crate) fn read_activity(
    system: &dyn System,
    paths: &PuppetPaths,
) -> Result<AgentActivity, SystemError> {
    let mut daemon_present = false;
    for directory in &paths.rundirs {
        daemon_present |= lock_holder(system, &directory.join("agent.pid"))?.is_held();
    }
    let summary = read_summary(system, paths)?;
    let last_run_end = summary.as_ref().and_then(|summary| find_run_end(system, paths, summary));
    Ok(AgentActivity {
        disabled: disabled_reason(system, paths)?,
        run: lock_holder(system, &paths.run_lock_path())?,
        daemon_present,
        summary,
        last_run_end,
    })
}

/// The reason for which runs are disabled. An empty or malformed lock disables without a reason.
pub(crate) fn disabled_reason(
    system: &dyn System,
    paths: &PuppetPaths,
) -> Result<Option<String>, SystemError> {
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
pub(crate) fn lock_holder(system: &dyn System, path: &Path) -> Result<LockHolder, SystemError> {
    let Some(text) = read_bounded(system, path, MAX_LOCK_BYTES)? else {
        return Ok(LockHolder::Nobody);
    };
    let Ok(pid) = text.trim().parse::<u32>() else {
        return Ok(LockHolder::Stale(None));
    };
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

/// The summary at the first location where one exists; `None` if it cannot be parsed, for example while it is being written.
pub(crate) fn read_summary(
    system: &dyn System,
    paths: &PuppetPaths,
) -> Result<Option<PuppetRunSummary>, SystemError> {
    for path in paths.summary_paths() {
        if let Some(text) = read_bounded(system, &path, summary::MAX_SUMMARY_BYTES)? {
            return Ok(PuppetRunSummary::parse(&text));
        }
    }
    Ok(None)
}

/// When the run of this summary ended, in milliseconds since 1970. The summary has whole seconds; Puppet writes its file at once, so the time of the file
/// is more precise, unless the file was restored or copied.
pub(crate) fn find_run_end(
    system: &dyn System,
    paths: &PuppetPaths,
    summary: &PuppetRunSummary,
) -> Option<u64> {
    let seconds = summary.last_run()?;
    let modified = |path: PathBuf| Some(unix_millis(system.metadata(&path).ok()??.modified));
    let written = paths.summary_paths().into_iter().find_map(modified);
    let is_near =
        |written: &u64| (seconds..=seconds + MAX_WRITE_SECONDS).contains(&(written / 1000));
    Some(written.filter(is_near).unwrap_or(seconds.saturating_mul(1000)))
}

/// The report of the last run. A partially written one counts as missing.
pub(crate) fn read_report(
    system: &dyn System,
    paths: &PuppetPaths,
) -> Result<Option<PuppetRunReport>, SystemError> {
    let text = read_bounded(system, &paths.report_path(), report::MAX_REPORT_BYTES)?;
    Ok(text.as_deref().and_then(PuppetRunReport::parse))
}

/// Reads a file as text; `None` if it does not exist or was removed meanwhile.
fn read_bounded(
    system: &dyn System,
    path: &Path,
    limit: u64,
) -> Result<Option<String>, SystemError> {
    match system.read_file(path, limit) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if system.metadata(path)?.is_some() => Err(error),
        Err(_) => Ok(None),
    }
}
