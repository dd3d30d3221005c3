//! A real machine: the local host, or a directory with the same layout.
//!
//! Paths are resolved inside the root and then accessed through `std::fs`. Does no locking, and does not
//! protect against an attacker who replaces directories with links in the root during a call.

mod detached;
mod interactive;
pub(crate) mod lock;
pub(crate) mod metadata;
mod process;
mod process_setup;
mod replace;
mod root_processes;
mod uninterrupted;
pub(crate) mod xattrs;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::entry_name::{name_text, path_of_text};
use crate::error::file_error;
use crate::path::{check_path, resolve_path};
use crate::{
    Command, CommandOutput, FileAttributes, FileMetadata, InteractiveProcess, LockGuard, ProcessId,
    ProcessSpool, Signal, System, SystemError, SystemResult,
};
use metadata::{absent_is_none, convert_metadata};
use replace::{
    WriteDurability, apply_attributes, parent_directory, replace_file, sync_parent,
    temporary_builder,
};

const DEFAULT_DIR_MODE: u32 = 0o755;

/// A machine whose `/` is the directory `root`.
#[derive(Debug, Clone)]
pub struct RealSystem {
    root: PathBuf,
}

impl RealSystem {
    /// `/` is the local machine; any other directory is a separate machine whose commands run inside it.
    ///
    /// A relative root is resolved against the current working directory.
    pub fn new(root: PathBuf) -> Self {
        let root = std::path::absolute(&root).unwrap_or(root);
        Self { root: fs::canonicalize(&root).unwrap_or(root) }
    }

    /// Whether this is the local machine.
    pub fn is_host(&self) -> bool {
        self.root == Path::new("/")
    }

    /// The path on the host: links before the last component are resolved, and with `follow` the last component too.
    fn resolve_host_path(&self, path: &Path, follow: bool) -> SystemResult<PathBuf> {
        let path = path_of_text(path);
        let inside = resolve_path(&path, follow, &|link| read_link(&self.host_path(link)))?;
        Ok(self.host_path(&inside))
    }

    /// The path on the host, for read-only access. On the local machine the kernel resolves the links
    /// before the last component, which saves a system call for each component.
    fn inspected_path(&self, path: &Path, follow: bool) -> SystemResult<PathBuf> {
        if !self.is_host() {
            return self.resolve_host_path(path, follow);
        }
        check_path(path)?;
        Ok(path_of_text(path).into_owned())
    }

    /// Runs one read-only operation on the path. `operation` must treat a link in the last component as `follow` says.
    fn with_inspected_path<T>(
        &self,
        verb: &'static str,
        path: &Path,
        follow: bool,
        operation: impl FnOnce(&Path) -> io::Result<T>,
    ) -> SystemResult<T> {
        let host = self.inspected_path(path, follow)?;
        operation(&host).map_err(file_error(verb, path))
    }

    /// Resolves the path and runs one operation on it.
    fn with_host_path<T>(
        &self,
        verb: &'static str,
        path: &Path,
        follow: bool,
        operation: impl FnOnce(&Path) -> io::Result<T>,
    ) -> SystemResult<T> {
        let host = self.resolve_host_path(path, follow)?;
        operation(&host).map_err(file_error(verb, path))
    }
}

impl System for RealSystem {
    fn root(&self) -> &Path {
        &self.root
    }

    fn metadata(&self, path: &Path) -> SystemResult<Option<FileMetadata>> {
        self.with_inspected_path("stat", path, false, |host| {
            absent_is_none(fs::symlink_metadata(host))
        })
        .map(|found| found.as_ref().map(convert_metadata))
    }

    fn read_file(&self, path: &Path, limit: u64) -> SystemResult<Vec<u8>> {
        let (size, content) =
            self.with_inspected_path("read", path, true, |host| read_limited(host, limit))?;
        if size > limit {
            return Err(SystemError::TooLarge { path: path.to_owned(), size, limit });
        }
        Ok(content)
    }

