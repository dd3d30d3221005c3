//! The commands of a node: reads `nrpe.cfg` and the files that it includes, and reads them again only when one of them has changed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use muster_api::system::error::found_or_none;
use muster_api::system::{FileEntryKind, FileMetadata, System, SystemError, SystemResult};

use crate::command_line::{CommandLineError, CommandTemplate};
use crate::nrpe_file::{NrpeDirective, parse_nrpe_file};

/// Largest file, in bytes.
const MAX_FILE_BYTES: u64 = 1024 * 1024;
/// Most files and directories that are read, which also ends files that include each other.
const MAX_SOURCES: usize = 1000;
/// Most commands.
const MAX_COMMANDS: usize = 1000;
/// A file that changed less than this ago is read again: a later change could leave its time as it is.
const SETTLE_TIME: Duration = Duration::from_secs(1);

/// The commands, and who may give arguments.
#[derive(Debug, Default)]
pub(crate) struct CommandTable {
    /// The commands by name; a later definition replaces an earlier one. A line that cannot be used is known with the reason.
    pub(crate) commands: BTreeMap<String, Result<CommandTemplate, CommandLineError>>,
    /// `dont_blame_nrpe`.
    pub(crate) allows_arguments: bool,
    /// `nrpe_user`.
    pub(crate) user: Option<String>,
}

/// Keeps the commands until a file changes.
#[derive(Debug)]
pub(crate) struct CommandTableCache {
    file: PathBuf,
    loaded: Mutex<Option<LoadedTable>>,
}

#[derive(Debug)]
struct LoadedTable {
    sources: Vec<(PathBuf, SourceState)>,
    table: Arc<CommandTable>,
}

/// What identifies the content of a file or directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SourceState {
    Missing,
    Present {
        inode: u64,
        size: u64,
        modified: SystemTime,
        changed: SystemTime,
    },
    /// A symbolic link, whose target may change, or a file that has just changed.
    Unsettled,
}

impl SourceState {
    fn read(system: &dyn System, path: &Path) -> SystemResult<Self> {
        let Some(found) = system.metadata(path)? else { return Ok(Self::Missing) };
        let FileMetadata { kind, inode, size, modified, changed, .. } = found;
        let is_settled = |time: SystemTime| {
            system.now().duration_since(time).is_ok_and(|age| age >= SETTLE_TIME)
        };
        if kind == FileEntryKind::Link || !is_settled(changed.max(modified)) {
            return Ok(Self::Unsettled);
        }
        Ok(Self::Present { inode, size, modified, changed })
    }
}

impl CommandTableCache {
    pub(crate) fn new(file: PathBuf) -> Self {
        Self { file, loaded: Mutex::default() }
    }

    /// The configuration file.
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// The current commands. Blocks.
    pub(crate) fn load(&self, system: &dyn System) -> SystemResult<Arc<CommandTable>> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(loaded) = loaded.as_ref().filter(|loaded| loaded.is_current(system)) {
            return Ok(Arc::clone(&loaded.table));
        }
        let mut reader =
            TableReader { system, sources: Vec::new(), table: CommandTable::default() };
        reader.read_file(&self.file)?;
        let table = Arc::new(reader.table);
        *loaded = Some(LoadedTable { sources: reader.sources, table: Arc::clone(&table) });
        Ok(table)
    }
}

impl LoadedTable {
    fn is_current(&self, system: &dyn System) -> bool {
        self.sources.iter().all(|(path, state)| {
            *state != SourceState::Unsettled
                && SourceState::read(system, path).is_ok_and(|current| current == *state)
        })
    }
}

/// Reads files in the order of their directives.
struct TableReader<'a> {
    system: &'a dyn System,
    sources: Vec<(PathBuf, SourceState)>,
    table: CommandTable,
}

impl TableReader<'_> {
    /// Reads a file and what it includes.
    fn read_file(&mut self, path: &Path) -> SystemResult<()> {
        if !self.add_source(path)? {
            return Ok(());
        }
        self.system.check_protected(path)?;
        let bytes = self.system.read_file(path, MAX_FILE_BYTES)?;
        let directory = path.parent().unwrap_or(Path::new("/")).to_owned();
        for directive in parse_nrpe_file(&String::from_utf8_lossy(&bytes)) {
            match directive {
                NrpeDirective::Command { name, line } => {
                    let commands = &mut self.table.commands;
                    if commands.len() < MAX_COMMANDS || commands.contains_key(&name) {
                        commands.insert(name, CommandTemplate::parse(&line));
                    }
                }
                NrpeDirective::AllowArguments(allowed) => self.table.allows_arguments = allowed,
                NrpeDirective::User(user) => self.table.user = Some(user),
                NrpeDirective::Include(file) => {
                    tolerate_unreadable(self.read_file(&directory.join(file)))?;
                }
                NrpeDirective::IncludeDirectory(included) => {
                    tolerate_unreadable(self.read_directory(&directory.join(included)))?;
                }
            }
        }
        Ok(())
    }

    /// Reads the files `*.cfg` of a directory and of those below it, in order of their names.
    fn read_directory(&mut self, path: &Path) -> SystemResult<()> {
        if !self.add_source(path)? {
            return Ok(());
        }
        found_or_none(self.system.check_protected(path))?;
        for name in found_or_none(self.system.read_dir(path))?.unwrap_or_default() {
            let entry = path.join(&name);
            let kind = self.system.metadata(&entry)?.map(|found| found.kind);
            if kind == Some(FileEntryKind::Directory) {
                tolerate_unreadable(self.read_directory(&entry))?;
            } else if entry.extension().is_some_and(|extension| extension == "cfg") {
                tolerate_unreadable(self.read_file(&entry))?;
            }
        }
        Ok(())
    }

    /// Notes the state of a file or directory before it is read. Returns whether to read it: not a second time, and not beyond the limit.
    fn add_source(&mut self, path: &Path) -> SystemResult<bool> {
        if self.sources.len() >= MAX_SOURCES || self.sources.iter().any(|(known, _)| known == path)
        {
            return Ok(false);
        }
        let state = SourceState::read(self.system, path)?;
        self.sources.push((path.to_owned(), state));
        Ok(true)
    }
}

