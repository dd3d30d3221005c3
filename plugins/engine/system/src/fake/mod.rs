//! An in-memory machine, for tests and for simulated nodes (`rpcd virtual`): files, scripted programs, a fixed clock, and injected failures.
//!
//! Follows the same contract as the real implementation. A program without a script does not exist.

mod interactive;
mod tree;

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use nix::errno::Errno;

use crate::command::OutputStream;
use crate::error::file_error;
use crate::{
    Command, CommandOutput, FileAttributes, FileEntryKind, FileMetadata, InteractiveProcess,
    LockGuard, ProcessId, ProcessSpool, Signal, System, SystemError, SystemResult,
};
use interactive::{FakeInteractiveProcess, FakeLineHandler};
use tree::{FakeFileTree, FakeNodeContent};

/// Clones share the same state.
#[derive(Clone)]
pub struct FakeSystem {
    root: PathBuf,
    shared: Arc<FakeSystemShared>,
}

struct FakeSystemShared {
    inner: Mutex<FakeSystemState>,
    unlocked: Condvar,
}

type FakeCommandHandler = Arc<dyn Fn(&FakeSystem, &Command) -> CommandOutput + Send + Sync>;

struct FakeSystemState {
    tree: FakeFileTree,
    programs: Vec<(Vec<String>, FakeCommandHandler)>,
    interactive_programs: Vec<(Vec<String>, FakeLineHandler)>,
    commands: Vec<Command>,
    now: SystemTime,
    faults: BTreeSet<(PathBuf, String)>,
    locks: BTreeSet<PathBuf>,
}

impl FakeSystem {
    /// An empty machine with `/`, at 14 November 2023, 22:13:20 UTC.
    pub fn new() -> Self {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let inner = FakeSystemState {
            tree: FakeFileTree::new(now),
            programs: Vec::new(),
            interactive_programs: Vec::new(),
            commands: Vec::new(),
            now,
            faults: BTreeSet::new(),
            locks: BTreeSet::new(),
        };
        let shared =
            Arc::new(FakeSystemShared { inner: Mutex::new(inner), unlocked: Condvar::new() });
        Self { root: PathBuf::from("/"), shared }
    }

    /// Reports this directory as the root, like a scratch root.
    #[must_use]
    pub fn with_root(mut self, root: &str) -> Self {
        self.root = PathBuf::from(root);
        self
    }

    /// Creates or replaces a file, with its parent directories; a new file is owned by root with mode 0644.
    pub fn add_file(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = Path::new(path);
        if let Some(parent) = path.parent() {
            self.add_directory(&parent.to_string_lossy());
        }
        self.put_node(path, FakeNodeContent::File(content.as_ref().to_vec()));
    }

    /// Creates a directory and its parents; keeps an existing one.
    pub fn add_directory(&self, path: &str) {
        let ancestors: Vec<&Path> = Path::new(path).ancestors().collect();
        for directory in ancestors.into_iter().rev() {
            if matches!(self.metadata(directory), Ok(None)) {
                self.put_node(directory, FakeNodeContent::Directory);
            }
        }
    }

    fn put_node(&self, path: &Path, content: FakeNodeContent) {
        let mut inner = self.lock_state();
        let now = inner.now;
        // Fails only for a path below a file; the calling test then finds no directory.
        let _ = inner.tree.put_node(path, content, &FileAttributes::default(), now);
    }

