//! The commands of a node: reads `nrpe.cfg` and the files that it includes, and reads them again only when one of them has changed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use muster_api::system::error::found_or_none;
use muster_api::system::{FileEntryKind, FileMetadata, System, SystemError, SystemResult};

use crate::nrpe::command_line::{CommandLineError, CommandTemplate};
use crate::nrpe::nrpe_file::{NrpeDirective, parse_nrpe_file};

const MAX_FILE_BYTES: u64 = 1024 * 1024;
/// Most files and directories that are read, which also ends files that include each other.
const MAX_SOURCES: usize = 1000;
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
    /// `nrpe_group`.
    pub(crate) group: Option<String>,
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

    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// Blocks.
    pub(crate) fn load(&self, system: &dyn System) -> SystemResult<Arc<CommandTable>> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(loaded) = loaded.as_ref().filter(|loaded| loaded.is_current(system)) {
            return Ok(Arc::clone(&loaded.table));
        }
        let mut reader = TableReader::new(system);
        reader.read_file(&self.file)?;
        let (table, sources) = reader.finish();
        let table = Arc::new(table);
        *loaded = Some(LoadedTable { sources, table: Arc::clone(&table) });
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
    /// The command lines by name, without the prefix.
    lines: BTreeMap<String, String>,
    /// `command_prefix`. As in NRPE the last one is that of all commands.
    prefix: Option<String>,
}

impl<'a> TableReader<'a> {
    fn new(system: &'a dyn System) -> Self {
        let (sources, table) = (Vec::new(), CommandTable::default());
        Self { system, sources, table, lines: BTreeMap::new(), prefix: None }
    }

    /// The commands, and what they were read from.
    fn finish(self) -> (CommandTable, Vec<(PathBuf, SourceState)>) {
        let Self { sources, mut table, lines, prefix, .. } = self;
        let template = |line: String| match &prefix {
            Some(prefix) => CommandTemplate::parse(&format!("{prefix} {line}")),
            None => CommandTemplate::parse(&line),
        };
        table.commands = lines.into_iter().map(|(name, line)| (name, template(line))).collect();
        (table, sources)
    }

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
                    let lines = &mut self.lines;
                    if lines.len() < MAX_COMMANDS || lines.contains_key(&name) {
                        lines.insert(name, line);
                    }
                }
                NrpeDirective::AllowArguments(allowed) => self.table.allows_arguments = allowed,
                NrpeDirective::User(user) => self.table.user = Some(user),
                NrpeDirective::Group(group) => self.table.group = Some(group),
                NrpeDirective::CommandPrefix(prefix) => self.prefix = Some(prefix),
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

    /// Reads the files `*.cfg` of a directory and of those below it, in order of their names. As in NRPE, a hidden directory and a directory `*.cfg` are left out, and
    /// links are followed.
    fn read_directory(&mut self, path: &Path) -> SystemResult<()> {
        if !self.add_source(path)? {
            return Ok(());
        }
        found_or_none(self.system.check_protected(path))?;
        for name in found_or_none(self.system.read_dir(path))?.unwrap_or_default() {
            let entry = path.join(&name);
            let is_file = entry.extension().is_some_and(|extension| extension == "cfg");
            if is_file {
                tolerate_unreadable(self.read_file(&entry))?;
            } else if !name.starts_with('.') && self.is_directory(&entry)? {
                tolerate_unreadable(self.read_directory(&entry))?;
            }
        }
        Ok(())
    }

    /// Whether a path is a directory, or a link to one.
    fn is_directory(&self, path: &Path) -> SystemResult<bool> {
        match self.system.metadata(path)?.map(|found| found.kind) {
            Some(FileEntryKind::Directory) => Ok(true),
            Some(FileEntryKind::Link) => Ok(self.system.read_dir(path).is_ok()),
            _ => Ok(false),
        }
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

    /// As NRPE 4.1.0: hidden directories and directories `*.cfg` are not read, hidden files and links are.
    #[test]
    fn hidden_directories_are_not_read() {
        let scratch = tempfile::tempdir().unwrap();
        let system = muster_api::system::real::RealSystem::new(scratch.path().to_owned());
        let etc = scratch.path().join("etc/nagios");
        for (file, name) in [
            ("d/.hidden/a.cfg", "hidden"),
            ("d/.a.cfg", "hiddenfile"),
            ("d/.cfg", "only_extension"),
            ("d/sub/a.cfg", "sub"),
            ("d/dir.cfg/a.cfg", "dircfg"),
            ("linked/a.cfg", "linked"),
        ] {
            std::fs::create_dir_all(etc.join(file).parent().unwrap()).unwrap();
            std::fs::write(etc.join(file), format!("command[{name}]=/x\n")).unwrap();
        }
        std::os::unix::fs::symlink("../linked", etc.join("d/link")).unwrap();
        std::fs::write(etc.join("nrpe.cfg"), "include_dir=/etc/nagios/d/\n").unwrap();
        let table = cache().load(&system).unwrap();
        assert_eq!(names(&table), ["hiddenfile", "linked", "sub"]);
    }

    #[test]
    fn prefix_is_the_begin_of_each_command() {
        let system = FakeSystem::new();
        let text = "command[a]=/a 'x y'\ncommand_prefix=/first\ncommand_prefix=/usr/bin/sudo -n\nnrpe_group=adm\n";
        system.add_file(FILE, text);
        let table = cache().load(&system).unwrap();
        assert_eq!(argv(&table, "a"), ["/usr/bin/sudo", "-n", "/a", "x y"]);
        assert_eq!(table.group.as_deref(), Some("adm"));
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
