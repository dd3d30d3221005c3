//! Access to files below a root directory by descriptor, without following a symbolic link in any path component.
//!
//! Each directory on the path is opened relative to its parent with `O_NOFOLLOW`, and the last component is used relative to
//! its directory's descriptor. If a directory is replaced by a link during a call, the call fails. Does not decide
//! which paths are allowed and does not resolve links: the caller passes a path without links.

mod writing;

use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, Dir, Mode, OFlags, Timespec, Timestamps, UTIME_NOW};
use rustix::io::Errno;

use crate::error::file_error;
use crate::real::metadata::convert_metadata;
use crate::{FileEntryKind, FileMetadata, SystemError, SystemResult};

pub use writing::WritableFile;

/// Maximum depth of a directory tree that is removed; each level holds one descriptor.
const MAX_TREE_DEPTH: usize = 128;

/// A root directory opened for access below it.
#[derive(Debug)]
pub struct ConfinedRoot {
    root: OwnedFd,
}

/// A name in an open directory. The name may not exist.
#[derive(Debug)]
pub struct ConfinedEntry {
    directory: OwnedFd,
    /// `None` for the root directory itself.
    name: Option<OsString>,
    path: PathBuf,
    /// Whether every directory from the root to the entry is searchable by all users.
    searchable: bool,
}

/// A file or directory open for reading.
#[derive(Debug)]
pub struct ConfinedFile {
    file: File,
    status: EntryStatus,
    path: PathBuf,
    searchable: bool,
}

/// Result of `fstat` for an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryStatus {
    /// Kind, mode, owner, size and times.
    pub metadata: FileMetadata,
    /// Number of hard links.
    pub links: u64,
    /// Device number of the file system; together with the inode it identifies the file.
    pub device: u64,
}

impl EntryStatus {
    /// Whether both are the same file.
    pub fn is_same_file(&self, other: &Self) -> bool {
        (self.device, self.metadata.inode) == (other.device, other.metadata.inode)
    }

    /// Whether the file has more than one hard link. Always false for directories.
    pub fn is_hard_linked(&self) -> bool {
        self.metadata.kind != FileEntryKind::Directory && self.links > 1
    }
}

impl ConfinedRoot {
    /// Follows links in its path.
    pub fn open(root: &Path) -> SystemResult<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root =
            rustix::fs::open(root, flags, Mode::empty()).map_err(file_error("open", root))?;
        Ok(Self { root })
    }

    /// The entry at an absolute path; `None` if a parent directory does not exist.
    pub fn find_entry(&self, path: &Path) -> SystemResult<Option<ConfinedEntry>> {
        let mut names = path_components(path)?;
        let name = names.pop();
        let mut directory = self.root.try_clone().map_err(file_error("open", path))?;
        let mut searchable = true;
        for component in names {
            directory = match open_directory(&directory, &component, OFlags::PATH) {
                Ok(next) => next,
                Err(Errno::NOENT) => return Ok(None),
                Err(Errno::NOTDIR) if !is_link(&directory, &component) => return Ok(None),
                Err(Errno::NOTDIR) => return Err(file_error("open", path)(Errno::LOOP)),
                Err(source) => return Err(file_error("open", path)(source)),
            };
            let found = rustix::fs::fstat(&directory).map_err(file_error("stat", path))?;
            searchable &= found.st_mode & 0o001 != 0;
        }
        Ok(Some(ConfinedEntry { directory, name, path: path.to_owned(), searchable }))
    }
}

impl ConfinedEntry {
    /// Status of the entry without following a link; `None` if it does not exist.
    pub fn status(&self) -> SystemResult<Option<EntryStatus>> {
        match self.open_at(OFlags::PATH) {
            Ok(file) => self.status_of_file(&file).map(Some),
            Err(Errno::NOENT) => Ok(None),
            Err(source) => Err(file_error("stat", &self.path)(source)),
        }
    }

    pub fn read_link(&self) -> SystemResult<PathBuf> {
        let target = rustix::fs::readlinkat(&self.directory, self.name(), Vec::new());
        let target = target.map_err(file_error("read link", &self.path))?;
        Ok(OsString::from_vec(target.into_bytes()).into())
    }