    fn read_world_readable(&self, path: &Path, limit: u64) -> SystemResult<Option<Vec<u8>>> {
        let inside = resolve_path(path, false, &|link| read_link(&self.host_path(link)))?;
        crate::confined::read_world_readable(&self.root, &inside, limit)
    }

    fn check_protected(&self, path: &Path) -> SystemResult<()> {
        check_path(path)?;
        Ok(muster_files::check_protected_below(&self.root, path).map(drop)?)
    }

    fn read_link(&self, path: &Path) -> SystemResult<PathBuf> {
        self.with_inspected_path("read link", path, false, |host| fs::read_link(host))
    }

    fn read_dir(&self, path: &Path) -> SystemResult<Vec<String>> {
        self.with_inspected_path("list", path, true, |host| {
            let mut names = fs::read_dir(host)?
                .map(|entry| Ok(name_text(&entry?.file_name())))
                .collect::<io::Result<Vec<_>>>()?;
            names.sort();
            Ok(names)
        })
    }

    fn write_file(
        &self,
        path: &Path,
        content: &[u8],
        attributes: &FileAttributes,
    ) -> SystemResult<()> {
        self.with_host_path("write", path, true, |host| {
            replace_file(host, content, attributes, WriteDurability::Immediate)
        })
    }

    fn write_new(
        &self,
        path: &Path,
        content: &[u8],
        attributes: &FileAttributes,
    ) -> SystemResult<()> {
        self.with_host_path("write", path, true, |host| {
            let durability = match absent_is_none(fs::symlink_metadata(host))? {
                None => WriteDurability::Deferred,
                Some(_) => WriteDurability::Immediate,
            };
            replace_file(host, content, attributes, durability)
        })
    }

