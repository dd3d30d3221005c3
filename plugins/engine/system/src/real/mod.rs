//! A real machine: the one that we run on, or a directory that looks like one.
//!
//! Files go through `std::fs` after their path was resolved inside the root. Does not lock by itself, and does not
//! guard against somebody who swaps directories for links in the root while a call is running.

mod detached;
mod interactive;
pub(crate) mod lock;
mod process;
mod process_setup;
mod xattrs;

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{
    DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown, lchown,
};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::path::{check_path, resolve_path};
use crate::{
    Command, CommandOutput, FileAttributes, FileEntryKind, FileMetadata, InteractiveProcess,
    LockGuard, ProcessId, ProcessSpool, Signal, System, SystemError,
};

/// Mode of a new file when nothing is said.
const DEFAULT_FILE_MODE: u32 = 0o644;
/// Mode of a new directory when nothing is said.
const DEFAULT_DIR_MODE: u32 = 0o755;

/// When what was written must outlive a loss of power.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WriteDurability {
    AtOnce,
    Later,
}

/// A machine whose `/` is the directory `root`.
#[derive(Debug, Clone)]
pub struct RealSystem {
    root: PathBuf,
}

impl RealSystem {
    /// `/` is this machine; another directory is a machine of its own, whose commands run inside it.
    ///
    /// A relative root is taken from the working directory of now.
    pub fn new(root: PathBuf) -> Self {
        let root = std::path::absolute(&root).unwrap_or(root);
        Self {
            root: fs::canonicalize(&root).unwrap_or(root),
        }
    }

    /// Whether the machine is the one that we run on.
    pub fn is_host(&self) -> bool {
        self.root == Path::new("/")
    }

    /// Where `path` is on the host, links before its last name resolved, and that one too with `follow`.
    fn host_path(&self, path: &Path, follow: bool) -> Result<PathBuf, SystemError> {
        let inside = resolve_path(path, follow, &|at| read_link(&join_root(&self.root, at)))?;
        Ok(join_root(&self.root, &inside))
    }

    /// Where `path` is on the host for somebody who only looks at it. On this machine the kernel itself follows the links
    /// before the last name, which spares a look at each of them.
    fn inspected_path(&self, path: &Path, follow: bool) -> Result<PathBuf, SystemError> {
        if !self.is_host() {
            return self.host_path(path, follow);
        }
        check_path(path)?;
        Ok(path.to_owned())
    }

    /// Does one thing with the path that changes nothing. What `act` does with a link at its end must be what `follow` says.
    fn with_inspected_path<T>(
        &self,
        verb: &'static str,
        path: &Path,
        follow: bool,
        act: impl FnOnce(&Path) -> io::Result<T>,
    ) -> Result<T, SystemError> {
        let host = self.inspected_path(path, follow)?;
        act(&host).map_err(|source| SystemError::File {
            verb,
            path: path.to_owned(),
            source,
        })
    }

    /// Resolves the path and does one thing with it.
    fn with_host_path<T>(
        &self,
        verb: &'static str,
        path: &Path,
        follow: bool,
        act: impl FnOnce(&Path) -> io::Result<T>,
    ) -> Result<T, SystemError> {
        let host = self.host_path(path, follow)?;
        act(&host).map_err(|source| SystemError::File {
            verb,
            path: path.to_owned(),
            source,
        })
    }
}

impl System for RealSystem {
    fn root(&self) -> &Path {
        &self.root
    }

    fn metadata(&self, path: &Path) -> Result<Option<FileMetadata>, SystemError> {
        self.with_inspected_path("look at", path, false, |host| {
            absent_is_none(fs::symlink_metadata(host))
        })
        .map(|found| found.as_ref().map(convert_metadata))
    }

    fn read_file(&self, path: &Path, limit: u64) -> Result<Vec<u8>, SystemError> {
        let too_large = |size| SystemError::TooLarge {
            path: path.to_owned(),
            size,
            limit,
        };
        let (size, content) =
            self.with_inspected_path("read", path, true, |host| read_limited(host, limit))?;
        if size > limit {
            return Err(too_large(size));
        }
        Ok(content)
    }

    fn read_world_readable(&self, path: &Path, limit: u64) -> Result<Option<Vec<u8>>, SystemError> {
        let inside = resolve_path(path, false, &|at| read_link(&join_root(&self.root, at)))?;
        crate::confined::read_world_readable(&self.root, &inside, limit)
    }

    fn read_link(&self, path: &Path) -> Result<PathBuf, SystemError> {
        self.with_inspected_path("read the link", path, false, |host| fs::read_link(host))
    }