    /// Opens a file or directory for reading; does not block on a pipe. Rejects links, devices, pipes and sockets.
    pub fn open(&self) -> SystemResult<ConfinedFile> {
        let kind_error = || {
            let problem = "it is not a regular file or directory";
            file_error("open", &self.path)(io::Error::new(io::ErrorKind::InvalidInput, problem))
        };
        let is_readable_kind = |status: &EntryStatus| {
            matches!(status.metadata.kind, FileEntryKind::File | FileEntryKind::Directory)
        };
        // Check the kind before opening as well, because opening a device can have side effects.
        if self.status()?.is_some_and(|status| !is_readable_kind(&status)) {
            return Err(kind_error());
        }
        let file = self
            .open_at(OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)
            .map_err(file_error("open", &self.path))?;
        let status = self.status_of_file(&file)?;
        if !is_readable_kind(&status) {
            return Err(kind_error());
        }
        Ok(ConfinedFile { file, status, path: self.path.clone(), searchable: self.searchable })
    }

    /// Fails if the entry exists.
    pub fn create_file(&self, mode: u32) -> SystemResult<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let file = self.open_at(flags).map_err(file_error("create", &self.path))?;
        file.set_permissions(Permissions::from_mode(mode))
            .and_then(|()| file.sync_all())
            .map_err(file_error("create", &self.path))
    }

    /// Fails if the entry exists.
    pub fn create_directory(&self, mode: u32) -> SystemResult<()> {
        rustix::fs::mkdirat(&self.directory, self.name(), Mode::RWXU)
            .map_err(file_error("create directory", &self.path))?;
        let created = self.open_at(OFlags::RDONLY | OFlags::DIRECTORY);
        let created = created.map_err(file_error("create directory", &self.path))?;
        created
            .set_permissions(Permissions::from_mode(mode))
            .map_err(file_error("create directory", &self.path))
    }

    /// Removes a file, a link, or with `directory` an empty directory. Fails if the entry does not exist.
    pub fn remove_entry(&self, directory: bool) -> SystemResult<()> {
        let flags = if directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        rustix::fs::unlinkat(&self.directory, self.name(), flags)
            .map_err(file_error("remove", &self.path))
    }

    /// Removes a directory tree, on its own file system only.
    pub fn remove_tree(&self) -> SystemResult<()> {
        let fail = file_error("remove", &self.path);
        let top = open_directory(&self.directory, self.name(), OFlags::RDONLY).map_err(&fail)?;
        let device = rustix::fs::fstat(&top).map_err(&fail)?.st_dev;
        clear_directory(&top, device, MAX_TREE_DEPTH).map_err(&fail)?;
        self.remove_entry(true)
    }

    fn status_of_file(&self, file: &File) -> SystemResult<EntryStatus> {
        let found = file.metadata().map_err(file_error("stat", &self.path))?;
        let metadata = convert_metadata(&found);
        Ok(EntryStatus { metadata, links: found.nlink(), device: found.dev() })
    }

    fn name(&self) -> &OsStr {
        self.name.as_deref().unwrap_or(OsStr::new("."))
    }

    fn open_at(&self, flags: OFlags) -> rustix::io::Result<File> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let private = Mode::RUSR | Mode::WUSR;
        rustix::fs::openat(&self.directory, self.name(), flags, private).map(File::from)
    }
}

impl ConfinedFile {
    pub fn status(&self) -> &EntryStatus {
        &self.status
    }

    /// Whether every user can read it, according to its mode and the modes of its parent directories.
    pub fn is_world_readable(&self) -> bool {
        self.searchable && self.status.metadata.mode & 0o004 != 0
    }

    /// Fails if larger than `limit` bytes.
    pub fn read_content(&self, limit: u64) -> SystemResult<Vec<u8>> {
        let content = muster_files::read_prefix(&self.file, limit.saturating_add(1))
            .map_err(file_error("read", &self.path))?;
        let size = self.status.metadata.size.max(content.len() as u64);
        if size > limit {
            return Err(SystemError::TooLarge { path: self.path.clone(), size, limit });
        }
        Ok(content)
    }