    fn sync_file_systems(&self, directories: &[PathBuf]) -> SystemResult<()> {
        let mut synced_devices = Vec::new();
        for directory in directories {
            self.with_host_path("sync", directory, true, |host| {
                // If the directory has been removed since, its files are gone too.
                let Some(found) = absent_is_none(fs::metadata(host))? else { return Ok(()) };
                if !synced_devices.contains(&found.dev()) {
                    nix::unistd::syncfs(File::open(host)?)?;
                    synced_devices.push(found.dev());
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    fn create_dir(&self, path: &Path, attributes: &FileAttributes) -> SystemResult<()> {
        self.with_host_path("create directory", path, false, |host| {
            fs::DirBuilder::new().mode(0o700).create(host)?;
            let mode = attributes.mode.or(Some(DEFAULT_DIR_MODE));
            apply_attributes(host, &FileAttributes { mode, ..*attributes })
        })
    }

    fn create_symlink(&self, target: &Path, path: &Path) -> SystemResult<()> {
        self.with_host_path("link", path, false, |host| {
            let link = temporary_builder().make_in(parent_directory(host)?, |temporary| {
                std::os::unix::fs::symlink(path_of_text(target), temporary)
            })?;
            link.persist(host).map_err(|error| error.error)?;
            sync_parent(host)
        })
    }

    fn set_attributes(&self, path: &Path, attributes: &FileAttributes) -> SystemResult<()> {
        self.with_host_path("set the attributes of", path, false, |host| {
            apply_attributes(host, attributes)
        })
    }

    fn remove_file(&self, path: &Path) -> SystemResult<()> {
        self.with_host_path("remove", path, false, |host| absent_is_none(fs::remove_file(host)))?;
        Ok(())
    }

    fn remove_tree(&self, path: &Path) -> SystemResult<()> {
        self.with_host_path("remove", path, false, |host| {
            if host == self.root {
                let problem = "the root directory cannot be removed";
                return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
            }
            match absent_is_none(fs::symlink_metadata(host))? {
                Some(found) if found.is_dir() => absent_is_none(fs::remove_dir_all(host)),
                Some(_) => absent_is_none(fs::remove_file(host)),
                None => Ok(None),
            }
        })?;
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> SystemResult<()> {
        let to = self.resolve_host_path(to, false)?;
        self.with_host_path("rename", from, false, |host| {
            fs::rename(host, &to)?;
            sync_parent(&to)?;
            sync_parent(host)
        })
    }

    fn lock_file(&self, path: &Path, timeout: Duration) -> SystemResult<Box<dyn LockGuard>> {
        let locked = self
            .with_host_path("lock", path, false, |host| lock::acquire_file_lock(host, timeout))?;
        match locked {
            Some(guard) => Ok(Box::new(guard)),
            None => Err(SystemError::Locked { path: path.to_owned(), timeout }),
        }
    }

    fn run_command(&self, command: &Command) -> SystemResult<CommandOutput> {
        let process = process_setup::prepare_process(self, command)?;
        let output = if command.uninterrupted {
            uninterrupted::run_uninterrupted(&process, command)?
        } else {
            process::run_process(&process, command)?
        };
        process_setup::check_wrapper_failure(self, command, output)
    }

    fn start_detached(&self, command: &Command, spool: &ProcessSpool) -> SystemResult<ProcessId> {
        let process = process_setup::prepare_process(self, command)?;
        let started = detached::start_detached(&process, &command.stdin, spool);
        started.map_err(command.start_error())
    }

    fn start_interactive(&self, command: &Command) -> SystemResult<Box<dyn InteractiveProcess>> {
        let process = process_setup::prepare_process(self, command)?;
        Ok(Box::new(interactive::start_process(&process, command)?))
    }

    fn list_processes(&self) -> SystemResult<Vec<u32>> {
        let root = (!self.is_host()).then_some(&*self.root);
        root_processes::list_processes(root).map_err(file_error("list", Path::new("/proc")))
    }

    fn read_process_file(&self, pid: u32, name: &str, limit: u64) -> SystemResult<Vec<u8>> {
        let path = PathBuf::from(format!("/proc/{pid}/{name}"));
        let (size, content) = read_limited(&path, limit).map_err(file_error("read", &path))?;
        // Checked after the read: the id may have been reused before it.
        if !self.is_host() && !root_processes::has_root(pid, &self.root) {
            let problem = io::Error::from(io::ErrorKind::NotFound);
            return Err(file_error("read", &path)(problem));
        }
        if size > limit {
            return Err(SystemError::TooLarge { path, size, limit });
        }
        Ok(content)
    }

    fn is_running(&self, process: &ProcessId) -> bool {
        detached::is_running(process)
    }

    fn signal_process(
        &self,
        process: &ProcessId,
        signal: Signal,
        group: bool,
    ) -> SystemResult<bool> {
        detached::signal_process(process, signal, group)
            .map_err(|source| SystemError::Signal { pid: process.pid, source })
    }

    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}

/// The link target; `None` if the path is missing or not a link.
fn read_link(host: &Path) -> io::Result<Option<PathBuf>> {
    match fs::read_link(host) {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(None),
        result => absent_is_none(result),
    }
}

/// Returns size and content, truncated after `limit` bytes. Does not block on a pipe.
fn read_limited(host: &Path, limit: u64) -> io::Result<(u64, Vec<u8>)> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(nix::fcntl::OFlag::O_NONBLOCK.bits())
        .open(host)?;
    let size = file.metadata()?.len();
    // One extra byte of capacity, so that reading to the end does not reallocate.
    let capacity = size.min(limit).saturating_add(1);
    let mut content = Vec::with_capacity(usize::try_from(capacity).unwrap_or(0));
    if size <= limit {
        // Files in /proc report a size of 0 bytes but have content.
        file.take(limit.saturating_add(1)).read_to_end(&mut content)?;
    }
    Ok((size.max(content.len() as u64), content))
}
