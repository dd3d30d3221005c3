//! Prepares and evaluates one Puppet program: its command line, its catalog and its report. Blocks.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use muster_api::system::error::found_or_none;
use muster_api::system::process::pause;
use muster_api::system::{FileAttributes, ProcessId, StateDir, System, SystemError, SystemResult};
use muster_engine::run::run_files;

use crate::arguments::{PuppetRunFiles, PuppetRunOptions, build_arguments};
use crate::files::activity;
use crate::files::report::PuppetRunReport;
use crate::options::{Options, PuppetApplication};
use crate::paths::{self, PuppetPaths, PuppetPathsError};
use crate::record::ProgramRecord;
use crate::session::{self, ProcessWatcher, SessionOutcome, StopRequest, TRACE_FILE};
use crate::wrapper::refresh_tracker::{
    self, MAX_CATALOG_BYTES, RefreshTracker, find_catalog_file, read_catalog,
};
use crate::wrapper::relations::CatalogRelations;
use crate::wrapper::replay;
use crate::wrapper::trace::TraceLine;

/// The modified catalog that `puppet apply` gets instead of its own.
const PATCHED_FILE: &str = "catalog.json";
/// The agent's original catalog, and its path.
const ORIGINAL_FILE: &str = "original.json";
const ORIGINAL_PATH_FILE: &str = "original.path";
/// Maximum wait for a partially written report to be completed.
const REPORT_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Debug, thiserror::Error)]
pub(crate) enum ProgramStartError {
    #[error(transparent)]
    NoPuppet(#[from] PuppetPathsError),
    #[error("cannot start Puppet")]
    System(#[from] SystemError),
    #[error("[plugins.puppet] application is `apply` but neither `catalog` nor `manifest` is set")]
    NothingToApply,
}

#[derive(Debug)]
pub(crate) struct PreparedProgram<'a> {
    pub(crate) options: &'a Options,
    pub(crate) system: &'a dyn System,
    pub(crate) paths: &'a PuppetPaths,
    pub(crate) directory: PathBuf,
    pub(crate) run_options: &'a PuppetRunOptions,
    /// Targets that are owed a refresh.
    pub(crate) owed: Vec<String>,
    pub(crate) trace: Option<String>,
}

/// A program whose files are in place.
#[derive(Debug)]
pub(crate) struct ReadyProgram {
    argv: Vec<String>,
    pub(crate) directory: PathBuf,
    /// The refreshes that it is to make.
    pub(crate) targets: Vec<String>,
    trace: Option<String>,
}

impl ReadyProgram {
    pub(crate) fn start(self, system: &dyn System) -> Result<ProcessId, ProgramStartError> {
        Ok(session::start_process(system, self.argv, &self.directory, self.trace)?)
    }
}

impl PreparedProgram<'_> {
    /// Writes the files of the program. Without `targets`, it gets the owed refreshes that are possible with the catalog that already exists.
    pub(crate) fn write_files(
        self,
        targets: Vec<String>,
    ) -> Result<ReadyProgram, ProgramStartError> {
        let options = self.options;
        let is_apply = options.application == PuppetApplication::Apply;
        if is_apply && options.catalog.is_none() && options.manifest.is_none() {
            return Err(ProgramStartError::NothingToApply);
        }
        for path in options.applied_paths() {
            found_or_none(self.system.check_protected(path))?;
        }
        let program = paths::find_program(options, self.system)?;
        // Recreated empty: a restarted run must not read the files of its previous program.
        StateDir::recreate(&self.directory)?;
        let targets = self.replay_targets(targets);
        let patched = self.patch_catalog(&targets, is_apply)?;
        // Puppet would apply the catalog of an earlier run if it found one.
        if let (Some(directory), None) = (options.compiled_dir(), &patched) {
            StateDir::recreate(&directory)?;
        }
        let files = PuppetRunFiles {
            program: &program,
            trace: &self.directory.join(TRACE_FILE),
            catalog: patched.as_deref().or(options.catalog.as_deref()),
        };
        let argv = build_arguments(options, self.run_options, files);
        Ok(ReadyProgram { argv, directory: self.directory, targets, trace: self.trace })
    }

