//! The last run of the node, by Puppet or by the engine of this program. Both write a summary and a report of the same layout, each into its own directory.

use std::fs::File;
use std::path::{Path, PathBuf};

use muster_api::base::unix_millis;
use muster_api::system::{System, SystemResult};
use muster_engine::run::run_files::{REPORT_FILE, RESOURCES_FILE, SUMMARY_FILE};

use super::activity::read_bounded;
use super::report::{MAX_REPORT_BYTES, PuppetRunReport};
use super::summary::{MAX_SUMMARY_BYTES, PuppetRunSummary};
use crate::paths::PuppetPaths;
use crate::program;

/// Longest time between the end of a run, as its summary states it, and the time of the summary's file, in seconds.
const MAX_WRITE_SECONDS: u64 = 5;

#[derive(Debug, Clone)]
pub(crate) struct LastRun {
    pub(crate) summary: PuppetRunSummary,
    /// When it ended, in milliseconds since 1970.
    pub(crate) ended: Option<u64>,
    files: RunFiles,
}

#[derive(Debug, Clone)]
enum RunFiles {
    /// Puppet, below the node's root.
    Puppet(Box<PuppetPaths>),
    /// The engine, in its directory on the host.
    Engine(PathBuf),
}

/// Reads the run that ended last; `None` if there was none, or its summary is being written. `paths` are those of Puppet, if it is installed.
pub(crate) fn read_last_run(
    system: &dyn System,
    paths: Option<&PuppetPaths>,
    engine: &Path,
) -> SystemResult<Option<LastRun>> {
    let puppet = paths.map(|paths| read_puppet_run(system, paths)).transpose()?.flatten();
    let runs = puppet.into_iter().chain(read_engine_run(engine));
    Ok(runs.max_by_key(|run| run.ended))
}

/// Puppet's run of the summary at the first location where one exists; `None` if it cannot be parsed, for example while it is being written.
pub(crate) fn read_puppet_run(
    system: &dyn System,
    paths: &PuppetPaths,
) -> SystemResult<Option<LastRun>> {
    for path in paths.summary_paths() {
        if let Some(text) = read_bounded(system, &path, MAX_SUMMARY_BYTES)? {
            let written = system.metadata(&path).ok().flatten();
            let written = written.map(|metadata| unix_millis(metadata.modified));
            return Ok(PuppetRunSummary::parse(&text).map(|summary| LastRun {
                ended: run_end(&summary, written),
                summary,
                files: RunFiles::Puppet(Box::new(paths.clone())),
            }));
        }
    }
    Ok(None)
}

fn read_engine_run(directory: &Path) -> Option<LastRun> {
    let path = directory.join(SUMMARY_FILE);
    let summary = PuppetRunSummary::parse(&read_host_file(&path, MAX_SUMMARY_BYTES)?)?;
    let written = path.metadata().and_then(|metadata| metadata.modified()).ok().map(unix_millis);
    let files = RunFiles::Engine(directory.to_owned());
    Some(LastRun { ended: run_end(&summary, written), summary, files })
}

/// When the run of this summary ended, in milliseconds since 1970. The summary has whole seconds; its file is written at once, so the time of the file is
/// more precise, unless the file was restored or copied.
fn run_end(summary: &PuppetRunSummary, written: Option<u64>) -> Option<u64> {
    let seconds = summary.last_run()?;
    let is_near =
        |written: &u64| (seconds..=seconds + MAX_WRITE_SECONDS).contains(&(written / 1000));
    Some(written.filter(is_near).unwrap_or(seconds.saturating_mul(1000)))
}

/// The text of a file of the host; `None` if it cannot be read or is larger.
fn read_host_file(path: &Path, limit: u64) -> Option<String> {
    let bytes = muster_files::read_limited(File::open(path).ok()?, limit).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

impl LastRun {
    /// Its report; waits a little for one that Puppet is writing.
    pub(crate) fn read_report(&self, system: &dyn System) -> Option<PuppetRunReport> {
        match &self.files {
            RunFiles::Puppet(paths) => program::wait_for_report(system, paths),
            RunFiles::Engine(directory) => PuppetRunReport::parse_json(&read_host_file(
                &directory.join(REPORT_FILE),
                MAX_REPORT_BYTES,
            )?),
        }
    }

    /// The resources of its catalog, one per line.
    pub(crate) fn read_resources(&self, system: &dyn System) -> String {
        let text = match &self.files {
            RunFiles::Puppet(paths) => {
                let path = paths.state_dir().join(RESOURCES_FILE);
                read_bounded(system, &path, MAX_REPORT_BYTES).ok().flatten()
            }
            RunFiles::Engine(directory) => {
                read_host_file(&directory.join(RESOURCES_FILE), MAX_REPORT_BYTES)
            }
        };
        text.unwrap_or_default()
    }
}