    pub fn set_times_to_now(&self) -> SystemResult<()> {
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        let times = Timestamps { last_access: now, last_modification: now };
        rustix::fs::futimens(&self.file, &times).map_err(file_error("set the times of", &self.path))
    }

    /// Entry names, sorted. Fails if a name is not UTF-8.
    pub fn list_entries(&self) -> SystemResult<Vec<String>> {
        let fail = file_error("list", &self.path);
        let mut found = Vec::new();
        for name in list_names(&self.file).map_err(fail)? {
            let name = name.into_string().map_err(|name| {
                let text = format!("the entry name `{}` is not UTF-8", name.display());
                file_error("list", &self.path)(io::Error::new(io::ErrorKind::InvalidData, text))
            })?;
            found.push(name);
        }
        found.sort();
        Ok(found)
    }

    /// Status of one name in the directory; `None` if it does not exist.
    pub fn status_of(&self, name: &str) -> SystemResult<Option<EntryStatus>> {
        let directory = self.file.try_clone().map_err(file_error("stat", &self.path))?.into();
        let (path, searchable) = (self.path.join(name), self.searchable);
        ConfinedEntry { directory, name: Some(name.into()), path, searchable }.status()
    }
}

/// Content of a regular, world-readable file of at most `limit` bytes; `None` for any other file.
pub(crate) fn read_world_readable(
    root: &Path,
    path: &Path,
    limit: u64,
) -> SystemResult<Option<Vec<u8>>> {
    let Some(entry) = ConfinedRoot::open(root)?.find_entry(path)? else { return Ok(None) };
    if entry.status()?.is_none_or(|status| status.metadata.kind != FileEntryKind::File) {
        return Ok(None);
    }
    let file = entry.open()?;
    let metadata = file.status().metadata;
    if metadata.kind != FileEntryKind::File || metadata.size > limit || !file.is_world_readable() {
        return Ok(None);
    }
    file.read_content(limit).map(Some)
}

/// Removes everything in a directory. Stays on one device, so mounted file systems are not emptied.
fn clear_directory(directory: &OwnedFd, device: u64, depth: usize) -> rustix::io::Result<()> {
    let depth = depth.checked_sub(1).ok_or(Errno::NAMETOOLONG)?;
    for name in list_names(directory)? {
        match rustix::fs::unlinkat(directory, &name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(Errno::ISDIR) => {
                let inner = open_directory(directory, &name, OFlags::RDONLY)?;
                if rustix::fs::fstat(&inner)?.st_dev != device {
                    return Err(Errno::XDEV);
                }
                clear_directory(&inner, device, depth)?;
                rustix::fs::unlinkat(directory, &name, AtFlags::REMOVEDIR)?;
            }
            Err(other) => return Err(other),
        }
    }
    Ok(())
}

/// Entry names without `.` and `..`.
fn list_names(directory: impl AsFd) -> rustix::io::Result<Vec<OsString>> {
    let names = Dir::read_from(directory)?
        .map(|entry| Ok(OsString::from_vec(entry?.file_name().to_bytes().to_vec())));
    names.filter(|name| !name.as_ref().is_ok_and(|name| name == "." || name == "..")).collect()
}

fn open_directory(
    directory: &OwnedFd,
    name: &OsStr,
    access: OFlags,
) -> rustix::io::Result<OwnedFd> {
    let flags = access | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(directory, name, flags, Mode::empty())
}

fn is_link(directory: &OwnedFd, name: &OsStr) -> bool {
    rustix::fs::readlinkat(directory, name, Vec::new()).is_ok()
}

/// Components of an absolute path; rejects `..`.
fn path_components(path: &Path) -> SystemResult<Vec<OsString>> {
    let invalid_path = || SystemError::Path { path: path.to_owned() };
    let mut parts = path.components();
    if parts.next() != Some(Component::RootDir) {
        return Err(invalid_path());
    }
    parts
        .map(|part| match part {
            Component::Normal(name) => Ok(name.to_owned()),
            _ => Err(invalid_path()),
        })
        .collect()
}
