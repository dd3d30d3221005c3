//! The machine itself, as a trait: its files, its processes, its clock. Leaf room: knows nothing of resources.
//!
//! Every path that goes in is the node's own path (`/etc/passwd`); an implementation may keep the node below a `root`
//! prefix, so that a scratch directory or an image is a machine. Calls block; the caller chooses the thread.
//!
//! - [`real::RealSystem`]: this machine, or a directory that looks like one.
//! - [`confined::ConfinedRoot`]: files by descriptor, where links must not be followed.
//! - [`fake::FakeSystem`]: files in memory and scripted commands, for tests of types and providers.

#![warn(missing_docs)]

pub mod command;
pub mod confined;
pub mod error;
pub mod fake;
pub mod file;
pub mod interactive;
pub mod launch;
mod path;
pub mod pid_lock;
pub mod process;
pub mod real;
pub mod state_dir;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

pub use command::{Command, CommandOutput};
pub use error::SystemError;
pub use file::{FileAttributes, FileEntryKind, FileMetadata};
pub use interactive::InteractiveProcess;
pub use process::{ProcessId, ProcessSpool, Signal};
pub use state_dir::{FileAppender, StateDir};

/// One machine. All paths are absolute and the node's own, without the `root` prefix.
pub trait System: fmt::Debug + Send + Sync {
    /// Where the machine's `/` really is; `/` for the machine that we run on.
    fn root(&self) -> &Path;

    /// What a path is, without following a symbolic link at its end; `None` when nothing is there.
    fn metadata(&self, path: &Path) -> Result<Option<FileMetadata>, SystemError>;

    /// The whole content of a file (links followed inside the root); refused when larger than `limit` bytes.
    fn read_file(&self, path: &Path, limit: u64) -> Result<Vec<u8>, SystemError>;

    /// The content of a regular file of at most `limit` bytes that every user may read; nothing for any other. Follows no
    /// link at the end of the path. Mode and content are those of the same file.
    fn read_world_readable(&self, path: &Path, limit: u64) -> Result<Option<Vec<u8>>, SystemError> {
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

    /// Where a symbolic link points, as written in it.
    fn read_link(&self, path: &Path) -> Result<PathBuf, SystemError>;

    /// The names in a directory, sorted.
    fn read_dir(&self, path: &Path) -> Result<Vec<String>, SystemError>;

    /// Replaces a file as a whole: temporary file beside it, fsync, attributes, rename, fsync of the directory.
    /// Attributes that are `None` keep what the file had; a new file gets 0644 and the process' owner.
    fn write_file(
        &self,
        path: &Path,
        content: &[u8],
        attributes: &FileAttributes,
    ) -> Result<(), SystemError>;

    /// Makes a file as a whole where none is, like [`Self::write_file`], but it is on the disk for certain only after [`Self::sync_file_systems`] of
    /// its directory. For who makes many, and would rather wait once than for each.
    fn write_new(
        &self,
        path: &Path,
        content: &[u8],
        attributes: &FileAttributes,
    ) -> Result<(), SystemError> {
        self.write_file(path, content, attributes)
    }

    /// Returns when everything that was written to the file systems of these directories is on the disk.
    fn sync_file_systems(&self, _directories: &[PathBuf]) -> Result<(), SystemError> {
        Ok(())
    }

    /// Creates one directory. Its parent must exist.
    fn create_dir(&self, path: &Path, attributes: &FileAttributes) -> Result<(), SystemError>;

    /// Creates a symbolic link, replacing a link or file of that name at once.
    fn create_symlink(&self, target: &Path, path: &Path) -> Result<(), SystemError>;

    /// Sets mode, owner and group, those that are given. Does not follow a symbolic link.
    fn set_attributes(&self, path: &Path, attributes: &FileAttributes) -> Result<(), SystemError>;

    /// Removes a file or a link. Nothing there is no error.
    fn remove_file(&self, path: &Path) -> Result<(), SystemError>;

    /// Removes a directory and all below it, never following a link out of it. Nothing there is no error.
    fn remove_tree(&self, path: &Path) -> Result<(), SystemError>;

    /// Moves a file or directory within one file system.
    fn rename(&self, from: &Path, to: &Path) -> Result<(), SystemError>;

    /// Holds an exclusive lock on a lock file, created if need be, until the guard is dropped. Waits `patience` at most.
    fn lock_file(
        &self,
        path: &Path,
        patience: std::time::Duration,
    ) -> Result<Box<dyn LockGuard>, SystemError>;

    /// Runs a program to its end. A program that ends with a non-zero code is a success of this call.
    fn run_command(&self, command: &Command) -> Result<CommandOutput, SystemError>;

    /// Starts a program that outlives us, in a session of its own. Its output and its end go into the spool, in place of
    /// those of an earlier program, which must be over; limit of time and cancellation do not apply to it, the limit of output is
    /// the spool's.
    fn start_detached(
        &self,
        command: &Command,
        spool: &ProcessSpool,
    ) -> Result<ProcessId, SystemError>;

    /// Starts a program to be talked to, line by line, for as long as the conversation is kept. Input, limit of time and
    /// cancellation of the command do not apply; its limit of output is that of a line.
    fn start_interactive(
        &self,
        command: &Command,
    ) -> Result<Box<dyn InteractiveProcess>, SystemError>;

    /// Whether this very process still runs.
    fn is_running(&self, process: &ProcessId) -> bool;

    /// Signals this very process, or with `group` the group that it leads; tells whether it was there.
    fn signal_process(
        &self,
        process: &ProcessId,
        signal: Signal,
        group: bool,
    ) -> Result<bool, SystemError>;

    /// The wall clock.
    fn now(&self) -> SystemTime;
}

/// A lock that is released when dropped.
pub trait LockGuard: fmt::Debug + Send {}