    fn replay_targets(&self, targets: Vec<String>) -> Vec<String> {
        let has_catalog = match self.options.application {
            PuppetApplication::Apply => self.options.catalog.is_some(),
            PuppetApplication::Agent => self.run_options.use_cached_catalog == Some(true),
        };
        if !targets.is_empty() || !has_catalog || !self.run_options.is_unrestricted() {
            return targets;
        }
        match catalog_path(self.options, self.paths, self.system) {
            Some(path) => replayable_targets(self.system, &path, None, self.owed.clone()),
            None => Vec::new(),
        }
    }

    /// Adds the refreshes to the catalog; returns its path for `puppet apply`. The agent's catalog is modified in place and restored afterwards.
    fn patch_catalog(&self, targets: &[String], is_apply: bool) -> SystemResult<Option<PathBuf>> {
        if targets.is_empty() {
            return Ok(None);
        }
        let path = catalog_path(self.options, self.paths, self.system)
            .and_then(|path| find_catalog_file(self.system, path));
        let original =
            path.as_ref().and_then(|path| self.system.read_file(path, MAX_CATALOG_BYTES).ok());
        let (Some(path), Some(original)) = (path, original) else { return Ok(None) };
        let document = serde_json::from_slice(&original).unwrap_or_default();
        let Some(patched) = replay::add_replay_resource(document, targets) else { return Ok(None) };
        let bytes = patched.to_string().into_bytes();
        let state = StateDir::open(&self.directory)?;
        if is_apply {
            state.replace_file(PATCHED_FILE, &bytes)?;
            return Ok(Some(self.directory.join(PATCHED_FILE)));
        }
        // Save the original before the overwrite, so that it can be restored after a crash.
        state.replace_file(ORIGINAL_FILE, &original)?;
        state.replace_file(ORIGINAL_PATH_FILE, path.as_os_str().as_encoded_bytes())?;
        self.system.write_file(&path, &bytes, &FileAttributes::default())?;
        Ok(None)
    }
}

/// Stores a copy of the run's catalog in the engine's directory. A failure is logged: it concerns only a later replay.
pub(crate) fn keep_catalog(system: &dyn System, path: &Path, engine: &Path) {
    let keep = || {
        let Some(path) = find_catalog_file(system, path.to_owned()) else { return Ok(()) };
        let catalog = system.read_file(&path, MAX_CATALOG_BYTES)?;
        StateDir::open(engine)?.replace_file(run_files::CATALOG_FILE, &catalog)
    };
    if let Err(error) = keep() {
        let path = path.display();
        tracing::warn!(%error, %path, "cannot keep the catalog of the run; `rpc do ledger replay` needs it");
    }
}

/// Why a catalog file is not valid JSON, with file, line and column; `None` if it is, or if it cannot be read.
pub(crate) fn catalog_file_problem(system: &dyn System, path: &Path) -> Option<String> {
    let bytes = system.read_file(path, MAX_CATALOG_BYTES).ok()?;
    let error = serde_json::from_slice::<serde::de::IgnoredAny>(&bytes).err()?;
    let (line, column) = (error.line(), error.column());
    let text = error.to_string();
    let reason = text.split(" at line ").next().unwrap_or_default();
    Some(format!(
        "the catalog is not valid JSON: {reason} (file: {}, line: {line}, column: {column})",
        path.display()
    ))
}

/// Restores the agent's catalog if it was changed for the program that ran in this directory.
pub(crate) fn restore_catalog(system: &dyn System, directory: &Path) {
    let restore = || {
        let state = StateDir::open(directory)?;
        let path = state.read_file(ORIGINAL_PATH_FILE, 4096)?;
        if let (Some(path), Some(original)) =
            (path, state.read_file(ORIGINAL_FILE, MAX_CATALOG_BYTES)?)
        {
            let path = PathBuf::from(String::from_utf8_lossy(&path).into_owned());
            system.write_file(&path, &original, &FileAttributes::default())?;
            state.remove_file(ORIGINAL_PATH_FILE)?;
        }
        Ok::<(), SystemError>(())
    };
    if let Err(error) = restore() {
        tracing::warn!(%error, "cannot restore Puppet's cached catalog after a replay");
    }
}