/// As in NRPE, a file that cannot be read does not disable the others. One that other users can change does: without it, checks could run as another
/// user than the one that it sets.
fn tolerate_unreadable(result: SystemResult<()>) -> SystemResult<()> {
    result.or_else(|error| match error {
        SystemError::Unprotected(_) => Err(error),
        _ => Ok(()),
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;
    use std::time::{Duration, SystemTime};

    use muster_api::system::fake::FakeSystem;

    use super::{CommandTable, CommandTableCache};

    const FILE: &str = "/etc/nagios/nrpe.cfg";

    fn cache() -> CommandTableCache {
        CommandTableCache::new(FILE.into())
    }

    fn names(table: &CommandTable) -> Vec<&str> {
        table.commands.keys().map(String::as_str).collect()
    }

    fn argv(table: &CommandTable, name: &str) -> Vec<String> {
        table.commands[name].as_ref().unwrap().to_argv(&[])
    }

    #[test]
    fn includes_are_read_in_order_and_later_definitions_win() {
        let system = FakeSystem::new();
        system.add_file(
            FILE,
            "command[a]=/first\ninclude_dir=/etc/nagios/nrpe.d\ninclude=local.cfg\n\
             include=/missing.cfg\ncommand[last]=/x\nnrpe_user=nagios\n",
        );
        system.add_file("/etc/nagios/nrpe.d/10-b.cfg", "command[a]=/second\ncommand[b]=/b\n");
        system.add_file("/etc/nagios/nrpe.d/README", "command[no]=/no\n");
        system.add_file("/etc/nagios/nrpe.d/sub/c.cfg", "command[c]=/c | x\ndont_blame_nrpe=1\n");
        // A file that includes itself and its parent ends.
        system.add_file(
            "/etc/nagios/local.cfg",
            "command[local]=/l\ninclude=local.cfg\ninclude=nrpe.cfg\n",
        );
        let table = cache().load(&system).unwrap();
        assert_eq!(names(&table), ["a", "b", "c", "last", "local"]);
        assert_eq!(argv(&table, "a"), ["/second"]);
        assert!(table.commands["c"].is_err() && table.allows_arguments);
        assert_eq!(table.user.as_deref(), Some("nagios"));
    }

    #[test]
    fn missing_main_file_is_an_error() {
        let error = cache().load(&FakeSystem::new()).unwrap_err();
        assert!(error.to_string().contains(FILE), "{error}");
    }

    #[test]
    fn files_are_read_again_only_when_one_has_changed() {
        let system = FakeSystem::new();
        system.add_file(FILE, "include_dir=/d\n");
        system.add_file("/d/a.cfg", "command[a]=/a\n");
        system.set_now(SystemTime::now() + Duration::from_mins(1));
        let cache = cache();
        let first = cache.load(&system).unwrap();
        assert!(Arc::ptr_eq(&first, &cache.load(&system).unwrap()));
        system.add_file("/d/a.cfg", "command[a]=/changed\n");
        let second = cache.load(&system).unwrap();
        assert_eq!(argv(&second, "a"), ["/changed"]);
        assert!(Path::new(FILE).is_absolute());
    }

    #[test]
    fn files_that_have_just_changed_are_read_again() {
        let scratch = tempfile::tempdir().unwrap();
        let system = muster_api::system::real::RealSystem::new(scratch.path().to_owned());
        std::fs::create_dir_all(scratch.path().join("etc/nagios/nrpe.d")).unwrap();
        let write =
            |name: &str, text: &str| std::fs::write(scratch.path().join(name), text).unwrap();
        write("etc/nagios/nrpe.cfg", "include_dir=nrpe.d\n");
        let cache = cache();
        assert_eq!(names(&cache.load(&system).unwrap()), Vec::<&str>::new());
        write("etc/nagios/nrpe.d/a.cfg", "command[a]=/1\n");
        assert_eq!(argv(&cache.load(&system).unwrap(), "a"), ["/1"]);
        // The same size, within the resolution of the file's times.
        write("etc/nagios/nrpe.d/a.cfg", "command[a]=/2\n");
        assert_eq!(argv(&cache.load(&system).unwrap(), "a"), ["/2"]);
    }
}
