//! The schedules of a directory. A file that becomes invalid keeps its last valid content, and never stops the other ones.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use muster_api::base::error_chain;
use muster_api::system::error::found_or_none;
use muster_api::system::{FileEntryKind, System, SystemResult};

use super::schedule_file::{ScheduledCheck, parse_schedule_file};

const MAX_FILE_BYTES: u64 = 1024 * 1024;
/// A file that changed less than this ago is read again: a later change could leave its times as they are.
const SETTLE_TIME: Duration = Duration::from_secs(1);
const MAX_FILES: usize = 500;
/// Most checks of a node.
const MAX_CHECKS: usize = 1000;

/// The schedules, and what is wrong with them.
#[derive(Debug, Default)]
pub(crate) struct ScheduleTable {
    files: BTreeMap<PathBuf, LoadedFile>,
    pub(crate) checks: BTreeMap<String, ScheduledCheck>,
    /// One line for each problem.
    pub(crate) problems: Vec<String>,
}

#[derive(Debug, Default)]
struct LoadedFile {
    stamp: Option<FileStamp>,
    checks: Vec<ScheduledCheck>,
    problem: Option<String>,
}

/// Tells whether a file has changed.
#[derive(Debug, PartialEq, Eq)]
struct FileStamp {
    inode: u64,
    size: u64,
    modified: SystemTime,
    changed: SystemTime,
}

impl ScheduleTable {
    /// Reads the files that have changed, or all of them. Returns whether anything is different. Blocks.
    pub(crate) fn refresh(&mut self, system: &dyn System, directory: &Path, all: bool) -> bool {
        let (paths, problem) = match list_files(system, directory) {
            Ok(paths) => (paths, None),
            // What was read before remains.
            Err(error) => {
                let problem = format!("{}: {}", directory.display(), error_chain(&error));
                (self.files.keys().cloned().collect(), Some(problem))
            }
        };
        let before = self.files.len();
        self.files.retain(|path, _| paths.contains(path));
        let mut has_changed = before != self.files.len();
        for path in paths {
            let file = self.files.entry(path.clone()).or_default();
            has_changed |= file.refresh(system, &path, all);
        }
        let problems = self.merge(problem);
        has_changed |= problems != self.problems;
        self.problems = problems;
        has_changed
    }

    /// The checks of all files, in the order of their names. Returns the problems.
    fn merge(&mut self, problem: Option<String>) -> Vec<String> {
        let mut problems = Vec::from_iter(problem);
        self.checks.clear();
        let mut sources: BTreeMap<&str, &Path> = BTreeMap::new();
        for (path, file) in &self.files {
            problems.extend(file.problem.clone());
            for check in &file.checks {
                let (name, shown) = (check.name.as_str(), path.display());
                if let Some(first) = sources.get(name) {
                    problems.push(format!(
                        "{shown}: check `{name}`: {} has this name already; rename one of them",
                        first.display()
                    ));
                } else if self.checks.len() >= MAX_CHECKS {
                    problems.push(format!(
                        "{shown}: check `{name}`: not run, a node has at most {MAX_CHECKS} checks; remove some"
                    ));
                } else {
                    sources.insert(name, path);
                    self.checks.insert(name.to_owned(), check.clone());
                }
            }
        }
        problems
    }
}

impl LoadedFile {
    fn refresh(&mut self, system: &dyn System, path: &Path, all: bool) -> bool {
        let stamp = FileStamp::read(system, path);
        if !all && stamp.is_some() && stamp == self.stamp {
            return false;
        }
        let kept = if self.checks.is_empty() {
            "none of its checks run"
        } else {
            "its checks run as before"
        };
        let refuse = |error: String| Some(format!("{}: {error}; {kept}", path.display()));
        match read_schedules(system, path) {
            Ok(checks) => (self.checks, self.problem) = (checks, None),
            Err(error) => self.problem = refuse(error),
        }
        self.stamp = stamp;
        true
    }
}

impl FileStamp {
    /// `None` if the file may change without another stamp.
    fn read(system: &dyn System, path: &Path) -> Option<Self> {
        let found = system.metadata(path).ok()??;
        let age = system.now().duration_since(found.changed.max(found.modified));
        if found.kind == FileEntryKind::Link || age.map_or(true, |age| age < SETTLE_TIME) {
            return None;
        }
        let (inode, size, modified, changed) =
            (found.inode, found.size, found.modified, found.changed);
        Some(Self { inode, size, modified, changed })
    }
}

fn read_schedules(system: &dyn System, path: &Path) -> Result<Vec<ScheduledCheck>, String> {
    let read = system.check_protected(path).and_then(|()| system.read_file(path, MAX_FILE_BYTES));
    let bytes = read.map_err(|error| error_chain(&error))?;
    let text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())?;
    parse_schedule_file(&text).map_err(|error| error.to_string())
}

/// The files `*.toml`, by name; none without the directory.
fn list_files(system: &dyn System, directory: &Path) -> SystemResult<Vec<PathBuf>> {
    found_or_none(system.check_protected(directory))?;
    let mut names = found_or_none(system.read_dir(directory))?.unwrap_or_default();
    names.retain(|name| {
        Path::new(name).extension() == Some(OsStr::new("toml")) && !name.starts_with('.')
    });
    names.sort_unstable();
    names.truncate(MAX_FILES);
    Ok(names.into_iter().map(|name| directory.join(name)).collect())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use muster_api::system::System as _;
    use muster_api::system::fake::FakeSystem;

    use super::ScheduleTable;

    const DIRECTORY: &str = "/etc/muster/checks.d";

    fn entry(name: &str) -> String {
        format!("[[checks]]\nname = \"{name}\"\ncommand = \"check_{name}\"\ninterval = 60\n")
    }

    #[test]
    fn broken_file_keeps_its_checks_and_stops_no_other() {
        let system = FakeSystem::new();
        let mut table = ScheduleTable::default();
        let directory = Path::new(DIRECTORY);
        assert!(!table.refresh(&system, directory, true), "there is no directory");
        system.add_file(&format!("{DIRECTORY}/a.toml"), entry("load"));
        system.add_file(&format!("{DIRECTORY}/b.toml"), entry("disk") + &entry("load"));
        system.add_file(&format!("{DIRECTORY}/c.toml"), "interval = 5\n");
        system.add_file(&format!("{DIRECTORY}/.d.toml"), "x");
        system.add_file(&format!("{DIRECTORY}/e.toml.bak"), "x");
        assert!(table.refresh(&system, directory, true));
        assert_eq!(table.checks.keys().collect::<Vec<_>>(), ["disk", "load"]);
        assert_eq!(
            table.problems,
            [
                "/etc/muster/checks.d/b.toml: check `load`: /etc/muster/checks.d/a.toml has this name already; rename one of them",
                "/etc/muster/checks.d/c.toml: unknown key `interval`; a file has tables [[checks]] only; none of its checks run"
            ]
        );
        system.add_file(&format!("{DIRECTORY}/a.toml"), "[[checks]]\nname = \"load\"\n");
        system.remove_file(&Path::new(DIRECTORY).join("c.toml")).unwrap();
        assert!(table.refresh(&system, directory, true));
        assert_eq!(table.checks["load"].command, "check_load");
        assert!(
            table.problems[0].ends_with("missing field `command`; its checks run as before"),
            "{:?}",
            table.problems
        );
    }
}