/// A running program with the data needed to follow it.
#[derive(Debug)]
pub(crate) struct ProgramMonitor {
    pub(crate) system: Arc<dyn System>,
    pub(crate) engine: PathBuf,
    pub(crate) run: String,
    pub(crate) is_noop: bool,
    pub(crate) catalog: Option<PathBuf>,
    pub(crate) step: ProgramRecord,
    pub(crate) stop: Arc<StopRequest>,
    pub(crate) grace: Duration,
    /// Whether an earlier daemon started it.
    pub(crate) is_resumed: bool,
}

impl ProgramMonitor {
    pub(crate) fn run_to_end(
        self,
        mut on_line: impl FnMut(&TraceLine),
    ) -> SystemResult<SessionOutcome> {
        let Some(process) = self.step.process else { return Ok(SessionOutcome::default()) };
        let engine = StateDir::open(&self.engine)?;
        let Self { run, is_noop, catalog, is_resumed, .. } = self;
        let tracker = RefreshTracker::open(&engine, run, is_noop, catalog, is_resumed)?;
        let watcher = ProcessWatcher {
            system: &*self.system,
            process,
            directory: self.step.directory,
            tracker,
            targets: &self.step.targets,
            stop: &self.stop,
            grace: self.grace,
        };
        watcher.run_to_end(&mut on_line)
    }
}

/// Path of a run's catalog, which may not exist until Puppet has received it; or of the directory in which it will be the only one.
pub(crate) fn catalog_path(
    options: &Options,
    paths: &PuppetPaths,
    system: &dyn System,
) -> Option<PathBuf> {
    if let Some(directory) = options.compiled_dir() {
        return Some(directory.join("catalog"));
    }
    if options.application == PuppetApplication::Apply {
        return options.catalog.clone();
    }
    let directory = paths.catalog_dir();
    let catalog_file = |host: &str| directory.join(format!("{host}.json"));
    if let Some(certname) = &options.certname {
        return Some(catalog_file(certname));
    }
    let report = activity::read_report(system, paths).ok().flatten();
    let host = report.and_then(|report| report.text_field("host"));
    let host = host.filter(|host| !host.contains('/'));
    if let Some(host) = host {
        return Some(catalog_file(&host));
    }
    find_catalog_file(system, directory)
}

/// Of the owed targets, those that this catalog can refresh; by the report of its last run, if there is one.
pub(crate) fn replayable_targets(
    system: &dyn System,
    path: &Path,
    report: Option<&PuppetRunReport>,
    owed: Vec<String>,
) -> Vec<String> {
    if owed.is_empty() {
        return owed;
    }
    let Some(document) = read_catalog(system, path) else { return Vec::new() };
    let relations = CatalogRelations::from_catalog(&document);
    let is_replayable = |target: &String| {
        let Some(spelling) = relations.catalog_spelling(target) else { return false };
        let outcome = report.and_then(|report| report.resource_outcome(spelling));
        let can_refresh = outcome.is_none_or(|outcome| {
            !(outcome.failed || outcome.failed_to_restart || outcome.skipped)
        });
        can_refresh && !relations.is_noop(target)
    };
    owed.into_iter().filter(is_replayable).collect()
}

/// Targets that are owed a refresh, by the ledger in this directory; empty if the ledger cannot be read.
pub(crate) fn owed_targets(engine: &Path) -> Vec<String> {
    let state = StateDir::open(engine);
    state.and_then(|state| refresh_tracker::owed_targets(&state)).unwrap_or_default()
}

/// Reads the report; waits at most [`REPORT_TIMEOUT`] for one that is being written.
pub(crate) fn wait_for_report(system: &dyn System, paths: &PuppetPaths) -> Option<PuppetRunReport> {
    let deadline = Instant::now() + REPORT_TIMEOUT;
    loop {
        match activity::read_report(system, paths) {
            Ok(Some(report)) => return Some(report),
            _ if !report_exists(system, paths) || Instant::now() >= deadline => return None,
            _ => pause(Duration::from_millis(100)),
        }
    }
}

fn report_exists(system: &dyn System, paths: &PuppetPaths) -> bool {
    system.metadata(&paths.report_path()).is_ok_and(|found| found.is_some())
}
