//! Writing a file in parts by descriptor, and putting it into the place of another one.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _, fchown};
use std::path::PathBuf;

use rustix::fs::{FallocateFlags, OFlags};
use rustix::io::Errno;

use super::{ConfinedEntry, ConfinedFile, EntryStatus};
use crate::error::file_error;
use crate::real::xattrs::copy_file_xattrs;
use crate::{FileAttributes, FileEntryKind, SystemResult};

/// A regular file open for reading and writing.
#[derive(Debug)]
pub struct WritableFile {
    file: File,
    path: PathBuf,
}

impl ConfinedEntry {
    pub fn sibling(&self, name: &str) -> SystemResult<Self> {
        let path = self.path.with_file_name(name);
        if name.is_empty() || name == "." || name == ".." || name.contains(['/', '\0']) {
            return Err(crate::SystemError::Path { path });
        }
        let directory = self.directory.try_clone().map_err(file_error("open", &path))?;
        Ok(Self { directory, name: Some(name.into()), path, searchable: self.searchable })
    }

    /// Creates an empty file that only the process can read, for writing. Fails if the entry exists.
    pub fn create_writable(&self) -> SystemResult<WritableFile> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        let file = self.open_at(flags).map_err(file_error("create", &self.path))?;
        Ok(WritableFile { file, path: self.path.clone() })
    }

    /// Opens a regular file for reading and writing. Rejects links and everything else.
    pub fn open_writable(&self) -> SystemResult<WritableFile> {
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = self.open_at(flags).map_err(file_error("open", &self.path))?;
        if self.status_of_file(&file)?.metadata.kind != FileEntryKind::File {
            let problem = io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file");
            return Err(file_error("open", &self.path)(problem));
        }
        Ok(WritableFile { file, path: self.path.clone() })
    }

    /// Renames this entry to another name in the same directory, whose file it replaces, and makes the change durable.
    pub fn rename_over(&self, target: &Self) -> SystemResult<()> {
        let fail = file_error("rename", &target.path);
        rustix::fs::renameat(&self.directory, self.name(), &target.directory, target.name())
            .map_err(&fail)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory =
            rustix::fs::openat(&target.directory, ".", flags, rustix::fs::Mode::empty());
        rustix::fs::fsync(directory.map_err(&fail)?).map_err(fail)
    }

    /// Bytes that the process may still write to the file system of the directory.
    pub fn available_bytes(&self) -> SystemResult<u64> {
        let found = rustix::fs::fstatvfs(&self.directory)
            .map_err(file_error("examine the file system of", &self.path))?;
        Ok(found.f_bavail.saturating_mul(found.f_frsize))
    }
}

impl ConfinedFile {
    /// Up to `length` bytes from this offset; fewer at the end of the file.
    pub fn read_part(&self, offset: u64, length: usize) -> SystemResult<Vec<u8>> {
        read_part(&self.file, offset, length).map_err(file_error("read", &self.path))
    }

    /// Status of the file now, to detect changes since it was opened.
    pub fn current_status(&self) -> SystemResult<EntryStatus> {
        let found = self.file.metadata().map_err(file_error("stat", &self.path))?;
        let metadata = crate::real::metadata::convert_metadata(&found);
        Ok(EntryStatus { metadata, links: found.nlink(), device: found.dev() })
    }

    /// Sets mode, owner and group where given.
    pub fn set_attributes(&self, attributes: &FileAttributes) -> SystemResult<()> {
        set_attributes(&self.file, attributes)
            .map_err(file_error("set the attributes of", &self.path))
    }
}

impl WritableFile {
    /// Reserves space for this many bytes, where the file system supports it, and sets the size.
    pub fn reserve(&self, bytes: u64) -> SystemResult<()> {
        if bytes > 0 {
            match rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, bytes) {
                Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
                Err(source) => return Err(file_error("reserve space for", &self.path)(source)),
            }
        }
        self.file.set_len(bytes).map_err(file_error("write", &self.path))
    }

    /// Writes all bytes at this offset.
    pub fn write_part(&self, offset: u64, bytes: &[u8]) -> SystemResult<()> {
        self.file.write_all_at(bytes, offset).map_err(file_error("write", &self.path))
    }

    /// Up to `length` bytes from this offset; fewer at the end of the file.
    pub fn read_part(&self, offset: u64, length: usize) -> SystemResult<Vec<u8>> {
        read_part(&self.file, offset, length).map_err(file_error("read", &self.path))
    }

    /// Size in bytes.
    pub fn size(&self) -> SystemResult<u64> {
        let found = self.file.metadata().map_err(file_error("stat", &self.path))?;
        Ok(found.len())
    }

    /// Gives the file the extended attributes of another one, then mode, owner and group where given, and writes everything to disk.
    pub fn complete(
        &self,
        like: Option<&ConfinedFile>,
        attributes: &FileAttributes,
    ) -> SystemResult<()> {
        let complete = || {
            if let Some(like) = like {
                copy_file_xattrs(&like.file, &self.file)?;
            }
            set_attributes(&self.file, attributes)?;
            self.file.sync_all()
        };
        complete().map_err(file_error("write", &self.path))
    }
}

fn read_part(file: &File, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut content = vec![0; length];
    let mut filled = 0;
    while let Some(free) = content.get_mut(filled..).filter(|free| !free.is_empty()) {
        match file.read_at(free, offset.saturating_add(filled as u64)) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    content.truncate(filled);
    Ok(content)
}

/// Owner first: changing it clears the set-user-id bits.
fn set_attributes(file: &File, attributes: &FileAttributes) -> io::Result<()> {
    let found = file.metadata()?;
    let uid = attributes.uid.filter(|uid| *uid != found.uid());
    let gid = attributes.gid.filter(|gid| *gid != found.gid());
    if uid.is_some() || gid.is_some() {
        fchown(file, uid, gid)?;
    }
    match attributes.mode {
        Some(mode) => file.set_permissions(Permissions::from_mode(mode & 0o7777)),
        None => Ok(()),
    }
}
