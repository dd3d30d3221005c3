//! Operating system access as a trait: files, processes and the clock. Leaf crate; does not depend on resources.
//!
//! All path arguments are paths on the managed node (`/etc/passwd`). An implementation may place the node's file system below a `root`
//! prefix, so a scratch directory or a disk image can be managed. Calls block; the caller chooses the thread.
//!
//! - [`real::RealSystem`]: the local machine, or a directory with the same layout.
//! - [`confined::ConfinedRoot`]: file access by descriptor, without following symbolic links.
//! - [`fake::FakeSystem`]: in-memory files and scripted commands, for tests of types and providers.

pub mod checked_lines;
pub mod command;
pub mod confined;
mod entry_name;
pub mod error;
pub mod fake;
pub mod file;
pub mod interactive;
pub mod launch;
pub mod passwd;
mod path;
pub mod pid_lock;
pub mod process;
pub mod real;
pub mod spool_watch;
pub mod state_dir;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

pub use command::{Command, CommandOutput};
pub use error::{SystemError, SystemResult};
pub use file::{FileAttributes, FileEntryKind, FileMetadata};
pub use interactive::InteractiveProcess;
pub use muster_files::read_regular_file;
pub use process::{ProcessId, ProcessSpool, Signal};
pub use spool_watch::SpoolWatch;
pub use state_dir::{FileAppender, StateDir};

/// All paths are absolute and exclude the `root` prefix.
pub trait System: fmt::Debug + Send + Sync {
    /// The real path of the machine's `/`; `/` for the local machine.
    fn root(&self) -> &Path;

    /// The real path of a path of the machine: `/etc` of a machine at `/srv/node` is `/srv/node/etc`.
    fn host_path(&self, path: &Path) -> PathBuf {
        self.root().join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Does not follow a symbolic link in the last component; `None` if the path does not exist.
    fn metadata(&self, path: &Path) -> SystemResult<Option<FileMetadata>>;

    /// Follows links inside the root. Fails if the file is larger than `limit` bytes.
    fn read_file(&self, path: &Path, limit: u64) -> SystemResult<Vec<u8>>;

    /// The content of a regular, world-readable file of at most `limit` bytes; `None` for any other file. Does not follow a
    /// symbolic link in the last component. Mode and content are read from the same open file.
    fn read_world_readable(&self, path: &Path, limit: u64) -> SystemResult<Option<Vec<u8>>> {
        match self.metadata(path)? {
            Some(found)
                if found.kind == FileEntryKind::File
                    && found.mode & 0o004 != 0
                    && found.size <= limit =>
            {
                self.read_file(path, limit).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Fails if another user can change the target of the path: what this process executes or applies must belong to root or to its own user, and so must
    /// every directory and link on the path. Machines in memory have no other users.
    fn check_protected(&self, _path: &Path) -> SystemResult<()> {
        Ok(())
    }

    /// The target of a symbolic link, as stored.
    fn read_link(&self, path: &Path) -> SystemResult<PathBuf>;

    /// The entry names of a directory, sorted. Bytes that are not UTF-8 are represented by private characters, which all path arguments accept.
    fn read_dir(&self, path: &Path) -> SystemResult<Vec<String>>;

    /// Replaces a whole file: writes a temporary file in the same directory, fsync, sets attributes, renames, fsync of the directory.
    /// Attributes that are `None` keep the existing values; a new file gets mode 0644 and the owner of the process.
    fn write_file(
        &self,
        path: &Path,
        content: &[u8],
        attributes: &FileAttributes,
    ) -> SystemResult<()>;

    /// Creates a whole file that does not exist yet, like [`Self::write_file`], but durable only after [`Self::sync_file_systems`] on its
    /// directory. Use it to write many files with a single sync.
    fn write_new(
        &self,
        path: &Path,
        content: &[u8],
        attributes: &FileAttributes,
    ) -> SystemResult<()> {
        self.write_file(path, content, attributes)
    }

    /// Blocks until all data written to the file systems of these directories is on disk.
    fn sync_file_systems(&self, _directories: &[PathBuf]) -> SystemResult<()> {
        Ok(())
    }

    /// The parent must exist.
    fn create_dir(&self, path: &Path, attributes: &FileAttributes) -> SystemResult<()>;

    /// Creates a symbolic link; atomically replaces an existing link or file of that name.
    fn create_symlink(&self, target: &Path, path: &Path) -> SystemResult<()>;

    /// Sets mode, owner and group where given. Does not follow a symbolic link.
    fn set_attributes(&self, path: &Path, attributes: &FileAttributes) -> SystemResult<()>;

    /// Removes a file or link. A missing path is not an error.
    fn remove_file(&self, path: &Path) -> SystemResult<()>;

    /// Removes a directory tree without following symbolic links. A missing path is not an error.
    fn remove_tree(&self, path: &Path) -> SystemResult<()>;

    /// Moves a file or directory within one file system.
    fn rename(&self, from: &Path, to: &Path) -> SystemResult<()>;

    /// Holds an exclusive lock on a lock file until the guard is dropped. Creates the file if needed. Waits at most `timeout`.
    fn lock_file(
        &self,
        path: &Path,
        timeout: std::time::Duration,
    ) -> SystemResult<Box<dyn LockGuard>>;

    /// Runs a program to completion. A non-zero exit code is not an error of this call.
    fn run_command(&self, command: &Command) -> SystemResult<CommandOutput>;

    /// Starts a program in its own session that outlives this process. Its output and exit status go to the spool and replace
    /// those of an earlier program, which must have ended. The command's timeout and cancellation do not apply; the output limit is
    /// that of the spool.
    fn start_detached(&self, command: &Command, spool: &ProcessSpool) -> SystemResult<ProcessId>;

    /// Starts a program for line-based interaction; it runs until the returned handle is dropped. Input, timeout and
    /// cancellation of the command do not apply. Its output limit applies to each line.
    fn start_interactive(&self, command: &Command) -> SystemResult<Box<dyn InteractiveProcess>>;

    /// The ids of the machine's processes, ascending. A machine without `/proc` has none. A scratch root has those whose root directory it is.
    fn list_processes(&self) -> SystemResult<Vec<u32>> {
        let names = error::found_or_none(self.read_dir(Path::new("/proc")))?.unwrap_or_default();
        let mut pids: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
        pids.sort_unstable();
        Ok(pids)
    }

    /// The content of a file of at most `limit` bytes below `/proc/PID`, for one of these processes.
    fn read_process_file(&self, pid: u32, name: &str, limit: u64) -> SystemResult<Vec<u8>> {
        self.read_file(Path::new(&format!("/proc/{pid}/{name}")), limit)
    }

    /// Whether this process is still running; a reused process id does not match.
    fn is_running(&self, process: &ProcessId) -> bool;

    /// Signals this process, or with `group` the process group that it leads. Returns whether it existed.
    fn signal_process(
        &self,
        process: &ProcessId,
        signal: Signal,
        group: bool,
    ) -> SystemResult<bool>;

    fn now(&self) -> SystemTime;
}

/// A lock that is released when dropped.
pub trait LockGuard: fmt::Debug + Send {}