    /// The text of a file; empty if it does not exist.
    pub fn file_text(&self, path: &str) -> String {
        let bytes = self.read_file(Path::new(path), u64::MAX).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Commands that start with these arguments return this output. The last matching script wins.
    pub fn script_output(&self, argv: &[&str], output: CommandOutput) {
        self.script_handler(argv, move |_, _| output.clone());
    }

    /// Commands that start with these arguments call this handler, which may change the machine.
    pub fn script_handler(
        &self,
        argv: &[&str],
        handler: impl Fn(&Self, &Command) -> CommandOutput + Send + Sync + 'static,
    ) {
        let argv = argv.iter().map(|word| (*word).to_owned()).collect();
        self.lock_state().programs.push((argv, Arc::new(handler)));
    }

    /// A conversation with a command that starts with these arguments calls this handler for each line; `None` ends
    /// it.
    pub fn script_conversation(
        &self,
        argv: &[&str],
        handler: impl Fn(&Self, &str) -> Option<String> + Send + Sync + 'static,
    ) {
        let argv = argv.iter().map(|word| (*word).to_owned()).collect();
        self.lock_state().interactive_programs.push((argv, Arc::new(handler)));
    }

    /// All commands run so far, scripted or not.
    pub fn recorded_commands(&self) -> Vec<Command> {
        self.lock_state().commands.clone()
    }

    /// The same as command lines, with arguments joined by spaces.
    pub fn recorded_command_lines(&self) -> Vec<String> {
        self.lock_state().commands.iter().map(|command| command.argv.join(" ")).collect()
    }

    pub fn set_now(&self, now: SystemTime) {
        self.lock_state().now = now;
    }

    /// Makes `verb` (as in error messages: `read`, `write`, `remove`, ...) fail with permission denied on this path.
    pub fn inject_failure(&self, path: &str, verb: &str) {
        self.lock_state().faults.insert((PathBuf::from(path), verb.to_owned()));
    }

    pub fn clear_failures(&self) {
        self.lock_state().faults.clear();
    }

    fn lock_state(&self) -> MutexGuard<'_, FakeSystemState> {
        self.shared.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Resolves the path and runs one operation on it, unless a failure is injected.
    fn with_resolved_path<T>(
        &self,
        verb: &'static str,
        path: &Path,
        follow: bool,
        operation: impl FnOnce(&mut FakeSystemState, &Path) -> io::Result<T>,
    ) -> SystemResult<T> {
        let mut inner = self.lock_state();
        let resolved = inner.tree.resolve_path(path, follow)?;
        let result = if inner.faults.contains(&(path.to_owned(), verb.to_owned())) {
            Err(Errno::EACCES.into())
        } else {
            operation(&mut inner, &resolved)
        };
        result.map_err(file_error(verb, path))
    }
}

impl Default for FakeSystem {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for FakeSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeSystem").finish_non_exhaustive()
    }
}

impl System for FakeSystem {
    fn root(&self) -> &Path {
        &self.root
    }

    fn metadata(&self, path: &Path) -> SystemResult<Option<FileMetadata>> {
        self.with_resolved_path("stat", path, false, |inner, resolved| {
            Ok(inner.tree.get_metadata(resolved))
        })
    }

    fn read_file(&self, path: &Path, limit: u64) -> SystemResult<Vec<u8>> {
        let bytes = self.with_resolved_path("read", path, true, |inner, resolved| {
            match inner.tree.get_content(resolved)? {
                FakeNodeContent::File(bytes) => Ok(bytes.clone()),
                FakeNodeContent::Directory => Err(Errno::EISDIR.into()),
                FakeNodeContent::Link(_) => Err(Errno::ELOOP.into()),
            }
        })?;
        let size = bytes.len() as u64;
        if size > limit {
            return Err(SystemError::TooLarge { path: path.to_owned(), size, limit });
        }
        Ok(bytes)
    }

    fn read_link(&self, path: &Path) -> SystemResult<PathBuf> {
        self.with_resolved_path("read link", path, false, |inner, resolved| {
            match inner.tree.get_content(resolved)? {
                FakeNodeContent::Link(target) => Ok(target.clone()),
                _ => Err(Errno::EINVAL.into()),
            }
        })
    }

    fn read_dir(&self, path: &Path) -> SystemResult<Vec<String>> {
        self.with_resolved_path("list", path, true, |inner, resolved| {
            inner.tree.list_names(resolved)
        })
    }

    fn write_file(
        &self,
        path: &Path,
        content: &[u8],
        attributes: &FileAttributes,
    ) -> SystemResult<()> {
        self.with_resolved_path("write", path, true, |inner, resolved| {
            let existing = inner.tree.get_metadata(resolved);
            if existing.is_some_and(|existing| existing.kind != FileEntryKind::File) {
                return Err(Errno::EINVAL.into());
            }
            let content = FakeNodeContent::File(content.to_vec());
            inner.tree.put_node(resolved, content, attributes, inner.now)
        })
    }

    fn create_dir(&self, path: &Path, attributes: &FileAttributes) -> SystemResult<()> {
        self.with_resolved_path("create directory", path, false, |inner, resolved| {
            if inner.tree.get_metadata(resolved).is_some() {
                return Err(Errno::EEXIST.into());
            }
            inner.tree.put_node(resolved, FakeNodeContent::Directory, attributes, inner.now)
        })
    }

    fn create_symlink(&self, target: &Path, path: &Path) -> SystemResult<()> {
        self.with_resolved_path("link", path, false, |inner, resolved| {
            inner.tree.remove_file(resolved)?;
            let content = FakeNodeContent::Link(target.to_owned());
            inner.tree.put_node(resolved, content, &FileAttributes::default(), inner.now)
        })
    }

