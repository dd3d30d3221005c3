//! A machine that is only memory, for tests and for nodes that are not machines (`rpcd virtual`): files, scripted programs, a clock that stands still, failures on order.
//!
//! Keeps the same contract as the real one. A program that nobody scripted does not exist.

mod conversation;
mod tree;

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use nix::errno::Errno;

use crate::command::Stream;
use crate::{
    Attributes, Command, Conversation, FileKind, Lock, Metadata, Output, ProcessId, Signal, Spool,
    System, SystemError,
};
use conversation::{Answer, FakeTalk};
use tree::{Content, Tree};

/// A machine in memory. Clones are the same machine.
#[derive(Clone)]
pub struct FakeSystem {
    root: PathBuf,
    shared: Arc<Shared>,
}

struct Shared {
    inner: Mutex<Inner>,
    unlocked: Condvar,
}

type Handler = Arc<dyn Fn(&FakeSystem, &Command) -> Output + Send + Sync>;

struct Inner {
    tree: Tree,
    programs: Vec<(Vec<String>, Handler)>,
    talkers: Vec<(Vec<String>, Answer)>,
    commands: Vec<Command>,
    now: SystemTime,
    faults: BTreeSet<(PathBuf, String)>,
    locks: BTreeSet<PathBuf>,
    signals: Vec<(ProcessId, Signal, bool)>,
}

impl FakeSystem {
    /// An empty machine with `/`, on 14 November 2023, 22:13:20 UTC.
    pub fn new() -> Self {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let inner = Inner {
            tree: Tree::new(now),
            programs: Vec::new(),
            talkers: Vec::new(),
            commands: Vec::new(),
            now,
            faults: BTreeSet::new(),
            locks: BTreeSet::new(),
            signals: Vec::new(),
        };
        let shared = Arc::new(Shared {
            inner: Mutex::new(inner),
            unlocked: Condvar::new(),
        });
        Self {
            root: PathBuf::from("/"),
            shared,
        }
    }

    /// The same machine, saying that it is a scratch root below this directory.
    #[must_use]
    pub fn with_root(mut self, root: &str) -> Self {
        self.root = PathBuf::from(root);
        self
    }

    /// Puts a file there, owned by root, 0644 if new, with the directories above it.
    pub fn file(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = Path::new(path);
        if let Some(parent) = path.parent() {
            self.dir(&parent.to_string_lossy());
        }
        self.put(path, Content::File(content.as_ref().to_vec()));
    }

    /// Makes a directory, with those above it; one that is there is kept.
    pub fn dir(&self, path: &str) {
        let above: Vec<&Path> = Path::new(path).ancestors().collect();
        for directory in above.into_iter().rev() {
            if matches!(self.metadata(directory), Ok(None)) {
                self.put(directory, Content::Directory);
            }
        }
    }

    fn put(&self, path: &Path, content: Content) {
        let mut inner = self.inner();
        let now = inner.now;
        // Only a path below a file is refused, and then the test that asks finds nothing there.
        let _ = inner.tree.put(path, content, &Attributes::default(), now);
    }