    fn read_dir(&self, path: &Path) -> Result<Vec<String>, SystemError> {
        self.with_inspected_path("list", path, true, |host| {
            let mut names = fs::read_dir(host)?
                .map(|entry| {
                    entry?
                        .file_name()
                        .into_string()
                        .map_err(|name| not_text(&name))
                })
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
    ) -> Result<(), SystemError> {
        self.with_host_path("write", path, true, |host| {
            replace_file(host, content, attributes, WriteDurability::AtOnce)
        })
    }

    fn write_new(
        &self,
        path: &Path,
        content: &[u8],
        attributes: &FileAttributes,
    ) -> Result<(), SystemError> {
        self.with_host_path("write", path, true, |host| {
            let safety = match absent_is_none(fs::symlink_metadata(host))? {
                None => WriteDurability::Later,
                Some(_) => WriteDurability::AtOnce,
            };
            replace_file(host, content, attributes, safety)
        })
    }

    fn sync_file_systems(&self, directories: &[PathBuf]) -> Result<(), SystemError> {
        let mut settled = Vec::new();
        for directory in directories {
            self.with_host_path("sync", directory, true, |host| {
                // A directory that has gone since has taken its files with it.
                let Some(found) = absent_is_none(fs::metadata(host))? else {
                    return Ok(());
                };
                if !settled.contains(&found.dev()) {
                    nix::unistd::syncfs(File::open(host)?)?;
                    settled.push(found.dev());
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    fn create_dir(&self, path: &Path, attributes: &FileAttributes) -> Result<(), SystemError> {
        self.with_host_path("create directory", path, false, |host| {
            fs::DirBuilder::new().mode(0o700).create(host)?;
            apply_attributes(
                host,
                &FileAttributes {
                    mode: attributes.mode.or(Some(DEFAULT_DIR_MODE)),
                    ..*attributes
                },
            )
        })
    }

    fn create_symlink(&self, target: &Path, path: &Path) -> Result<(), SystemError> {
        self.with_host_path("link", path, false, |host| {
            let link = temporary_builder().make_in(parent_directory(host)?, |temporary| {
                std::os::unix::fs::symlink(target, temporary)
            })?;
            link.persist(host).map_err(|failed| failed.error)?;
            sync_parent(host)
        })
    }

    fn set_attributes(&self, path: &Path, attributes: &FileAttributes) -> Result<(), SystemError> {
        self.with_host_path("set the attributes of", path, false, |host| {
            apply_attributes(host, attributes)
        })
    }

    fn remove_file(&self, path: &Path) -> Result<(), SystemError> {
        self.with_host_path("remove", path, false, |host| {
            absent_is_none(fs::remove_file(host))
        })?;
        Ok(())
    }

    fn remove_tree(&self, path: &Path) -> Result<(), SystemError> {
        self.with_host_path("remove", path, false, |host| {
            if host == self.root {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "the root of the machine is never removed",
                ));
            }
            match absent_is_none(fs::symlink_metadata(host))? {
                Some(found) if found.is_dir() => absent_is_none(fs::remove_dir_all(host)),
                Some(_) => absent_is_none(fs::remove_file(host)),
                None => Ok(None),
            }
        })?;
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), SystemError> {
        let to = self.host_path(to, false)?;
        self.with_host_path("rename", from, false, |host| {
            fs::rename(host, &to)?;
            sync_parent(&to)?;
            sync_parent(host)
        })
    }

    fn lock_file(
        &self,
        path: &Path,
        patience: Duration,
    ) -> Result<Box<dyn LockGuard>, SystemError> {
        let locked = self.with_host_path("lock", path, false, |host| {
            lock::acquire_file_lock(host, patience)
        })?;
        match locked {
            Some(guard) => Ok(Box::new(guard)),
            None => Err(SystemError::Locked {
                path: path.to_owned(),
                patience,
            }),
        }
    }

    fn run_command(&self, command: &Command) -> Result<CommandOutput, SystemError> {
        let process = process_setup::prepare_process(self, command)?;
        let output = process::run_process(&process, command)?;
        process_setup::check_wrapper_failure(self, command, output)
    }

    fn start_detached(
        &self,
        command: &Command,
        spool: &ProcessSpool,
    ) -> Result<ProcessId, SystemError> {
        let process = process_setup::prepare_process(self, command)?;
        detached::start_detached(&process, &command.stdin, spool).map_err(|source| {
            SystemError::Start {
                program: command.program_name().to_owned(),
                source,
            }
        })
    }

    fn start_interactive(
        &self,
        command: &Command,
    ) -> Result<Box<dyn InteractiveProcess>, SystemError> {
        let process = process_setup::prepare_process(self, command)?;
        Ok(Box::new(interactive::start_process(&process, command)?))
    }

    fn is_running(&self, process: &ProcessId) -> bool {
        detached::is_running(process)
    }

    fn signal_process(
        &self,
        process: &ProcessId,
        signal: Signal,
        group: bool,
    ) -> Result<bool, SystemError> {
        detached::signal_process(process, signal, group).map_err(|source| SystemError::Signal {
            pid: process.pid,
            source,
        })
    }

    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}

/// `/etc` below `/srv/node` is `/srv/node/etc`.
fn join_root(root: &Path, inside: &Path) -> PathBuf {
    root.join(inside.strip_prefix("/").unwrap_or(inside))
}

/// The target, when there is a link; nothing there is nothing to follow.
fn read_link(host: &Path) -> io::Result<Option<PathBuf>> {
    match fs::read_link(host) {
        Ok(target) => Ok(Some(target)),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound
            | io::ErrorKind::InvalidInput
            | io::ErrorKind::NotADirectory => Ok(None),
            _ => Err(error),
        },
    }
}

fn absent_is_none<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn not_text(name: &OsStr) -> io::Error {
    let name = name.to_string_lossy().into_owned();
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("the name `{name}` in it is not UTF-8"),
    )
}

pub(crate) fn convert_metadata(found: &fs::Metadata) -> FileMetadata {
    let kind = found.file_type();
    let kind = if kind.is_symlink() {
        FileEntryKind::Link
    } else if kind.is_dir() {
        FileEntryKind::Directory
    } else if kind.is_file() {
        FileEntryKind::File
    } else {
        debug_assert!(
            kind.is_socket() || kind.is_fifo() || kind.is_block_device() || kind.is_char_device()
        );
        FileEntryKind::Other
    };
    FileMetadata {
        kind,
        mode: found.mode() & 0o7777,
        uid: found.uid(),
        gid: found.gid(),
        size: found.size(),
        modified: system_time(found.mtime(), found.mtime_nsec()),
        accessed: system_time(found.atime(), found.atime_nsec()),
        changed: system_time(found.ctime(), found.ctime_nsec()),
        inode: found.ino(),
    }
}

/// Seconds and nanoseconds since 1970; what cannot be said so is 1970.
fn system_time(seconds: i64, nanoseconds: i64) -> SystemTime {
    let size = Duration::from_secs(seconds.unsigned_abs());
    let whole = if seconds < 0 {
        SystemTime::UNIX_EPOCH.checked_sub(size)
    } else {
        SystemTime::UNIX_EPOCH.checked_add(size)
    };
    let rest = Duration::from_nanos(nanoseconds.unsigned_abs());
    whole
        .and_then(|whole| whole.checked_add(rest))
        .unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Size and content, the content cut after `limit` bytes. Never waits for a pipe.
fn read_limited(host: &Path, limit: u64) -> io::Result<(u64, Vec<u8>)> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(nix::fcntl::OFlag::O_NONBLOCK.bits())
        .open(host)?;
    let size = file.metadata()?.len();
    // Room for one byte more than there should be: the end is seen without a second buffer.
    let room = size.min(limit).saturating_add(1);
    let mut content = Vec::with_capacity(usize::try_from(room).unwrap_or(0));
    if size <= limit {
        // Files of /proc say 0 bytes and have more.
        file.take(limit.saturating_add(1))
            .read_to_end(&mut content)?;
    }
    Ok((size.max(content.len() as u64), content))
}

/// A temporary name beside the file, which a listing of the directory explains.
fn temporary_builder() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".muster-").suffix(".tmp");
    builder
}

/// The temporary file starts as 0600 and gets its owner before its mode, so that nobody reads it in between.
fn replace_file(
    host: &Path,
    content: &[u8],
    attributes: &FileAttributes,
    safety: WriteDurability,
) -> io::Result<()> {
    let old = absent_is_none(fs::symlink_metadata(host))?;
    if old.as_ref().is_some_and(|old| !old.is_file()) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is not a regular file",
        ));
    }
    let mut new = temporary_builder().tempfile_in(parent_directory(host)?)?;
    new.write_all(content)?;
    let fresh = new.as_file().metadata()?;
    let uid = attributes
        .uid
        .or(old.as_ref().map(MetadataExt::uid))
        .filter(|id| *id != fresh.uid());
    let gid = attributes
        .gid
        .or(old.as_ref().map(MetadataExt::gid))
        .filter(|id| *id != fresh.gid());
    if uid.is_some() || gid.is_some() {
        fchown(new.as_file(), uid, gid)?;
    }
    if old.is_some() {
        xattrs::copy_xattrs(host, new.as_file())?;
    }
    let mode = attributes
        .mode
        .or(old.as_ref().map(MetadataExt::mode))
        .unwrap_or(DEFAULT_FILE_MODE);
    new.as_file()
        .set_permissions(Permissions::from_mode(mode & 0o7777))?;
    if safety == WriteDurability::Later {
        new.persist(host).map_err(|failed| failed.error)?;
        return Ok(());
    }
    new.as_file().sync_all()?;
    new.persist(host).map_err(|failed| failed.error)?;
    sync_parent(host)
}

/// Owner first: changing it clears the set-user-id bits. A link has no mode of its own on Linux.
fn apply_attributes(host: &Path, attributes: &FileAttributes) -> io::Result<()> {
    let found = fs::symlink_metadata(host)?;
    let uid = attributes.uid.filter(|uid| *uid != found.uid());
    let gid = attributes.gid.filter(|gid| *gid != found.gid());
    if uid.is_some() || gid.is_some() {
        lchown(host, uid, gid)?;
    }
    match attributes.mode {
        Some(mode) if !found.file_type().is_symlink() => {
            fs::set_permissions(host, Permissions::from_mode(mode & 0o7777))
        }
        _ => Ok(()),
    }
}

fn parent_directory(host: &Path) -> io::Result<&Path> {
    host.parent()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "it is the root"))
}

/// Makes a rename survive a power cut.
fn sync_parent(host: &Path) -> io::Result<()> {
    File::open(parent_directory(host)?)?.sync_all()
}