    fn set_attributes(&self, path: &Path, attributes: &FileAttributes) -> SystemResult<()> {
        self.with_resolved_path("set the attributes of", path, false, |inner, resolved| {
            inner.tree.set_attributes(resolved, attributes, inner.now)
        })
    }

    fn remove_file(&self, path: &Path) -> SystemResult<()> {
        self.with_resolved_path("remove", path, false, |inner, resolved| {
            inner.tree.remove_file(resolved)
        })
    }

    fn remove_tree(&self, path: &Path) -> SystemResult<()> {
        self.with_resolved_path("remove", path, false, |inner, resolved| {
            inner.tree.remove_tree(resolved)
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> SystemResult<()> {
        self.with_resolved_path("rename", from, false, |inner, resolved| {
            let to = inner.tree.resolve_path(to, false).map_err(io::Error::other)?;
            inner.tree.rename_node(resolved, &to)
        })
    }

    fn lock_file(&self, path: &Path, timeout: Duration) -> SystemResult<Box<dyn LockGuard>> {
        let resolved = self.with_resolved_path("lock", path, false, |inner, resolved| {
            if inner.tree.get_metadata(resolved).is_none() {
                let private = FileAttributes::with_mode(0o600);
                let content = FakeNodeContent::File(Vec::new());
                inner.tree.put_node(resolved, content, &private, inner.now)?;
            }
            Ok(resolved.to_owned())
        })?;
        let (mut inner, wait_result) = self
            .shared
            .unlocked
            .wait_timeout_while(self.lock_state(), timeout, |inner| inner.locks.contains(&resolved))
            .unwrap_or_else(PoisonError::into_inner);
        if wait_result.timed_out() {
            return Err(SystemError::Locked { path: path.to_owned(), timeout });
        }
        inner.locks.insert(resolved.clone());
        Ok(Box::new(FakeLock { system: self.clone(), path: resolved }))
    }

    fn run_command(&self, command: &Command) -> SystemResult<CommandOutput> {
        let handler = {
            let mut inner = self.lock_state();
            inner.commands.push(command.clone());
            let found =
                inner.programs.iter().rev().find(|(argv, _)| command.argv.starts_with(argv));
            found.map(|(_, handler)| Arc::clone(handler))
        };
        if command.cancel.is_cancelled() {
            return Err(SystemError::Cancelled { program: command.program_name().to_owned() });
        }
        let handler = handler.ok_or(Errno::ENOENT).map_err(command.start_error())?;
        let output = handler(self, command);
        if let Some(listener) = &command.listener {
            listener.handle_output(OutputStream::Stdout, &output.stdout);
        }
        Ok(output)
    }

    /// Runs the scripted program to completion and stores its output in the spool.
    fn start_detached(&self, command: &Command, spool: &ProcessSpool) -> SystemResult<ProcessId> {
        let output = self.run_command(command)?;
        let limit = usize::try_from(spool.limit).unwrap_or(usize::MAX);
        let stdout = output.stdout.get(..limit).unwrap_or(&output.stdout);
        let write = |name: &str, bytes: &[u8]| std::fs::write(spool.directory.join(name), bytes);
        write(ProcessSpool::STDOUT, stdout)
            .and_then(|()| write(ProcessSpool::STDERR, b""))
            .and_then(|()| write(ProcessSpool::EXIT, format!("{}\n", output.code).as_bytes()))
            .map_err(command.start_error())?;
        Ok(ProcessId { pid: 0, started: 0 })
    }

    fn start_interactive(&self, command: &Command) -> SystemResult<Box<dyn InteractiveProcess>> {
        let mut inner = self.lock_state();
        inner.commands.push(command.clone());
        let mut scripts = inner.interactive_programs.iter().rev();
        let found = scripts.find(|(argv, _)| command.argv.starts_with(argv));
        let (_, handler) = found.ok_or(Errno::ENOENT).map_err(command.start_error())?;
        Ok(Box::new(FakeInteractiveProcess::new(self, Arc::clone(handler), command)))
    }

    /// Scripted programs have always ended.
    fn is_running(&self, _: &ProcessId) -> bool {
        false
    }

    /// Has no effect.
    fn signal_process(&self, _: &ProcessId, _: Signal, _: bool) -> SystemResult<bool> {
        Ok(false)
    }

    fn now(&self) -> SystemTime {
        self.lock_state().now
    }
}

#[derive(Debug)]
struct FakeLock {
    system: FakeSystem,
    path: PathBuf,
}

impl LockGuard for FakeLock {}

impl Drop for FakeLock {
    fn drop(&mut self) {
        self.system.lock_state().locks.remove(&self.path);
        self.system.shared.unlocked.notify_all();
    }
}