    /// The text of a file; empty when there is none.
    pub fn text(&self, path: &str) -> String {
        let bytes = self.read(Path::new(path), u64::MAX).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// From now on, commands that start with these arguments leave this output. The last word given wins.
    pub fn answer(&self, argv: &[&str], output: Output) {
        self.on(argv, move |_, _| output.clone());
    }

    /// From now on, commands that start with these arguments do this, which may change the machine.
    pub fn on(
        &self,
        argv: &[&str],
        handler: impl Fn(&Self, &Command) -> Output + Send + Sync + 'static,
    ) {
        let argv = argv.iter().map(|word| (*word).to_owned()).collect();
        self.inner().programs.push((argv, Arc::new(handler)));
    }

    /// From now on, a conversation with a command that starts with these arguments has this answer to each line; `None` ends
    /// it.
    pub fn talk(
        &self,
        argv: &[&str],
        answer: impl Fn(&Self, &str) -> Option<String> + Send + Sync + 'static,
    ) {
        let argv = argv.iter().map(|word| (*word).to_owned()).collect();
        self.inner().talkers.push((argv, Arc::new(answer)));
    }

    /// Every command that was run so far, scripted or not.
    pub fn commands(&self) -> Vec<Command> {
        self.inner().commands.clone()
    }

    /// The same, as lines of words with a space in between.
    pub fn lines(&self) -> Vec<String> {
        self.inner()
            .commands
            .iter()
            .map(|command| command.argv.join(" "))
            .collect()
    }

    /// Every signal that was asked for so far, and whether it was for a group.
    pub fn signals(&self) -> Vec<(ProcessId, Signal, bool)> {
        self.inner().signals.clone()
    }

    /// Sets the clock.
    pub fn set_now(&self, now: SystemTime) {
        self.inner().now = now;
    }

    /// From now on, `verb` (as errors say it: `read`, `write`, `remove`, ...) is not permitted on this path.
    pub fn fail(&self, path: &str, verb: &str) {
        self.inner()
            .faults
            .insert((PathBuf::from(path), verb.to_owned()));
    }

    /// Takes all ordered failures back.
    pub fn heal(&self) {
        self.inner().faults.clear();
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.shared
            .inner
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Resolves the path and does one thing with it, unless a failure was ordered.
    fn with<T>(
        &self,
        verb: &'static str,
        path: &Path,
        follow: bool,
        act: impl FnOnce(&mut Inner, &Path) -> io::Result<T>,
    ) -> Result<T, SystemError> {
        let mut inner = self.inner();
        let at = inner.tree.resolve(path, follow)?;
        let result = if inner.faults.contains(&(path.to_owned(), verb.to_owned())) {
            Err(Errno::EACCES.into())
        } else {
            act(&mut inner, &at)
        };
        result.map_err(|source| SystemError::File {
            verb,
            path: path.to_owned(),
            source,
        })
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

    fn metadata(&self, path: &Path) -> Result<Option<Metadata>, SystemError> {
        self.with("look at", path, false, |inner, at| {
            Ok(inner.tree.metadata(at))
        })
    }

    fn read(&self, path: &Path, limit: u64) -> Result<Vec<u8>, SystemError> {
        let bytes = self.with("read", path, true, |inner, at| {
            match inner.tree.content(at)? {
                Content::File(bytes) => Ok(bytes.clone()),
                Content::Directory => Err(Errno::EISDIR.into()),
                Content::Link(_) => Err(Errno::ELOOP.into()),
            }
        })?;
        let size = bytes.len() as u64;
        if size > limit {
            return Err(SystemError::TooLarge {
                path: path.to_owned(),
                size,
                limit,
            });
        }
        Ok(bytes)
    }

    fn read_link(&self, path: &Path) -> Result<PathBuf, SystemError> {
        self.with("read the link", path, false, |inner, at| {
            match inner.tree.content(at)? {
                Content::Link(target) => Ok(target.clone()),
                _ => Err(Errno::EINVAL.into()),
            }
        })
    }

    fn read_dir(&self, path: &Path) -> Result<Vec<String>, SystemError> {
        self.with("list", path, true, |inner, at| inner.tree.names(at))
    }

    fn write(
        &self,
        path: &Path,
        content: &[u8],
        attributes: &Attributes,
    ) -> Result<(), SystemError> {
        self.with("write", path, true, |inner, at| {
            if inner
                .tree
                .metadata(at)
                .is_some_and(|found| found.kind != FileKind::File)
            {
                return Err(Errno::EINVAL.into());
            }
            inner
                .tree
                .put(at, Content::File(content.to_vec()), attributes, inner.now)
        })
    }

    fn create_dir(&self, path: &Path, attributes: &Attributes) -> Result<(), SystemError> {
        self.with("create directory", path, false, |inner, at| {
            if inner.tree.metadata(at).is_some() {
                return Err(Errno::EEXIST.into());
            }
            inner
                .tree
                .put(at, Content::Directory, attributes, inner.now)
        })
    }

    fn symlink(&self, target: &Path, path: &Path) -> Result<(), SystemError> {
        self.with("link", path, false, |inner, at| {
            inner.tree.remove_file(at)?;
            inner.tree.put(
                at,
                Content::Link(target.to_owned()),
                &Attributes::default(),
                inner.now,
            )
        })
    }

    fn set_attributes(&self, path: &Path, attributes: &Attributes) -> Result<(), SystemError> {
        self.with("set the attributes of", path, false, |inner, at| {
            inner.tree.set(at, attributes, inner.now)
        })
    }

    fn remove_file(&self, path: &Path) -> Result<(), SystemError> {
        self.with("remove", path, false, |inner, at| {
            inner.tree.remove_file(at)
        })
    }

    fn remove_tree(&self, path: &Path) -> Result<(), SystemError> {
        self.with("remove", path, false, |inner, at| {
            inner.tree.remove_tree(at)
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), SystemError> {
        self.with("rename", from, false, |inner, at| {
            let to = inner.tree.resolve(to, false).map_err(io::Error::other)?;
            inner.tree.rename(at, &to)
        })
    }

    fn lock(&self, path: &Path, patience: Duration) -> Result<Box<dyn Lock>, SystemError> {
        let at = self.with("lock", path, false, |inner, at| {
            if inner.tree.metadata(at).is_none() {
                let private = Attributes {
                    mode: Some(0o600),
                    ..Attributes::default()
                };
                inner
                    .tree
                    .put(at, Content::File(Vec::new()), &private, inner.now)?;
            }
            Ok(at.to_owned())
        })?;
        let (mut inner, waited) = self
            .shared
            .unlocked
            .wait_timeout_while(self.inner(), patience, |inner| inner.locks.contains(&at))
            .unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            return Err(SystemError::Locked {
                path: path.to_owned(),
                patience,
            });
        }
        inner.locks.insert(at.clone());
        Ok(Box::new(FakeLock {
            system: self.clone(),
            at,
        }))
    }

    fn run(&self, command: &Command) -> Result<Output, SystemError> {
        let program = || command.program().to_owned();
        let handler = {
            let mut inner = self.inner();
            inner.commands.push(command.clone());
            let found = inner
                .programs
                .iter()
                .rev()
                .find(|(argv, _)| command.argv.starts_with(argv));
            found.map(|(_, handler)| Arc::clone(handler))
        };
        if command.cancel.is_cancelled() {
            return Err(SystemError::Cancelled { program: program() });
        }
        let handler = handler.ok_or_else(|| SystemError::Start {
            program: program(),
            source: Errno::ENOENT.into(),
        })?;
        let output = handler(self, command);
        if let Some(listener) = &command.listener {
            listener.hear(Stream::Stdout, &output.stdout);
        }
        Ok(output)
    }

    /// Runs the scripted program to its end at once, and leaves its output in the spool.
    fn start(&self, command: &Command, spool: &Spool) -> Result<ProcessId, SystemError> {
        let output = self.run(command)?;
        let limit = usize::try_from(spool.limit).unwrap_or(usize::MAX);
        let kept = output.stdout.get(..limit).unwrap_or(&output.stdout);
        let write = |name: &str, bytes: &[u8]| std::fs::write(spool.directory.join(name), bytes);
        write(Spool::STDOUT, kept)
            .and_then(|()| write(Spool::STDERR, b""))
            .and_then(|()| write(Spool::EXIT, format!("{}\n", output.code).as_bytes()))
            .map_err(|source| SystemError::Start {
                program: command.program().to_owned(),
                source,
            })?;
        Ok(ProcessId { pid: 0, started: 0 })
    }

    fn converse(&self, command: &Command) -> Result<Box<dyn Conversation>, SystemError> {
        let mut inner = self.inner();
        inner.commands.push(command.clone());
        let mut talkers = inner.talkers.iter().rev();
        let found = talkers.find(|(argv, _)| command.argv.starts_with(argv));
        let (_, answer) = found.ok_or_else(|| SystemError::Start {
            program: command.program().to_owned(),
            source: Errno::ENOENT.into(),
        })?;
        Ok(Box::new(FakeTalk::new(self, Arc::clone(answer), command)))
    }

    /// Scripted programs have always ended.
    fn is_running(&self, _: &ProcessId) -> bool {
        false
    }

    /// Nobody is there to hear it; what was asked for can be read from [`Self::signals`].
    fn signal(
        &self,
        process: &ProcessId,
        signal: Signal,
        group: bool,
    ) -> Result<bool, SystemError> {
        self.inner().signals.push((*process, signal, group));
        Ok(false)
    }

    fn now(&self) -> SystemTime {
        self.inner().now
    }
}

#[derive(Debug)]
struct FakeLock {
    system: FakeSystem,
    at: PathBuf,
}

impl Lock for FakeLock {}

impl Drop for FakeLock {
    fn drop(&mut self) {
        self.system.inner().locks.remove(&self.at);
        self.system.shared.unlocked.notify_all();
    }
}
